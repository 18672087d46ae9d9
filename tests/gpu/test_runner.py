"""`make gpu` ends in time with what it has, whatever its stages do."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.processes import python

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FINDS = """
import sys
sys.path.insert(0, {benchmarks!r})
from pathlib import Path
from gpu.outcome import Outcome
found = Outcome(Path({results!r}) / "{stage}.json")
found.claim("the earth is round", True, radius_km=6371.0)
{then}
"""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The package of `make gpu`, whose other modules are there once it is."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu.in_turn
    import gpu.packages
    import gpu.runner
    import gpu.summary

    yield gpu
    for name in [name for name in sys.modules if name.split(".")[0] == "gpu"]:
        del sys.modules[name]


@pytest.fixture
def run(gpu: Any, tmp_path: Path) -> Any:
    """Runs stages that are a few lines of Python each, named after what they do."""
    for name in ("results", "logs"):
        (tmp_path / name).mkdir()

    def run_these(
        stages: dict[str, str],
        seconds: float = 30.0,
        limit: float = 20.0,
        needed: tuple[str, ...] = (),
        least: float = 0.0,
    ) -> list[Any]:
        listed = [gpu.runner.Stage(name, "tries it", limit, name in needed) for name in stages]

        def command(stage: Any) -> list[str]:
            text = FINDS.format(
                benchmarks=str(BENCHMARKS), results=str(tmp_path / "results"), stage=stage.name, then=stages[stage.name]
            )
            return [sys.executable, "-S", "-c", text]

        def after_each(ran: list[Any]) -> None:
            gpu.summary.write_summary(tmp_path, ran, {"device": "none"})

        ends_at = time.monotonic() + seconds
        found: list[Any] = gpu.runner.run_stages(listed, command, tmp_path, ends_at, os.environ, after_each, least)
        return found

    return run_these


def _summary(folder: Path) -> tuple[dict[str, Any], str]:
    return json.loads((folder / "summary.json").read_text()), (folder / "summary.txt").read_text()


def test_a_stage_that_hangs_is_stopped_and_keeps_what_it_found(run: Any, tmp_path: Path) -> None:
    hung, after = run({"hangs": "import time; time.sleep(60)", "after": "print('done')"}, limit=0.4)
    assert hung.outcome == "stopped after 0 s"
    assert hung.found["claims"][0]["holds"] is True
    assert after.outcome == "done"
    record, text = _summary(tmp_path)
    assert [stage["outcome"] for stage in record["stages"]] == ["stopped after 0 s", "done"]
    assert "holds          the earth is round (radius_km 6371)" in text


def test_a_stage_that_crashes_costs_no_other(run: Any, tmp_path: Path) -> None:
    crashed, raised, after = run(
        {
            "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "raises": "raise ValueError('no such kernel')",
            "after": "",
        }
    )
    assert (crashed.outcome, raised.outcome) == ("failed: ended by signal 11", "failed: exit code 1")
    assert raised.last_words[-1] == "ValueError: no such kernel"
    assert after.outcome == "done"
    assert "| ValueError: no such kernel" in _summary(tmp_path)[1]


def test_nothing_of_a_stage_runs_on(run: Any, tmp_path: Path) -> None:
    """Not what started a session of its own, either, as `stepscope launch` does."""
    left = tmp_path / "left"
    child = f"import pathlib, os, time; pathlib.Path({str(left)!r}).write_text(str(os.getpid())); time.sleep(60)"
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(left)!r}).exists(): time.sleep(0.01)"
    (ran,) = run(
        {
            "leaves": f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-S', '-c', {child!r}], start_new_session=True)\n{wait}"
        }
    )
    assert ran.outcome == "done"
    pid = int(left.read_text())
    assert not Path(f"/proc/{pid}").exists() or b"\nState:\tZ" in Path(f"/proc/{pid}/status").read_bytes()


def test_with_the_time_over_the_rest_is_named_and_not_run(run: Any, tmp_path: Path) -> None:
    began = time.monotonic()
    hung, *rest = run({"hangs": "import time; time.sleep(60)", "second": "", "third": ""}, seconds=0.5, least=0.2)
    assert time.monotonic() - began < 50  # of the 60 that it would hang
    assert hung.outcome.startswith("stopped after")
    assert [one.outcome for one in rest] == ["not run: no time left"] * 2
    assert [one.seconds for one in rest] == [None, None]
    assert "not run: no time left" in _summary(tmp_path)[1]


def test_without_a_device_nothing_else_is_tried(run: Any) -> None:
    first, second = run({"device": "sys.exit(1)", "peaks": ""}, needed=("device",))
    assert first.outcome == "failed: exit code 1"
    assert second.outcome == "not run: the stage device did not succeed"


def test_a_log_keeps_its_end(gpu: Any, run: Any, tmp_path: Path) -> None:
    run({"talks": "print('x' * 300_000)\nprint('the end')"})
    log = (tmp_path / "logs" / "talks.log").read_text()
    assert len(log) == gpu.runner.LONGEST_LOG
    assert log.endswith("the end\n")


def test_of_each_group_the_first_ends_before_the_others_and_the_most_valuable_come_first(gpu: Any) -> None:
    groups = [["a0", "a2", "a1"], ["b0", "b1"]]
    done = gpu.in_turn.run_in_turn(groups, lambda one: int(one[1]), str.upper, at_once=1)
    assert list(done) == [(one, one.upper()) for one in ("a0", "b0", "a1", "b1", "a2")]
    together = list(gpu.in_turn.run_in_turn(groups, lambda one: int(one[1]), str.upper, 4))
    assert sorted(together) == [(one, one.upper()) for one in ("a0", "a1", "a2", "b0", "b1")]


def test_what_does_not_hold_is_counted_and_shown(gpu: Any, run: Any, tmp_path: Path) -> None:
    ran = run({"finds": "found.claim('it is flat', False, off=1.5); found.claim('it spins', None)"})
    assert gpu.summary.refuted(ran) == 1
    assert gpu.summary.unsuccessful(ran) == []
    text = _summary(tmp_path)[1]
    assert "DOES NOT HOLD  it is flat (off 1.5)" in text
    assert "not tested     it spins" in text


def test_tables_are_aligned_and_what_was_not_measured_is_a_dash(gpu: Any) -> None:
    rows = [{"way": "plain", "us": 1.0}, {"way": "phases"}]
    ran = [gpu.runner.Ran("s", "about", "done", 1.0, {"figures": {"ways": rows}})]
    lines = list(gpu.summary.summary_lines(ran, {}))
    assert lines[-3:] == ["    way     us", "    plain   1", "    phases  –"]


def _distribution(folder: Path, name: str, version: str) -> None:
    found = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_what_is_missing_or_too_old_is_named(gpu: Any, tmp_path: Path) -> None:
    _distribution(tmp_path, "duckdb", "1.4.2")
    _distribution(tmp_path, "rich", "9.0")
    wanted = ["duckdb>=1.4", "rich>=13.7", "backports.zstd>=1.0"]
    assert gpu.packages.missing(wanted, [str(tmp_path)]) == ["rich>=13.7", "backports.zstd>=1.0"]


def test_what_is_said_to_type_brings_no_torch(gpu: Any) -> None:
    told = gpu.packages.how_to_get(["duckdb>=1.4", "torch"])
    assert "make wheels WHEELS='duckdb' " in told
    assert "make gpu PYTHON=..." in told
    assert "WHEELS" not in gpu.packages.how_to_get(["torch"])


def test_the_requirements_are_those_of_the_project(gpu: Any) -> None:
    names = {one.partition(">=")[0] for one in gpu.packages.requirements()}
    assert {"duckdb", "numpy", "pyarrow", "isal", "click"} <= names
    assert ("tomli" in names) == (sys.version_info < (3, 11))


def test_of_a_folder_of_wheels_only_what_is_missing_is_installed(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    wheels.mkdir()
    for name in ("duckdb-9.9-py3-none-any.whl", "isal-1.8.0-cp399-cp399-any.whl", "pytest-99.0-py3-none-any.whl"):
        (wheels / name).write_bytes(b"")
    monkeypatch.setattr(gpu.packages, "missing", lambda _wanted: ["isal>=1.6"])
    asked: list[list[str]] = []
    monkeypatch.setattr(gpu.packages, "_done", lambda command: asked.append(command) or "no wheel")
    assert gpu.packages.install(wheels, site) == ["isal-1.8.0-cp399-cp399-any.whl: no wheel"]
    assert [Path(command[-1]).name for command in asked] == ["isal-1.8.0-cp399-cp399-any.whl"] * 2
    assert "--no-index" in asked[0]
    assert gpu.packages.install(tmp_path / "none", site) == []


def test_each_stage_is_a_module_and_is_listed() -> None:
    done = python(str(BENCHMARKS / "gpu"), "--list", check=True)
    listed = [line.split()[0] for line in done.stdout.splitlines()]
    assert listed[0] == "device"
    modules = {path.stem for path in (BENCHMARKS / "gpu" / "stages").glob("*.py")}
    assert set(listed) <= modules
