"""The example package adds one thing of each kind, and each is used as ours are."""

import ast
import importlib.util
import json
import os
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.processes import python

import stepscope
from stepscope import plugin
from stepscope.base import plugins
from stepscope.cli.main import main
from stepscope.costs.calibration import known_devices
from stepscope.questions import find
from stepscope.report import page_data
from stepscope.store import build

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "plugin"
SAMPLE = EXAMPLE / "sample.klog"
WAITS = {"rank": 0, "device": 0, "stream": 7, "events": 2, "mean_wait_ns": 290_000.0, "largest_wait_ns": 560_000}


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Runs the command in this process and returns what it prints."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))

    def run_here(*arguments: str) -> str:
        assert main(arguments) == 0
        return capsys.readouterr().out

    return run_here


@pytest.fixture
def kineto(tmp_path):
    """A folder with one small trace."""
    path = tmp_path / "recordings" / "rank0.json"
    path.parent.mkdir()
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", '
        '"pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": {}}]}'
    )
    return path


@pytest.fixture
def trace(example, use):
    use(example)
    with stepscope.open(SAMPLE, cache=False) as opened:
        yield opened


def test_a_question_has_a_method_and_a_place_in_sql(trace):
    assert trace.waits().rows() == [WAITS]
    assert trace.waits(min_wait_ns=100_000, columns=["events"]).rows() == [{"events": 1}]
    assert trace.ask("waits").rows() == [WAITS]
    assert trace.sql("SELECT largest_wait_ns FROM answer.waits").rows() == [{"largest_wait_ns": 560_000}]
    assert "waits" in dir(trace)


def test_a_report_holds_its_answer_and_all_that_draws_it(trace, monkeypatch):
    own = [form for form in page_data.forms() if form.question.name == "waits"]
    monkeypatch.setattr(page_data, "forms", lambda: own)
    data = page_data.page_data([page_data.OpenRecording("run", trace)])
    assert list(data["replies"]) == ['[["1"],"waits",[]]']
    (declared,) = (one for one in data["declarations"] if one["name"] == "waits")
    assert declared["added_by"].startswith("plug-in waits")
    assert [column["name"] for column in declared["columns"]] == list(WAITS)


def test_a_parameter_of_a_question_is_checked(trace):
    with pytest.raises(stepscope.StepScopeError, match="no parameter 'atleast'"):
        trace.waits(atleast=3)


def test_an_unknown_method_says_what_there_is(trace):
    with pytest.raises(AttributeError, match="did you mean waits"):
        trace.waitz  # noqa: B018  # looking it up is what fails
    assert not hasattr(trace, "_repr_html_")


def test_a_question_is_marked_by_the_checks_on_its_evidence(trace):
    declared = find("waits")
    assert set(declared.rests_on) == {"launches", "device-times", "clocks"}
    assert str(declared.added_by) == ("plug-in waits (stepscope.questions) of stepscope-example 1.0")


def test_a_format_is_read_with_its_damage_counted(example, use, tmp_path):
    use(example)
    damaged = tmp_path / "damaged.klog"
    damaged.write_text(SAMPLE.read_text() + "kernel,gemm,7,soon,5,3,,\nkernel,gemm,7,1,-5,3,,\nghost,g,7,1,5,3,,\n")
    with stepscope.open(damaged, cache=False) as trace:
        (source,) = trace.sources().rows()
        assert (source["format"], source["events_read"], source["events_dropped"]) == ("klog", 7, 3)
    with pytest.raises(stepscope.StepScopeError, match=r"damaged \(unreadable, wrong_type\)"):
        stepscope.open(damaged, cache=False, strict=True)


def test_the_invariants_of_stores_hold(trace):
    assert [row["check"] for row in trace.checks().rows() if row["severity"] != "ok"] == []


