"""How much memory an import may take, and what runs beside what within it."""

import json
import threading

import pyarrow.parquet as pq
import pytest
from tests.formats.kineto.conftest import kernel, op

from stepscope.base import cpu_quota
from stepscope.formats import scratch
from stepscope.formats.container import members
from stepscope.formats.registry import format_named
from stepscope.formats.runs import Recording
from stepscope.store import memory, worker_process, workers
from stepscope.store.build import import_source
from stepscope.store.job import Done, Job
from stepscope.store.progress import SILENT


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Control groups of a machine with 1000 bytes of memory."""
    listing, root = tmp_path / "cgroup", tmp_path / "groups"
    monkeypatch.setattr(cpu_quota, "_GROUPS", (listing, root))
    monkeypatch.setattr(cpu_quota.os, "sysconf", lambda name: 1000 if name == "SC_PHYS_PAGES" else 1)

    def limit(line, files):
        listing.write_text(line)
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        return memory.import_limit()

    return limit


@pytest.mark.parametrize(
    ("line", "files", "most"),
    [
        ("", {}, 64),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 64),
        ("0::/slurm/job\n", {"slurm/job/cpu.max": "max 100000", "slurm/cpu.max": "150000 100000"}, 1.5),
        (
            "3:cpu,cpuacct:/job\n",
            {"cpu,cpuacct/job/cpu.cfs_quota_us": "400000\n", "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n"},
            4,
        ),
        ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
    ],
)
def test_processors_are_those_that_a_scheduler_gave_the_job(groups, monkeypatch, line, files, most):
    monkeypatch.setattr(cpu_quota.os, "sched_getaffinity", lambda pid: set(range(64)))
    groups(line, files)
    assert cpu_quota.processors() == most
    assert cpu_quota.workers(3) == max(1, min(3, round(most)))


@pytest.mark.parametrize(
    ("line", "files", "most"),
    [
        ("", {}, 250),
        ("0::/\n", {"memory.max": "max\n"}, 250),
        ("0::/slurm/job\n", {"slurm/job/memory.max": "max", "slurm/memory.max": "400"}, 100),
        ("3:cpu:/\n4:memory:/job\n", {"memory/job/memory.limit_in_bytes": "800"}, 200),
        ("4:memory:/job\n", {"memory/job/memory.limit_in_bytes": str(1 << 60)}, 250),
        ("no such line\n", {}, 250),
    ],
)
def test_an_import_takes_a_quarter_of_what_the_machine_or_the_job_has(groups, line, files, most):
    assert groups(line, files) == most


def test_where_the_system_does_not_tell_its_memory_there_is_no_limit(groups, monkeypatch):
    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr(cpu_quota.os, "sysconf", unknown)
    assert groups("", {}) is None


def test_what_a_rank_needs_follows_its_text_and_the_processes_of_its_file(tmp_path):
    from gzip import compress

    plain, packed = tmp_path / "a.json", tmp_path / "b.json.gz"
    plain.write_bytes(bytes(1000))
    packed.write_bytes(compress(bytes(1000)))
    kineto = format_named("kineto")

    def recording(path, process=None):
        (member,) = members(path)
        return Recording(member.of_process(process), kineto, 0, 0, "order")

    def of_events(*ranks):
        return [need - memory._OF_PROCESS for need in memory.needs(ranks)]

    assert of_events([recording(plain)]) == [1000]
    assert of_events([recording(packed), recording(plain)]) == [1000]
    assert of_events([recording(packed)])[0] == 12 * packed.stat().st_size
    assert of_events([recording(plain, "pid 1")], [recording(plain, "pid 2")]) == [500, 500]


@pytest.fixture
def at_once(monkeypatch):
    """Runs jobs of some needs, and gives how many ran beside one another at most."""
    monkeypatch.setattr(worker_process, "_START", "import sys; sys.stdin.read()")

    def run(needs, most, together):
        meeting = threading.Barrier(together)
        running, largest = [], [0]

        def outcome(process, job, progress, guard):
            running.append(job)
            largest[0] = max(largest[0], len(running))
            meeting.wait(20)
            running.remove(job)
            return Done(job.rank, [])

        monkeypatch.setattr(workers, "_outcome", outcome)
        jobs = [
            Job("store", [(f"{rank}.json", None, None, "kineto")], rank, "order", memory=need)
            for rank, need in enumerate(needs)
        ]
        found = workers.run_jobs(jobs, 4, SILENT, most)
        assert [one.rank for one in found] == [*range(len(needs))]
        return largest[0]

    return run


@pytest.mark.parametrize(
    ("needs", "most", "together"), [([60] * 3, 100, 1), ([50] * 4, 100, 2), ([500, 500], 100, 1), ([500] * 4, None, 4)]
)
def test_ranks_are_imported_beside_one_another_while_memory_allows(at_once, needs, most, together):
    assert at_once(needs, most, together) == together


def test_what_lies_in_files_meanwhile_is_imported_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "MIN_BYTES", 1)
    launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel"}
    events = [
        event
        for at in range(0, 900, 30)
        for event in (
            op("aten::mm", at, 20, **{"Input Dims": [[at % 7]], "odd": at}),
            {**op("", at + 1, 2, correlation=at + 1), **launch},
            kernel("gemm", at + 5, 9, correlation=at + 1),
        )
    ]
    source = tmp_path / "trace.json"
    source.write_text(json.dumps({"traceEvents": events}))
    rows = []
    for name, most in (("in_memory", 1 << 40), ("in_files", 1)):
        store = import_source(source, tmp_path / name, memory=most)
        rows.append({path.name: pq.read_table(path) for path in store.rglob("*.parquet")})
    assert rows[0].keys() == rows[1].keys() >= {"host_event.0.parquet", "device_event.0.parquet"}
    for name, table in rows[0].items():
        assert table.equals(rows[1][name]), name


def test_a_rank_takes_a_gigabyte_or_less_unless_more_is_given(groups, monkeypatch):
    groups("", {})
    assert memory.rank_limit(None, 1) == 250
    assert memory.rank_limit(5 << 30, 1) == 5 << 30
    monkeypatch.setattr(memory, "import_limit", lambda: 6 << 30)
    assert memory.rank_limit(None, 1) == 1 << 30
    assert memory.rank_limit(None, 2) == 512 << 20
