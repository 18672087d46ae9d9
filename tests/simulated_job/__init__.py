"""A training job that is simulated, so that everything about it is known: who was late, who waited, and for what.

Each rank has a main thread, an autograd thread, a data loader, and a device with a compute stream and a stream for
each process group. A moment is the latest of the moments that it waits for, each with what lies between added, so that
the simulation is exact in nanoseconds, and its critical path and the effect of a change are known and not estimated.

    job = simulate(Job(ranks=8, hosts=2, delays=(Delay(rank=3, ns=200_000_000, phase="backward"),)))
    job.write(folder)               # one Kineto trace per rank, as torch.profiler writes it
    job.end_ns, job.collectives     # the truth, by a clock that all ranks share

`benchmarks/generate_trace.py --shape job` writes it at any size.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.simulated_job.job import Delay, Job, host_of
from tests.simulated_job.meetings import Group, Meetings
from tests.simulated_job.moments import START_NS, Link, Moments
from tests.simulated_job.process import AUTOGRAD, MAIN, Process

__all__ = ["EPOCH_NS", "START_NS", "Collective", "Delay", "Job", "Link", "Simulated", "host_of", "simulate"]

EPOCH_NS = 1_760_000_000_000_000_000
_DEVICE = {
    "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_094_825_984, "computeMajor": 8, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
    "sharedMemPerBlock": 49152, "numSms": 108,
}  # fmt: skip


@dataclass(frozen=True)
class Collective:
    """A collective as it was: by the clock that all ranks share."""

    operation: str
    group: str
    sequence: int
    bytes: int
    arrivals_ns: dict[int, int]
    """rank to when its kernel started"""
    end_ns: int
    """when it ended on all ranks"""
    transfer_ns: int

    @property
    def last_rank(self) -> int:
        """The rank that the others waited for."""
        return max(self.arrivals_ns, key=lambda rank: self.arrivals_ns[rank])


@dataclass
class Simulated:
    """A job that ran, and the truth about it. Times are ns by a clock that all ranks share."""

    job: Job
    moments: Moments
    processes: list[Process]
    collectives: list[Collective]
    groups: list[Group]

    @property
    def end_ns(self) -> int:
        """How long the job took, from its start to the end of the last rank's last step."""
        return self.moments.at[self._last()] - START_NS

    def step_ns(self, rank: int) -> list[int]:
        """How long each step took on the host of a rank."""
        at = self.moments.at
        return [at[end] - at[start] for start, end in self.processes[rank].steps]

    def done_ns(self, rank: int) -> list[int]:
        """When each step of a rank was done: on its host, and all that it launched on its device."""
        at, process = self.moments.at, self.processes[rank]
        done = [at[end] for _, end in process.steps]
        launched = {one.flow: at[one.start] for one in process.events if one.category == "cuda_runtime"}
        ended = {one.flow: at[one.end] for one in process.events if one.category in ("kernel", "gpu_memcpy")}
        starts = [at[start] for start, _ in process.steps]
        for flow, end in ended.items():
            step = bisect_right(starts, launched[flow]) - 1
            done[step] = max(done[step], end)
        return done

    def critical_path(self) -> list[Link]:
        """What decided how long the job took, the earliest first: its parts add up to `end_ns`."""
        return self.moments.path(self._last())[::-1]

    def _last(self) -> int:
        return max((one.steps[-1][1] for one in self.processes), key=lambda m: self.moments.at[m])

    def clock(self, rank: int, at_ns: int) -> int:
        """What the clock of a rank's host shows (ns since the epoch of the traces) at a true time."""
        job, host = self.job, host_of(self.job, rank)
        drift = job.clock_drift_ppb[host % len(job.clock_drift_ppb)]
        return at_ns + job.clock_offset_ns[host % len(job.clock_offset_ns)] + (at_ns - START_NS) * drift // 10**9

    def file_name(self, rank: int) -> str:
        """As `tensorboard_trace_handler` names it: host, process and time."""
        return f"node{host_of(self.job, rank)}_{4000 + rank}.{EPOCH_NS}.pt.trace.json"

    def write(self, folder: Path, ranks: Iterable[int] | None = None) -> list[Path]:
        """Writes the trace of each rank (of `ranks`, where given) and returns the files."""
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for rank in range(self.job.ranks) if ranks is None else ranks:
            written.append(folder / self.file_name(rank))
            written[-1].write_text(self.text(rank))
        return written

    def text(self, rank: int) -> str:
        """A rank's trace, as torch.profiler lays it out."""
        at = self.moments.at
        parts = [_named(4000 + rank)]
        for event in self.processes[rank].events:
            start, end = self.clock(rank, at[event.start]), self.clock(rank, at[event.end])
            moment = f"{start // 1000}.{start % 1000:03d}"
            where = f'"pid": {event.pid}, "tid": {event.tid}'
            parts.append(
                f'  {{\n    "ph": "X", "cat": "{event.category}", "name": "{event.name}", {where},\n    "ts": {moment}, '
                f'"dur": {(end - start) // 1000}.{(end - start) % 1000:03d},\n    "args": {{\n      {event.args}\n    }}\n  }}'
            )
            if event.flow:
                ends = '"ph": "s"' if event.category == "cuda_runtime" else '"ph": "f", "bp": "e"'
                parts.append(f'  {{\n    {ends}, "id": {event.flow}, {where}, "ts": {moment},\n'
                             '    "cat": "ac2g", "name": "ac2g"\n  }')  # fmt: skip
        mine = [group for group in self.groups if rank in group.ranks]
        head = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, **_DEVICE}],
            "cuda_runtime_version": 12080,
            "distributedInfo": {
                "backend": "nccl", "rank": rank, "world_size": self.job.ranks, "pg_count": len(mine),
                "pg_config": [{"pg_name": one.name, "pg_desc": one.description, "backend_config": "cuda:nccl",
                               "pg_size": len(one.ranks), "ranks": list(one.ranks)} for one in mine],
                "nccl_version": "2.21.5",
            },
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": EPOCH_NS,
        }  # fmt: skip
        events = ",\n".join(parts)
        return (
            f'{json.dumps(head, indent=2)[:-2]},\n  "traceEvents": [\n{events}\n  ],\n  "traceName": "job.json"\n}}\n'
        )