def test_an_operator_and_a_device_have_limits(example, use, trace):
    (row,) = trace.roofline().rows()
    assert (row["name"], row["dtype"], row["device_name"]) == ("mylib::fused_op", "float32", "Example GPU 7")
    assert row["flops"] == 2 * 9 * 1024 * 1024
    assert trace.prof(columns=["flops"]).rows() == [{"flops": 9 * 1024 * 1024}] * 2
    assert known_devices().find("Example GPU 7").memory_bytes_per_s == 500e9
    assert known_devices().find("NVIDIA H100 80GB HBM3").name == "NVIDIA H100 SXM"


def test_a_rule_finds(trace):
    (found,) = trace.findings(id="heavy-kernel").rows()
    assert (found["severity"], found["title"]) == ("note", "One kernel takes 100 % of the kernels' time")
    (again,) = trace.sql(found["query"]).rows()
    assert list(again.values()) == [found["value"]] == [1.0]
    # It has its place in the list, and never the first, which is the verdict.
    assert [row["id"] for row in trace.findings().rows()].index("heavy-kernel") > 0
    with pytest.raises(stepscope.StepScopeError, match="no rule 'heavy'"):
        trace.findings(id="heavy")


def test_a_folder_may_hold_it_beside_other_files(example, use, tmp_path):
    use(example)
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.klog").write_text(SAMPLE.read_text())
    (tmp_path / "notes.txt").write_text("nothing")
    with stepscope.open(tmp_path, cache=False) as trace:
        assert trace.ranks == (0, 1)
        assert trace.waits(rank=1, columns=["rank", "events"]).rows() == [{"rank": 1, "events": 2}]


