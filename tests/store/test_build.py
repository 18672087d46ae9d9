import errno
import json
import os
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from tests.formats.nsys.exports import Nsys

import stepscope
from stepscope.base.errors import DamagedSourceError, SourceError, StoreError, UsageError
from stepscope.query.ask import ask
from stepscope.questions.invariants import invariants
from stepscope.store import build, chosen, job, workers
from stepscope.store.build import import_source, open_source
from stepscope.store.chosen import ImportOptions
from stepscope.store.open import Store

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]


def trace(rank=None, steps=2, base=0, name="aten::mm"):
    on_host = {"ph": "X", "pid": 1, "tid": 1}
    events = []
    for step in range(steps):
        at, link = 1 + step * 100, {"correlation": step + 1}
        work = {"device": 0, "stream": 7, **link}
        events += [
            on_host | {"cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": at, "dur": 90},
            on_host | {"cat": "cpu_op", "name": name, "ts": at + 10, "dur": 20},
            on_host | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 12, "dur": 3, "args": link},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + 20, "dur": 30, "args": work},
        ]
    described = {"traceEvents": events, "baseTimeNanoseconds": base}
    if rank is not None:
        described["distributedInfo"] = {"rank": rank, "world_size": 4}
    return described


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace()))
    return path


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    return path


def write_ranks(folder, count, **options):
    for rank in range(count):
        (folder / f"rank{rank}.json").write_text(json.dumps(trace(rank, **options)))