def _named(pid: int) -> str:
    rows = [("process_name", pid, 0, '"name": "python"'), ("process_labels", pid, 0, '"labels": "CPU"'),
            ("process_labels", 0, 0, '"labels": "GPU 0"'), ("thread_name", pid, MAIN, '"name": "python"'),
            ("thread_name", pid, AUTOGRAD, '"name": "pt_autograd_0"')]  # fmt: skip
    return ",\n".join(
        f'  {{\n    "name": "{name}", "ph": "M", "ts": 0, "pid": {process}, "tid": {tid}, "args": {{ {args} }}\n  }}'
        for name, process, tid, args in rows
    )


def simulate(job: Job) -> Simulated:
    """Runs the job: every rank's steps first, then the clock, because what one rank waits for is up to another."""
    moments = Moments()
    start = moments.after(0)
    meetings = Meetings(job, moments)
    processes = [Process(job, rank, moments, start, meetings) for rank in range(job.ranks)]
    for process in processes:
        for step in range(job.steps):
            process.one_step(step)
    moments.settle()
    collectives = []
    for (name, sequence), (join, operation, size, ns) in meetings.met.items():
        arrivals = {moments.rank[edge[0]]: moments.at[edge[0]] for edge in moments.before[join]}
        assert set(arrivals) == set(meetings.by_name[name].ranks)
        end = moments.at[join] + ns
        collectives.append(Collective(operation, name, sequence, size, arrivals, end, ns))
    return Simulated(job, moments, processes, collectives, meetings.all)