@pytest.fixture
def two_ranks(example, use, tmp_path, monkeypatch):
    """A folder of two ranks, each of which is read by a process of its own."""
    monkeypatch.setattr(build, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    use(example)
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in (0, 1):
        (folder / f"rank{rank}.klog").write_text(SAMPLE.read_text())
    return folder


def test_processes_that_read_ranks_find_the_format(example, two_ranks, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(example), prepend=os.pathsep)
    with stepscope.open(two_ranks, cache=False) as trace:
        assert trace.waits(columns=["rank", "events"]).rows() == [{"rank": 0, "events": 2}, {"rank": 1, "events": 2}]


def test_processes_that_do_not_find_the_format_say_so(two_ranks):
    with pytest.raises(stepscope.StepScopeError, match="no format 'klog'") as caught:
        stepscope.open(two_ranks, cache=False)
    assert caught.value.slug == "unknown-format"


def test_json_that_is_no_trace_of_ours_may_be_a_plug_ins(broken, tmp_path):
    broken(
        "from stepscope.plugin import FileFacts, Format, RankTables, ReadReport\n"
        "FORMAT = Format('spans', 'spans', lambda head: b'\"spans\"' in head,\n"
        "    lambda member: FileFacts(), lambda member, options: RankTables(FileFacts(), ReadReport()))\n",
        formats="FORMAT",
    )
    (tmp_path / "some.json").write_text('{"spans": []}')
    with stepscope.open(tmp_path / "some.json", cache=False) as trace:
        assert trace.sources(columns=["format"]).rows() == [{"format": "spans"}]


def test_the_command_line_has_it_all(example, use, run, tmp_path):
    use(example)
    assert "mean_wait" in run("waits", str(SAMPLE))
    assert json.loads(run("waits", str(SAMPLE), "--json"))["rows"] == [WAITS]
    assert run("waits", str(SAMPLE), "--csv", "--columns", "stream,events") == "stream,events\n7,2\n"
    run("waits", str(SAMPLE), "--parquet", str(tmp_path / "waits.parquet"))
    assert pq.read_table(tmp_path / "waits.parquet").to_pylist() == [WAITS]
    assert "waits" in run("--help")
    assert "--min-wait-ns" in run("waits", "--help")
    listed = run("questions")
    assert re.search(r"  waits +How long does work wait", listed)
    assert "Addedbytheplug-inwaits(stepscope.questions)ofstepscope-example1.0" in "".join(listed.split())


def test_a_question_has_its_page(example, use, run):
    use(example)
    page = run("questions", "waits")
    assert page.startswith("# waits\n")
    assert "The wait is the time from the start" in page
    assert "| `mean_wait_ns` | float | ns | mean time from launch to start |" in page
    assert "`unlinked_kernel_fraction`" in page


@pytest.fixture
def klog(example, tmp_path, spawn):
    """Runs `stepscope launch` with a stand-in for the plug-in's profiler on the PATH."""
    (tmp_path / "klog").write_text(
        f'#!/bin/sh\n[ $1 = --version ] && exec echo klog 2.1\ncp {SAMPLE} ${{1#--output=}}; shift; exec "$@"\n'
    )
    (tmp_path / "klog").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return lambda *words: spawn(example, "-m", "stepscope", *words, PATH=path)


def test_its_profiler_can_be_launched_and_checked(klog, tmp_path):
    out = str(tmp_path / "out")
    done = klog("launch", "--tool", "klog", "-o", out, "--stats", "--", "echo", "hello")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("hello\n")
    assert "mean_wait" in done.stdout
    assert f"waits {out}" in done.stderr
    assert "klog        2.1" in klog("doctor", "--tool", "klog").stdout
    assert "--tool klog" in klog("jobscript", "slurm", "--tool", "klog", "--", "python", "train.py").stdout
    refused = klog("launch", "--tool", "klock", "--", "true")
    assert refused.returncode == 2
    assert "'klog'" in refused.stderr


def test_another_process_finds_it_too(example, spawn):
    done = spawn(example, "-m", "stepscope", "waits", str(SAMPLE), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["rows"] == [WAITS]


def test_without_the_package_everything_is_as_it_was(spawn, tmp_path):
    done = spawn(tmp_path, "-m", "stepscope", "waits", str(SAMPLE))
    assert done.returncode == 2
    assert "No such command 'waits'" in done.stderr
    done = spawn(tmp_path, "-m", "stepscope", "kernels", str(SAMPLE))
    assert done.returncode == 1
    assert "[not-a-trace]" in done.stderr


def test_the_switch_leaves_it_out(example, spawn):
    done = spawn(example, "-m", "stepscope", "waits", str(SAMPLE), STEPSCOPE_PLUGINS="no")
    assert done.returncode == 2


def test_a_folder_one_stands_in_adds_nothing(example, tmp_path):
    done = python(
        "-m", "stepscope", "waits", str(SAMPLE), cwd=example, env={**os.environ, "STEPSCOPE_CACHE": str(tmp_path)}
    )
    assert done.returncode == 2, done.stdout


def test_a_store_is_made_anew_for_another_version(example, use, kineto, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    (kineto.parent / "rank1.klog").write_text(SAMPLE.read_text())

    def opened() -> tuple[tuple[int, ...], int]:
        with stepscope.open(kineto.parent) as trace:
            return trace.ranks, sum(path.is_dir() for path in (tmp_path / "cache").iterdir())

    # Before the package is there, the folder has one file of ours.
    assert opened() == opened() == ((0,), 1)
    use(example)
    assert opened() == opened() == ((0, 1), 2)
    newer = shutil.copytree(example, tmp_path / "newer")
    (metadata,) = newer.glob("*.dist-info/METADATA")
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))
    use(newer)
    assert opened() == opened() == ((0, 1), 3)


# -- nobody looks for plug-ins without a reason ------------------------------------------------------


def test_a_profiler_that_fails_names_its_plug_in(broken, spawn):
    folder = broken(
        "from stepscope.plugin import Tool\nTOOL = Tool('odd', 'odd', 'inside', arguments=lambda request: 1 / 0,"
        " environment=lambda request: 1 / 0)",
        tools="TOOL",
    )
    done = spawn(folder, "-m", "stepscope", "launch", "--tool", "odd", "--dry-run", "--", "true")
    assert "plug-in it (stepscope.tools) of broken-example 1.0 failed: ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "looked"),
    [
        (["kernels", "{}"], 0),
        (["kernels", "{}", "--json"], 0),
        (["sql", "{}", "SELECT * FROM answer.kernels"], 0),
        (["schema"], 0),
        (["questions", "kernels"], 0),
        (["launch", "--tool", "onednn", "--dry-run", "--", "true"], 0),
        (["kernels", "--help"], 0),
        (["--version"], 0),
        (["questions"], 1),
        (["--help"], 1),
    ],
)
def test_an_ordinary_command_looks_for_none(example, use, run, kineto, arguments, looked):
    use(example)
    run(*(text.format(kineto) for text in arguments))
    assert plugins.installed.cache_info().misses == looked