@pytest.fixture
def in_processes(monkeypatch):
    """Imports each rank in a process of its own, two at a time."""
    monkeypatch.setattr(build, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


def rows(directory, query):
    with Store.open(directory) as store:
        return store.sql(query).to_pylist()


def test_import_makes_a_store(file, tmp_path):
    directory = import_source(file, tmp_path / "store")
    found = rows(directory, "SELECT count(*) AS n, sum(dur_ns) AS ns FROM device_event WHERE step IS NOT NULL")
    assert found == [{"n": 2, "ns": 60_000}]


def test_import_twice_gives_the_same_store(file, tmp_path):
    first = import_source(file, tmp_path / "one")
    second = import_source(file, tmp_path / "two")
    for query in ("SELECT * FROM host_event", "SELECT * FROM device_event", "SELECT * FROM step"):
        assert rows(first, query) == rows(second, query)


def test_numbers_that_rise_are_stored_as_differences(file, tmp_path):
    directory = import_source(file, tmp_path / "store")
    group = pq.ParquetFile(directory / "rank=00000" / "device_event.0.parquet").metadata.row_group(0)
    encodings = {column.path_in_schema: column.encodings for column in map(group.column, range(group.num_columns))}
    for name in ("id", "start_ns", "launch_id", "launch_ns", "operator_id"):
        assert "DELTA_BINARY_PACKED" in encodings[name], name


def test_store_is_replaced_and_anything_else_is_not(file, tmp_path):
    target = tmp_path / "store"
    import_source(file, target)
    import_source(file, target)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match="not a store"):
        import_source(file, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_ranks_of_a_folder_share_one_clock(folder, tmp_path):
    for rank, base in ((0, 1_000_000), (1, 1_250_000)):
        (folder / f"rank{rank}.json").write_text(json.dumps(trace(rank, base=base)))
    directory = import_source(folder, tmp_path / "store")
    found = rows(directory, "SELECT rank, min(start_ns) AS first FROM host_event GROUP BY rank ORDER BY rank")
    assert found == [{"rank": 0, "first": 0}, {"rank": 1, "first": 250_000}]
    assert rows(directory, "SELECT DISTINCT world_size FROM rank") == [{"world_size": 4}]


def test_spans_of_a_rank_have_their_own_ids_and_keep_their_distance(folder, tmp_path):
    (folder / "worker0.1700000000000.pt.trace.json").write_text(json.dumps(trace(base=5_000_000)))
    (folder / "worker0.1700000009999.pt.trace.json").write_text(json.dumps(trace(base=9_000_000)))
    directory = import_source(folder, tmp_path / "store")
    assert rows(directory, "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM device_event") == [{"n": 4, "ids": 4}]
    assert rows(directory, "SELECT span, min(start_ns) AS first FROM host_event GROUP BY span ORDER BY span") == [
        {"span": 0, "first": 0},
        {"span": 1, "first": 4_000_000},
    ]
    assert rows(
        directory,
        "SELECT count(*) AS n FROM device_event d JOIN host_event h ON d.rank = h.rank AND d.launch_id = h.id AND d.span = h.span",
    ) == [{"n": 4}]
    assert rows(directory, "SELECT count(*) AS n FROM stream") == [{"n": 1}]


def test_chosen_ranks_and_steps_alone_are_imported(folder, tmp_path):
    write_ranks(folder, 3, steps=3)
    directory = import_source(folder, tmp_path / "store", ranks=[2], steps=[1])
    # The kernels before and after it on its stream are there too, and in no step.
    counts = "SELECT rank, step, count(*) AS n FROM device_event GROUP BY ALL ORDER BY step"
    assert rows(directory, counts) == [{"rank": 2, "step": 1, "n": 1}, {"rank": 2, "step": None, "n": 2}]
    assert rows(directory, "SELECT step FROM step") == [{"step": 1}]
    with pytest.raises(UsageError, match="no rank 9"):
        import_source(folder, tmp_path / "other", ranks=[9])
    with pytest.raises(UsageError, match="no step 77"):
        import_source(folder, tmp_path / "other", steps=[77])
    assert not (tmp_path / "other").exists()


def test_steps_are_looked_for_in_all_recordings_of_a_rank(folder, tmp_path):
    first, later = trace(0, steps=2), trace(0, steps=4, base=10**9)
    (folder / "a.json").write_text(json.dumps(first))
    (folder / "b.json").write_text(json.dumps(later))
    columns = ["step", "time_ns", "forward_ns"]
    phases = {"format": "stepscope.phases", "rank": 0, "counted_steps": 9, "step": {"mean_ns": 5.0}}
    phases |= {"phases": {"forward": {"mean_ns": 5.0}}, "step_columns": columns}
    phases["step_samples"] = [[2, 5, 5], [3, 5, 5]]
    (folder / "h.0.phases.json").write_text(json.dumps(phases))
    (folder / "h.0.prof.json").write_text('{"format": "stepscope.inline", "rank": 0, "iterations": [[1, true, 5]]}')
    directory = import_source(folder, tmp_path / "store", steps=[3])
    assert rows(directory, "SELECT span, step FROM step") == [{"span": 1, "step": 3}]
    assert rows(directory, "SELECT DISTINCT span, step FROM phase_step") == [{"span": 2, "step": 3}]
    assert rows(directory, "SELECT mean_ns FROM phase WHERE phase = 'step'") == [{"mean_ns": 5.0}]
    assert rows(directory, "SELECT dur_ns FROM inline_timing") == [{"dur_ns": 5}]
    with pytest.raises(UsageError, match="no step 77") as refused:
        import_source(folder, tmp_path / "other", steps=[77])
    assert refused.value.hint == "it has step 0-3"


@pytest.mark.parametrize("events", [1, 8])
def test_several_traces_in_one_file_mark_every_answer(file, tmp_path, events):
    file.write_text(json.dumps({"traceEvents": trace()["traceEvents"][:events]}) * 2)
    directory = import_source(file, tmp_path / "store")
    found = rows(directory, """SELECT severity, affects FROM data_check WHERE "check" = 'repaired'""")
    assert found == [{"severity": "warning", "affects": "file"}]
    assert rows(directory, "SELECT events_dropped > 0 AS lost FROM source") == [{"lost": True}]


def test_window_keeps_what_begins_inside(file, tmp_path):
    directory = import_source(file, tmp_path / "store", window=(0, 50_000))
    assert rows(directory, "SELECT name FROM host_event ORDER BY start_ns") == [
        {"name": "ProfilerStep#0"}, {"name": "aten::mm"}, {"name": "cudaLaunchKernel"},
    ]  # fmt: skip


def test_links_that_a_window_cuts_leave_nothing_behind(tmp_path):
    described = trace(steps=1)
    alike = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1}
    described["traceEvents"] += [alike | {"ts": 16, "dur": 4}, alike | {"ts": 17, "dur": 2}]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(described))
    # What begins later than the operator and its launch: two operators inside it, and the kernel.
    directory = import_source(file, tmp_path / "store", window=(14_500, 50_000))
    assert rows(directory, "SELECT parent_id, recursive FROM host_event ORDER BY id") == [
        {"parent_id": None, "recursive": False},
        {"parent_id": 3, "recursive": True},
    ]
    assert rows(directory, "SELECT launch_id, launch_ns, operator_name FROM device_event") == [
        {"launch_id": None, "launch_ns": None, "operator_name": None}
    ]


