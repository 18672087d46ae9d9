"""Which stores in the cache still stand for what would be made now."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import grimp
import pytest

import stepscope
from stepscope.api.trace import open_trace
from stepscope.store.cache import IN_USE_SECONDS, cache_key, in_use, trim
from stepscope.store.code_digest import _read, code_digest, required_packages

TRACE = {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(TRACE))
    return path


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """Another installation of the same version."""
    source = tmp_path_factory.mktemp("installed")
    shutil.copytree(Path(stepscope.__file__).parent, source / "stepscope", ignore=shutil.ignore_patterns("__pycache__"))
    return source


def python(code, source):
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def key(trace, source=Path(stepscope.__file__).parents[1]):
    code = "from pathlib import Path; from stepscope.store.cache import cache_key\n"
    return python(f"{code}print(cache_key(Path({str(trace)!r}), {{}}))", source)


@pytest.mark.parametrize("changed", ["formats/kineto/columns.py", "link/steps.py", "schema/tables.py"])
def test_a_changed_reader_or_link_makes_another_store(trace, copied, changed):
    file = copied / "stepscope" / changed
    before = file.read_text()
    file.write_text(f"{before}\n# read in another way\n")
    try:
        assert key(trace, copied) != key(trace)
    finally:
        file.write_text(before)


def test_another_installation_and_a_changed_question_use_the_same_store(trace, copied):
    with (copied / "stepscope" / "questions" / "kernels.py").open("a") as question:
        question.write("\n# asked in another way\n")
    assert key(trace, copied) == key(trace)


def test_a_stores_code_is_all_that_an_import_runs(trace, tmp_path):
    code = (
        "import sys; from stepscope.store.build import import_source\n"
        f"import_source({str(trace)!r}, {str(tmp_path / 'store')!r})\n"
        "print(*(name for name in sys.modules if name.startswith('stepscope.')))"
    )
    used = {name.split(".")[1] for name in python(code, Path(stepscope.__file__).parents[1]).split()}
    assert used | {"bundled"} == required_packages("store")  # whose readers are imported when a file needs them


def test_an_answers_code_is_all_that_the_questions_can_import():
    graph = grimp.build_graph("stepscope")
    imported = graph.find_upstream_modules("stepscope.questions", as_package=True)
    assert {name.split(".")[1] for name in imported if "." in name} <= required_packages("questions")
    assert {"analysis", "findings", "store"} <= required_packages("questions").difference({"cli", "report"})


def test_a_new_package_counts_once_something_imports_it(tmp_path):
    def digest(name, text):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "__init__.py").write_text(text)
        _read.cache_clear()
        return code_digest("store", str(tmp_path))

    alone = digest("store", "")
    assert digest("new", "A = 1") == alone
    for text in ("from stepscope.new import A\n", 'LATER = "stepscope.new.module"\n'):
        before = digest("store", text)
        assert digest("new", "A = 2") != before
        assert digest("unused", "A = 1") == digest("new", "A = 2")
        digest("new", "A = 1")


def test_what_is_worked_out_of_a_store_is_no_change_of_it(tmp_path):
    (tmp_path / "store.json").touch()
    before = cache_key(tmp_path, {})
    (tmp_path / ".results").mkdir()
    (tmp_path / ".results" / ("0" * 24)).touch()
    assert cache_key(tmp_path, {}) == before
    (tmp_path / "store.json").unlink()
    assert cache_key(tmp_path, {}) != before


def test_a_file_that_changed_behind_its_size_and_time_is_read_again(trace):
    before, at = cache_key(trace, {}), trace.stat().st_mtime_ns
    assert cache_key(trace, {}) == before
    trace.write_text(trace.read_text().replace("aten::mm", "aten::ab"))
    os.utime(trace, ns=(at, at))
    written = cache_key(trace, {})
    assert written != before
    other = trace.with_name("other")
    shutil.copy2(trace, other)
    other.replace(trace)
    assert cache_key(trace, {}) not in (before, written)


def test_a_file_that_changed_behind_a_link_to_its_folder_is_read_again(trace, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "rank0").symlink_to(trace.parent)
    before = cache_key(run, {})
    trace.write_text(json.dumps(TRACE, indent=1))
    assert cache_key(run, {}) != before


def test_a_store_that_a_view_shows_stays_however_long_that_is(trace, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    with open_trace(trace) as opened:
        store = opened.store.directory
    long_ago = time.time() - 2 * IN_USE_SECONDS
    os.utime(store, (long_ago, long_ago))
    monkeypatch.setenv("STEPSCOPE_CACHE_SIZE", "0")
    with in_use([store, store.parent.parent / "elsewhere"]):
        trim(store.parent, keep=store.parent / "another")
        assert store.exists()
    os.utime(store, (long_ago, long_ago))
    trim(store.parent, keep=store.parent / "another")
    assert not store.exists()