def test_recording_never_loads_them(spawn, broken, tmp_path):
    folder = broken("raise SystemExit('loaded in a job')", questions="x", formats="x", rules="x")
    modules = sorted(
        path.relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".")
        for path in (ROOT / "src/stepscope/record").rglob("*.py")
        if path.name != "__init__.py" and "callbacks" not in path.parts
    )
    done = spawn(
        folder,
        "-c",
        f"import importlib, sys\nfor name in {modules}: importlib.import_module(name)\n"
        "print('broken_example' in sys.modules, 'stepscope.base.plugins' in sys.modules)",
    )
    assert (done.stdout, done.stderr) == ("False False\n", "")


def test_a_command_that_ran_a_job_finds_none(example, spawn, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("from stepscope.base import plugins\nprint(plugins.installed('rules'))\n")
    done = spawn(example, "-m", "stepscope", "record", "-o", str(tmp_path / "out"), "--", str(script))
    assert (done.returncode, done.stdout) == (0, "()\n")


# -- what a plug-in may rest on ----------------------------------------------------------------------


def _imports(path: Path) -> set[tuple[str, str]]:
    tree = ast.parse(path.read_text("utf-8"))
    return {
        (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_a_plug_in_imports_one_module():
    page = (ROOT / "docs" / "plugins.md").read_text("utf-8").split("## What it may import")[1].split("\n## ")[0]
    documented = [
        name for names in re.findall(r"^\| (`.+?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", names)
    ]
    assert sorted(documented) == sorted(plugin.__all__) == dir(plugin)
    assert all(getattr(plugin, name) for name in documented)
    used = set()
    for path in (EXAMPLE / "src").rglob("*.py"):
        used |= {module for module, _ in _imports(path) if module.startswith("stepscope")}
    assert used == {"stepscope.plugin"}


def test_what_a_plug_in_does_not_use_is_not_imported(spawn, tmp_path):
    done = spawn(
        tmp_path,
        "-c",
        "import sys, stepscope.plugin as plugin\nplugin.SourceError\n"
        "print([name for name in sys.modules if name.startswith('stepscope')])",
    )
    loaded = ast.literal_eval(done.stdout)
    assert {name for name in loaded if not name.startswith("stepscope.base")} == {"stepscope", "stepscope.plugin"}


@pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None and "CI" not in os.environ,
    reason="the build backend is not installed",
)
def test_pip_installs_the_same(example, tmp_path):
    done = python(
        *("-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps"),
        *("--no-compile", "--target", str(tmp_path), str(EXAMPLE)),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr

    def files(folder: Path) -> set[str]:
        package = folder / "stepscope_example"
        return {path.relative_to(package).as_posix() for path in package.rglob("*.*") if path.suffix != ".pyc"}

    def entries(folder: Path) -> list[str]:
        (path,) = folder.glob("stepscope_example-*.dist-info/entry_points.txt")
        return sorted(line for line in path.read_text().splitlines() if line)

    assert files(tmp_path) == files(example)
    assert entries(tmp_path) == entries(example)
