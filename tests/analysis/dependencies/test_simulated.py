"""The path through a recording is the one that decided how long the simulated job took, and the graph that is run again
gives what the job takes in which the change was really made."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.dependencies.test_graph import graphs, lengths
from tests.examples import examples
from tests.simulated_job import START_NS, Delay, Job, Simulated, simulate

import stepscope
from stepscope.analysis.dependencies.change import Change, WhatIf
from stepscope.analysis.dependencies.graph import Graph, build
from stepscope.analysis.dependencies.parts import KINDS, pieces_of
from stepscope.analysis.dependencies.replay import Plan
from stepscope.analysis.dependencies.step_window import step_windows
from stepscope.analysis.overview import measure_times
from stepscope.query.scope import Scope

ALLOWED_RATIO = 0.05


@given(graph=graphs(), data=st.data())
@examples(100)
def test_every_moment_is_at_the_end_of_the_longest_way_to_it(graph: Graph, data: Any) -> None:
    model = WhatIf(None, graph)  # type: ignore[arg-type]  # runs on the graph alone
    assert (model.run(graph.duration, graph.lag) == graph.time).all()
    shorter = st.integers(0, 6)
    duration = np.array([data.draw(shorter) for _ in graph.time])
    lag = graph.lag - np.array([data.draw(shorter) for _ in graph.lag], dtype=np.int64)
    changed = replace(graph, duration=duration, lag=lag)
    moved = model.run(duration, lag)
    assert moved.tolist() == [max(lengths(changed, node)) for node in range(len(moved))]


@given(graph=graphs(), data=st.data())
@examples(60)
def test_what_waited_for_something_outside_comes_no_earlier(graph: Graph, data: Any) -> None:
    held = np.array([data.draw(st.booleans()) for _ in graph.time])
    lag = graph.lag - np.array([data.draw(st.integers(0, 6)) for _ in graph.lag], dtype=np.int64)
    moved = Plan.of(graph, held).run(graph.duration, lag)
    expected = graph.time.tolist()
    for node in range(len(expected)):
        edges = [edge for edge, target in enumerate(graph.target.tolist()) if target == node]
        then = [
            expected[graph.source[edge]] + lag[edge] + (graph.duration[graph.source[edge]] if graph.over[edge] else 0)
            for edge in edges
        ]
        if then:
            latest = max(then) + graph.slack[node]
            expected[node] = max(latest, expected[node]) if held[node] else latest
    assert moved.tolist() == expected


SMALL = {"gemm_ns": 15_000, "elementwise_ns": 3_000, "optimizer_ns": 4_000, "copy_ns": 5_000}
JOBS = {
    "device-bound": Job(ranks=1, layers=5),
    "host-bound": Job(ranks=1, layers=5, **SMALL, input_ns=10_000),
    "between the two": Job(ranks=1, layers=5, gemm_ns=40_000, elementwise_ns=15_000, copy_ns=30_000),
    "input-bound": Job(ranks=1, input_ns=4_000_000),
    "replayed graph": Job(ranks=1, cuda_graph=True),
    "full queue": Job(ranks=1, layers=12, queue_limit=16, gemm_ns=300_000),
    "waits not recorded": Job(ranks=1, sync_records=False),
    "pageable copy": Job(ranks=1, layers=5, pageable=True),
    "communication-bound": Job(ranks=2, hosts=2, bucket_bytes=10_000_000),
    "two groups": Job(ranks=4, tensor_parallel=2, exchange=True),
    "late host": Job(ranks=4, delays=(Delay(rank=2, ns=1_500_000),)),
    "late device": Job(ranks=4, delays=(Delay(rank=1, ns=1_200_000, kernels="GEMM"),)),
    "late in a pair": Job(
        ranks=4, tensor_parallel=2, delays=(Delay(rank=3, ns=2_000_000, phase="forward"),)
    ),
}  # fmt: skip
CHANGES: dict[str, tuple[Change, Callable[[Job], Job]]] = {
    "faster GEMM": (Change(faster=(("GEMM", 2.0),)), lambda job: replace(job, factors={"GEMM": 0.5})),
    "faster by name": (Change(faster=(("*relu*", 3.0),)), lambda job: replace(job, factors={"elementwise": 1 / 3})),
    "faster transfers": (
        Change(faster=(("communication", 4.0),)), lambda job: replace(job, factors={"transfer": 0.25})
    ),
    "no transfers": (Change(without=("communication",)), lambda job: replace(job, factors={"transfer": 0.0})),
    "no input": (Change(without=("input",)), lambda job: replace(job, input_ns=0)),
    "no launches": (Change(without=("launch",)), lambda job: replace(job, launch_ns=0, launch_delay_ns=0)),
    "no straggler": (Change(without=("straggler",)), lambda job: replace(job, delays=())),
    "several": (
        Change(faster=(("GEMM", 2.0),), without=("launch", "communication", "straggler")),
        lambda job: replace(job, factors={"GEMM": 0.5, "transfer": 0.0}, launch_ns=0, launch_delay_ns=0, delays=()),
    ),
}  # fmt: skip


def step_ns(job: Simulated, steps: tuple[int, ...]) -> float:
    """What a step took in the mean over ranks, each from when it had done the step before."""
    at = job.moments.at
    starts, ends = (
        sum(at[one.steps[step][edge]] for one in job.processes) for step, edge in ((steps[0], 0), (steps[-1], 1))
    )
    return (ends - starts) / len(steps) / len(job.processes)


Recorded = tuple[Simulated, Scope, Graph]


@pytest.fixture(scope="module", params=[pytest.param(job, id=name) for name, job in JOBS.items()])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """A job, and the graph of its recording."""
    job = simulate(request.param)
    folder = tmp_path_factory.mktemp("job")
    job.write(folder)
    with stepscope.open(folder) as trace, Scope(trace.store) as scope:
        (window,) = step_windows(scope, scope)
        yield job, scope, build(scope, window)


KIND_OF = {
    "GEMM": "computation",
    "elementwise": "computation",
    "optimizer": "computation",
    "synchronize": "synchronization",
    "kernel_gap": "kernel gap",
    "launch_delay": "launch delay",
}
HOST = {"operator", "between operators", "runtime call", "input", "input wait"}
"""In the simulation the host's own calls are operators, and to fetch a batch that is ready is no part of the wait."""


