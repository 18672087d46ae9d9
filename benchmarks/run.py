"""Measures StepScope, `json.load` and HTA on one trace, in one run, and prints how they compare.

    make bench
    python benchmarks/run.py --trace FILE --hta-python .venv-hta/bin/python -o bench.json

benchmarks/README.md says how each figure is made.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from processes import Measured, run_measured

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
STEPSCOPE = [PYTHON, "-m", "stepscope"]


def main() -> int:
    """The command line."""
    asked = _arguments()
    if asked.hta_python is not None and not _has_hta(asked.hta_python):
        _say(f"{asked.hta_python} has no HTA: it is left out")
        asked.hta_python = None
    scratch = Path(tempfile.mkdtemp(prefix="stepscope-bench-", dir=asked.scratch))
    try:
        trace = asked.trace or _generate(scratch, asked.source, asked.size)
        results = measure(trace, scratch, asked.repeat, asked.hta_python)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _say("\n" + as_text(results))
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    _say(f"\n{asked.output}: the same as JSON")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="StepScope, json.load and HTA on one trace.")
    parser.add_argument("--trace", type=Path, help="measure on this file; else one is generated")
    parser.add_argument("--from", dest="source", type=Path, help="generate from this trace's shape")
    parser.add_argument("--size", default="512MB", help="size of the generated trace")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each of our own figures")
    parser.add_argument(
        "--hta-python", type=Path, help="a Python that has HTA; without it HTA is left out"
    )
    parser.add_argument("--scratch", type=Path, help="where the trace and stores go meanwhile")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/bench.json"))
    return parser.parse_args()


def _has_hta(python: Path) -> bool:
    return (
        python.exists()
        and subprocess.run([str(python), "-c", "import hta"], check=False).returncode == 0
    )


def _generate(scratch: Path, source: Path | None, size: str) -> Path:
    target = scratch / "trace.json"
    shape = ["--from", str(source), "--mark-steps"] if source else ["--shape", "builtin"]
    command = [PYTHON, str(HERE / "generate_trace.py"), *shape, "--size", size, "-o", str(target)]
    subprocess.run(command, check=True)
    return target


def measure(trace: Path, scratch: Path, repeat: int, hta_python: Path | None) -> dict[str, Any]:
    """All figures of one trace. Every program finds the file in the page cache."""
    _read_through(trace)
    environment = {"STEPSCOPE_CACHE": str(scratch / "cache")}
    store = scratch / "store"

    def afresh() -> None:
        shutil.rmtree(store, ignore_errors=True)

    runs = {
        "import": _repeated(
            "stepscope import",
            [*STEPSCOPE, "import", str(trace), "-o", str(store)],
            environment,
            repeat,
            afresh,
        )
    }
    store_bytes = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    ask = [*STEPSCOPE, "summary", str(trace)]
    runs["first summary"] = _repeated("stepscope summary, first", ask, environment, 1)
    runs["second summary"] = _repeated("stepscope summary, again", ask, environment, repeat)
    questions = json.loads(
        _checked([PYTHON, str(HERE / "question_times.py"), str(store)], environment).output
    )
    runs["json.load"] = _repeated(
        "json.load", [PYTHON, str(HERE / "json_load.py"), str(trace)], {}, 1
    )
    if hta_python is not None:
        runs["HTA load"] = _repeated(
            "HTA load", [str(hta_python), str(HERE / "hta_load.py"), str(trace)], {}, 1
        )
    return {
        "machine": _machine(),
        "trace": {"bytes": trace.stat().st_size, "name": trace.name},
        "store_bytes": store_bytes,
        "events": json.loads(runs["json.load"][0].output)["events"],
        "import_stepscope_s": _import_time(),
        "runs": {name: _figures(measured) for name, measured in runs.items()},
        "hta_version": json.loads(runs["HTA load"][0].output)["version"]
        if "HTA load" in runs
        else None,
        **questions,
    }


def _repeated(
    what: str,
    command: Sequence[str],
    environment: dict[str, str],
    times: int,
    before: Callable[[], None] = lambda: None,
) -> list[Measured]:
    measured = []
    for _ in range(times):
        before()
        measured.append(_checked(command, environment))
        _say(f"{what}: {measured[-1].wall_s:.2f} s, {measured[-1].peak_bytes / 1e6:.0f} MB")
    return measured


def _checked(command: Sequence[str], environment: dict[str, str]) -> Measured:
    measured = run_measured(command, environment)
    if measured.exit_code != 0:
        sys.exit(f"{' '.join(command)} ended with {measured.exit_code}:\n{measured.errors[-4000:]}")
    return measured


def _figures(runs: list[Measured]) -> dict[str, Any]:
    """The median run's times and the largest peak of all runs."""
    return {
        "wall_s": statistics.median(run.wall_s for run in runs),
        "wall_s_all": [run.wall_s for run in runs],
        "cpu_s": statistics.median(run.cpu_s for run in runs),
        "peak_bytes": max(run.peak_bytes for run in runs),
    }


def _import_time() -> float:
    """`import stepscope` within a fresh interpreter, the best of five."""
    code = "import time; t = time.perf_counter(); import stepscope; print(time.perf_counter() - t)"
    return min(float(_checked([PYTHON, "-c", code], {}).output) for _ in range(5))


def _read_through(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def _machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def as_text(results: dict[str, Any]) -> str:
    """The results as a table for people."""
    runs = results["runs"]
    ours = runs["import"]
    size = results["trace"]["bytes"]
    lines = [
        f"{size / 1e6:.0f} MB of Kineto JSON, {results['events']} events, {results['machine']['cores']} cores, "
        f"{results['machine']['memory_bytes'] / 2**30:.0f} GiB, Python {results['machine']['python']}",
        "",
        f"{'whole process':<26}{'wall':>10}{'CPU':>10}{'peak memory':>14}{'import is faster by':>22}{'and needs':>14}",
    ]
    for name, run in runs.items():
        others = name in ("json.load", "HTA load")
        faster = f"{run['wall_s'] / ours['wall_s']:.1f} x" if others else ""
        memory = f"{ours['peak_bytes'] / run['peak_bytes']:.2f} of it" if others else ""
        label = f"HTA {results['hta_version']} load" if name == "HTA load" else name
        label = label if others else f"stepscope, {name}"
        wall, cpu = f"{run['wall_s']:.2f} s", f"{run['cpu_s']:.2f} s"
        peak = f"{run['peak_bytes'] / 1e6:.0f} MB"
        lines.append(f"{label:<26}{wall:>10}{cpu:>10}{peak:>14}{faster:>22}{memory:>14}")
    lines += [
        "",
        f"import throughput     {size / 1e6 / ours['wall_s']:.0f} MB/s of JSON",
        f"store                 {results['store_bytes'] / 1e6:.1f} MB, {100 * results['store_bytes'] / size:.1f} % of the JSON",
        f"import stepscope      {1e3 * results['import_stepscope_s']:.1f} ms",
        f"open the store        {1e3 * results['open_s']:.1f} ms",
        "",
        f"{'in one process':<26}{'first':>10}{'again':>14}{'rows':>10}",
    ]
    for one in results["questions"]:
        first, again = f"{1e3 * one['first_s']:.0f} ms", f"{1e3 * one['second_s']:.0f} ms"
        lines.append(f"{one['question']:<26}{first:>10}{again:>14}{one['rows']:>10}")
    return "\n".join(lines)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