def test_a_store_of_a_window_that_cuts_calls_and_steps_is_sound(file, tmp_path):
    def inside(window):
        directory = import_source(file, tmp_path / f"{window[1]}", window=window)
        with stepscope.open(directory) as trace:
            checked = ask(invariants, trace.store).rows()
            calls = trace.sql("SELECT count(*) AS n FROM host_event")[0]["n"]
        broken = [row["check"] for row in checked if row["severity"] == "error"]
        return broken, calls

    # Every moment at which one more call is kept, so that its parent has lost those after it.
    ends = [
        row["end"]
        for row in rows(
            import_source(file, tmp_path / "all"),
            """
        SELECT DISTINCT start_ns + 1 AS "end" FROM host_event ORDER BY 1 LIMIT 6""",
        )
    ]
    assert [inside((0, end)) for end in ends] == [([], count) for count in range(1, len(ends) + 1)]


def test_launches_move_with_the_clock_of_their_rank(folder, tmp_path):
    (folder / "r0.json").write_text(json.dumps(trace(rank=0)))
    (folder / "r1.json").write_text(json.dumps(trace(rank=1, base=5_000)))
    directory = import_source(folder, tmp_path / "store")
    moved = """
        SELECT DISTINCT work.launch_ns - launch.start_ns AS apart FROM device_event AS work
        JOIN host_event AS launch ON work.rank = launch.rank AND work.launch_id = launch.id
    """
    assert rows(directory, moved) == [{"apart": 0}]