def test_the_path_is_the_one_that_decided_how_long_the_job_took(recorded: Recorded) -> None:
    job, scope, graph = recorded
    window = graph.window
    assert graph.contradicting == 0
    pieces = pieces_of(scope, graph)
    assert (pieces.start[0], pieces.end[-1]) == (window.start, window.end)
    assert (pieces.start[1:] == pieces.end[:-1]).all()
    found, truth = Counter[str](), Counter[str]()
    for number, ns in zip(pieces.kind.tolist(), pieces.length.tolist(), strict=True):
        found["host" if KINDS[number] in HOST else KINDS[number]] += ns
    for link in job.critical_path():
        if link.end_ns - START_NS > window.start:
            kind = KIND_OF.get(link.kind, link.kind)
            truth["host" if kind in HOST else kind] += link.ns
    assert found == truth


def test_predictions_are_those_of_the_changed_job(recorded: Recorded) -> None:
    job, scope, graph = recorded
    steps = graph.window.steps
    model = WhatIf(scope, graph)
    assert (model.run(graph.duration, graph.lag) == graph.time).all()
    assert not job.job.delays or model.straggler() == job.job.delays[0].rank
    before = step_ns(job, steps)
    # The step that changes are taken from is the one that `summary` and `findings` have.
    assert model.recorded / len(steps) == pytest.approx(fmean(measure_times(scope).step_ns), rel=1e-3)
    for name, (change, made) in CHANGES.items():
        outcome = model.outcome(change)
        assert 0 <= outcome.low <= outcome.saved <= outcome.high, name
        # Something of every step remains, so that no bound is all of it.
        assert outcome.high < graph.window.end - graph.window.start, name
        truth = step_ns(simulate(made(job.job)), steps)
        predicted = before - outcome.saved / len(steps)
        assert predicted == pytest.approx(truth, rel=ALLOWED_RATIO), name
        # The bounds hold as far as the prediction does: what is left is order among ranks that would change.
        error = ALLOWED_RATIO * truth
        least, most = outcome.low / len(steps), outcome.high / len(steps)
        assert least - error <= before - truth <= most + error, name
