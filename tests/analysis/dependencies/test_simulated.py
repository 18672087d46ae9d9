"""The path through a recording is the one that really decided how long the simulated job took."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.simulated_job import Job, Simulated, simulate

import stepscope
from stepscope.analysis.dependencies.graph import Graph, build
from stepscope.analysis.dependencies.parts import KINDS, pieces_of
from stepscope.analysis.dependencies.stretch import stretches
from stepscope.answers.scope import Scope

KIND_OF = {
    "GEMM": "computation",
    "elementwise": "computation",
    "optimizer": "computation",
    "input": "input wait",
    "launch_delay": "launch delay",
    "synchronize": "synchronization",
    "kernel_gap": "kernel gap",
}
HOST = {"operator", "between operators", "input wait"}
"""To fetch a batch that is ready is an operator of the simulation and part of the wait in the recording."""


def recorded(job: Simulated, folder: Path) -> tuple[Graph, Counter[str]]:
    """The graph of a job's recording, and the time of each kind on its path (ns)."""
    job.write(folder)
    with stepscope.open(folder) as trace, Scope(trace.store) as scope:
        (stretch,) = stretches(scope, scope)
        graph = build(scope, stretch)
        pieces = pieces_of(scope, graph)
    assert (pieces.start[0], pieces.end[-1]) == (stretch.start, stretch.end)
    assert (pieces.start[1:] == pieces.end[:-1]).all()
    found: Counter[str] = Counter()
    for kind, ns in zip(pieces.kind.tolist(), pieces.length.tolist(), strict=True):
        found[KINDS[kind]] += ns
    return graph, found


def true_parts(job: Simulated) -> Counter[str]:
    found: Counter[str] = Counter()
    for link in job.critical_path():
        found[KIND_OF.get(link.kind, link.kind)] += link.ns
    return found


def merged(parts: Counter[str]) -> dict[str, int]:
    """With the parts of the host together: which of them an operator's edges are is told by words alone."""
    rest = {kind: ns for kind, ns in parts.items() if kind not in HOST}
    return {**rest, "host": sum(parts[kind] for kind in HOST)}


SMALL = {"gemm_ns": 15_000, "elementwise_ns": 3_000, "optimizer_ns": 4_000, "copy_ns": 5_000}


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(Job(ranks=1), id="device-bound"),
        pytest.param(Job(ranks=1, **SMALL, input_ns=10_000), id="host-bound"),
        pytest.param(Job(ranks=1, input_ns=4_000_000), id="input-bound"),
        pytest.param(Job(ranks=1, cuda_graph=True), id="replayed graph"),
        pytest.param(Job(ranks=1, layers=12, queue_limit=16, gemm_ns=300_000), id="full queue"),
        pytest.param(Job(ranks=1, sync_records=False), id="waits not recorded"),
    ],
)
def test_the_path_of_one_rank_is_the_true_one(job: Job, tmp_path: Path) -> None:
    simulated = simulate(job)
    graph, parts = recorded(simulated, tmp_path / "job")
    assert graph.contradicting == 0
    assert sum(parts.values()) == simulated.end_ns
    assert merged(parts) == merged(true_parts(simulated))
