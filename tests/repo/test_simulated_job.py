"""The simulated job is what it claims to be: exact, known, and recorded as torch.profiler would."""

import json
from pathlib import Path
from typing import Any

from tests.simulated_job import EPOCH_NS, START_NS, Delay, Job, Simulated, simulate

import stepscope

TEN_MS = 10_000_000


def _kernels(job: Simulated, rank: int, word: str) -> list[tuple[int, int]]:
    """Starts and ends (ns since the epoch, by the rank's clock) of the kernels whose name has the word."""
    events: list[dict[str, Any]] = json.loads(job.text(rank))["traceEvents"]
    moments = [
        (round(event["ts"] * 1000), round(event["dur"] * 1000))
        for event in events
        if event.get("cat") == "kernel" and word in event["name"]
    ]
    return [(start, start + dur) for start, dur in moments]


def test_the_parts_of_the_critical_path_add_up_to_the_job() -> None:
    job = simulate(Job(ranks=4, hosts=2, tensor_parallel=2, exchange=True))
    assert sum(link.ns for link in job.critical_path()) == job.end_ns
    assert {link.kind for link in job.critical_path()} >= {"GEMM", "transfer", "input", "copy"}


def test_the_same_seed_is_the_same_job() -> None:
    assert simulate(Job(seed=1)).text(1) == simulate(Job(seed=1)).text(1)
    assert simulate(Job(seed=1)).text(1) != simulate(Job(seed=2)).text(1)


def test_all_ranks_wait_for_the_one_that_is_late() -> None:
    late = Delay(rank=2, ns=TEN_MS, phase="backward", step=1)
    job, even = simulate(Job(ranks=4, delays=(late,))), simulate(Job(ranks=4))
    assert 0.9 * TEN_MS < job.end_ns - even.end_ns <= TEN_MS
    waited = [c for c in job.collectives if max(c.arrivals_ns.values()) - min(c.arrivals_ns.values()) > TEN_MS // 2]  # fmt: skip
    assert [c.last_rank for c in waited] == [2]
    path = [link for link in job.critical_path() if link.name == "aten::nonzero"]
    assert [(link.rank, link.ns) for link in path] == [(2, TEN_MS)]


def test_a_slow_kernel_of_one_rank_is_slow_there_alone() -> None:
    job = simulate(Job(delays=(Delay(rank=0, ns=900_000, phase="forward", kernels="GEMM"),)))
    longest = [max(end - start for start, end in _kernels(job, rank, "gemm")) for rank in (0, 1)]
    assert longest[0] - longest[1] > 280_000


def test_collectives_end_on_all_ranks_at_once_by_clocks_that_differ() -> None:
    offsets = (0, -2_500_000_000)
    job = simulate(Job(ranks=4, hosts=2, clock_offset_ns=offsets, clock_drift_ppb=(0, 50_000), nccl_args=False))
    ends = [[end for _, end in _kernels(job, rank, "nccl")] for rank in range(4)]
    assert ends[0] == ends[1] == [c.end_ns for c in job.collectives]
    assert ends[2] == [job.clock(2, c.end_ns) for c in job.collectives]
    apart = [by_two - by_one for by_one, by_two in zip(ends[0], ends[2], strict=True)]
    assert apart == sorted(apart)
    assert -2_500_000_000 < apart[0] < apart[-1] < -2_499_000_000


def test_a_lost_kernel_is_lost_on_its_rank() -> None:
    job = simulate(Job(dropped=((1, "1", 4),)))
    assert len(_kernels(job, 0, "nccl")) == len(_kernels(job, 1, "nccl")) + 1 == 9


def test_a_full_queue_holds_the_host() -> None:
    fast, held = simulate(Job(steps=1)), simulate(Job(steps=1, queue_limit=2))
    assert held.end_ns >= fast.end_ns
    assert "queue" in {edge[2] for edges in held.moments.before for edge in edges}


def test_its_traces_are_read_without_any_complaint(tmp_path: Path) -> None:
    job = simulate(Job(ranks=4, hosts=2, tensor_parallel=2, exchange=True, cuda_graph=True))
    job.write(tmp_path / "job")
    with stepscope.open(tmp_path / "job") as trace:

        def rows(query: str) -> list[list[Any]]:
            return [list(row.values()) for row in trace.sql(query).rows()]

        assert rows("SELECT rank, host, world_size FROM rank") == [[rank, f"node{rank // 2}", 4] for rank in range(4)]
        started = rows("SELECT min(start_epoch_ns) FROM rank")
        assert started == [[EPOCH_NS + START_NS]]
        # Replayed kernels have no operator, which is so of any graph; nothing else is to be said.
        found = rows("SELECT DISTINCT \"check\" FROM data_check WHERE severity <> 'ok'")
        assert found == [["graph_replay_unattributed"]]
        counted = rows("SELECT count(*), count(sequence), count(bytes) FROM collective")
        assert counted == [[4 * 3 * (1 + 3 + 3)] * 3]
        steps = rows("SELECT host_end_ns - host_start_ns FROM step WHERE rank = 1 ORDER BY 1")
        assert [row[0] for row in steps] == sorted(job.step_ns(1))
