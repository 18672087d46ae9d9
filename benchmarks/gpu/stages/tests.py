"""Runs the tests marked `gpu` with pytest; names each failure."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from xml.etree import ElementTree

from gpu.stages.surroundings import DEVICE, ROOT, SCRATCH, outcome_of, run

SECONDS = 95.0


def marked_files() -> list[Path]:
    """The files with such tests: collecting all files would take as long as running these."""
    return [
        path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "pytest.mark.gpu" in path.read_text("utf-8")
    ]


def main() -> int:
    found = outcome_of("tests")
    if importlib.util.find_spec("pytest") is None:
        found.note("pytest is not installed here")
        return 1
    report = SCRATCH / "tests.xml"
    files = marked_files()
    options = ["-q", "-p", "no:cacheprovider", "-m", "gpu", f"--junitxml={report}"]
    if DEVICE == "cuda":
        options.append("--gpu")
    # No installed plug-in is needed, and some change how tests run.
    ended = run(
        [sys.executable, "-m", "pytest", *options, *files],
        SECONDS,
        cwd=ROOT,
        more={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    print(ended.printed)
    if not report.is_file():
        found.claim("the tests marked gpu pass", False, why=ended.last_line())
        return 1
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))  # noqa: S314 - pytest wrote it
    failed = [case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    passed = len(cases) - len(failed) - len(skipped)
    found.claim(
        "the tests marked gpu pass",
        None if not passed and not failed else not failed,
        passed=passed,
        failed=failed,
        skipped=len(skipped),
    )
    if ended.code not in (0, 1):
        found.note(f"pytest: {ended.last_line()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