def test_ranks_in_processes_give_the_same_store(folder, tmp_path, monkeypatch):
    write_ranks(folder, 3)
    alone = import_source(folder, tmp_path / "one")
    monkeypatch.setattr(build, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    together = import_source(folder, tmp_path / "two")
    query = "SELECT * FROM device_event ORDER BY rank, id"
    assert rows(alone, query) == rows(together, query)


def test_a_process_reads_one_rank_after_the_other(tmp_path, monkeypatch, in_processes):
    nsys = Nsys(tmp_path / "report.sqlite")
    for pid in range(144, 149):
        nsys.launch(100, 5, "gemm", 150, 190, pid=pid)
    started = []
    start = subprocess.Popen

    def noticed(*args, **options):
        started.append(args)
        return start(*args, **options)

    monkeypatch.setattr(workers.subprocess, "Popen", noticed)
    store = import_source(tmp_path / "report.sqlite", tmp_path / "store")
    assert len(started) == 2
    assert rows(store, "SELECT count(DISTINCT rank) AS ranks FROM device_event") == [{"ranks": 5}]


def test_processes_take_no_module_from_the_working_directory(folder, tmp_path, monkeypatch, in_processes):
    write_ranks(folder, 2)
    for name in ("json", "pyarrow", "stepscope"):
        (folder / f"{name}.py").write_text("raise SystemExit('sent with the traces')")
    monkeypatch.chdir(folder)
    directory = import_source(".", tmp_path / "store")
    assert rows(directory, "SELECT count(DISTINCT rank) AS ranks FROM device_event") == [{"ranks": 2}]


@pytest.mark.parametrize("parallel", [False, True])
def test_rank_that_cannot_be_read_costs_no_other(folder, parallel, tmp_path, monkeypatch):
    write_ranks(folder, 3)
    source = chosen._source

    def of_no_format(one):
        path, name, process, form = source(one)
        return path, name, process, "gone" if one.rank == 1 else form

    monkeypatch.setattr(chosen, "_source", of_no_format)
    monkeypatch.setattr(build, "PARALLEL_BYTES", 0 if parallel else 1 << 40)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    store = import_source(folder, tmp_path / "store", ranks=[1, 2])
    assert rows(store, "SELECT DISTINCT rank FROM device_event") == [{"rank": 2}]
    assert rows(store, "SELECT count, explanation FROM data_check WHERE \"check\" = 'left_out'") == [
        {"count": 1, "explanation": f"{folder / 'rank1.json'} could not be read and is in no answer: no format 'gone'."}
    ]
    assert not (store / "rank=00001").exists()
    with pytest.raises(SourceError, match="no format 'gone'"):
        import_source(folder, tmp_path / "none", ranks=[1])


def test_error_in_a_process_is_the_users_error(folder, tmp_path, in_processes):
    for rank in range(2):
        (folder / f"rank{rank}.json").write_text(json.dumps(trace(rank))[:-60])
    with pytest.raises(DamagedSourceError):
        import_source(folder, tmp_path / "store", strict=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_full_disk_leaves_nothing(file, tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(job, "write_tables", full)
    with pytest.raises(StoreError, match="disk is full") as caught:
        import_source(file, tmp_path / "store")
    assert caught.value.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.json"]


def test_interruption_leaves_nothing(file, tmp_path, monkeypatch):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "write_tables", interrupt)
    with pytest.raises(KeyboardInterrupt):
        import_source(file, tmp_path / "store")
    with pytest.raises(KeyboardInterrupt):
        open_source(file)
    assert not (tmp_path / "store").exists()
    assert list((tmp_path / "cache").iterdir()) == []


# -- the cache ---------------------------------------------------------------------------------------


def test_cached_store_is_used_until_the_file_changes(file):
    first = open_source(file)
    stamp = (first / "store.json").stat().st_mtime_ns
    assert open_source(file) == first
    assert (first / "store.json").stat().st_mtime_ns == stamp
    file.write_text(json.dumps(trace(steps=3)))
    assert open_source(file) != first


def test_a_file_has_one_store_however_its_path_is_written(file, monkeypatch):
    first = open_source(file)
    monkeypatch.chdir(file.parent)
    assert open_source(file.name) == first


def test_without_cache_the_store_is_the_callers(file, tmp_path):
    scratch = open_source(file, cache=False)
    assert (scratch / "store.json").exists()
    assert not (tmp_path / "cache").exists()
    shutil.rmtree(scratch)


def test_damage_is_an_error_when_asked_for_from_the_cache_too(file):
    file.write_text(file.read_text()[:-60])
    open_source(file)
    with pytest.raises(DamagedSourceError):
        open_source(file, ImportOptions(strict=True))


def test_cache_that_cannot_be_written_says_what_to_do(file, tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("a file where the folder should be")
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "blocked"))
    with pytest.raises(StoreError) as caught:
        open_source(file)
    assert "--no-cache" in caught.value.hint


def test_two_commands_at_once_make_one_store(file, tmp_path):
    program = "import sys; from stepscope.store.build import open_source; print(open_source(sys.argv[1]))"
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    printed = {process.communicate()[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(printed) == 1
    assert rows(printed.pop(), "SELECT count(*) AS n FROM step") == [{"n": 2}]
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_missing_file_makes_no_cache(tmp_path):
    with pytest.raises(SourceError, match="no such"):
        open_source(tmp_path / "nowhere.json")
    assert not (tmp_path / "cache").exists()
