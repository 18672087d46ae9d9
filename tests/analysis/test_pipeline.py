"""Bubbles of pipelines: of simulated jobs whose bubbles are known, and of literal transfers."""

from pathlib import Path
from typing import Any

import pytest
from tests.simulated_job import Job, simulate

import stepscope
from stepscope.analysis.ranks.pipeline import chains
from stepscope.query.scope import Scope

_EVEN = {
    "steps": 3, "layers": 2, "jitter": 0.0, "gemm_ns": 3_000_000, "elementwise_ns": 1_000_000, "input_ns": 1_000,
    "latency_ns": 1_000, "bucket_bytes": 80_000, "optimizer_ns": 1_000, "copy_ns": 1_000,
}  # fmt: skip


@pytest.mark.parametrize(("schedule", "stages", "batches"), [("1F1B", 4, 8), ("GPipe", 3, 5)])
def test_bubbles_of_even_stages_are_those_of_the_formula(
    schedule: str, stages: int, batches: int, tmp_path: Path
) -> None:
    simulate(
        Job(
            ranks=2 * stages, pipeline_parallel=stages, microbatches=batches, schedule=schedule, **_EVEN
        )
    ).write(tmp_path / "job")  # fmt: skip
    with stepscope.open(tmp_path / "job") as trace:
        # The first step lacks what the last stages wait for at the end of a step before.
        answer = trace.ask("rank-overview", step=[1, 2])
        by_step = trace.ask("rank-overview", measure="bubble", step=[1, 2]).rows()
    expected = (stages - 1) / (batches + stages - 1)
    rows = answer.rows()
    assert [row["stage"] for row in rows] == [rank // 2 for rank in range(2 * stages)]
    for row in rows:
        assert row["bubble_ratio"] == pytest.approx(expected, rel=0.01)
        own = [step["value_ns"] for step in by_step if step["rank"] == row["rank"]]
        assert sum(own) == row["bubble_ns"] <= row["exposed_communication_ns"]
    assert f"Pipeline of {stages} stages: bubbles are" in answer.note


def test_a_job_without_a_pipeline_has_no_bubbles(tmp_path: Path) -> None:
    simulate(Job(ranks=2, steps=2)).write(tmp_path / "job")
    with stepscope.open(tmp_path / "job") as trace:
        (row, _) = trace.ask("rank-overview").rows()
        assert "No pipeline is recognised" in trace.ask("rank-overview", measure="bubble").note
    assert (row["stage"], row["bubble_ns"], row["bubble_ratio"]) == (None, None, None)


def test_bubble_is_the_wait_beside_which_nothing_is_computed_or_copied(diff: Any) -> None:
    kernel = {"kind": "communication", "stream": 20}
    of_stage = {"operation": "recv", "group_name": "1", "group_description": "mesh_pp", "source_rank": 1}
    rows = {
        "step": [{"end_ns": 100}],
        "device_event": [
            {"id": 1, "start_ns": 0, "dur_ns": 20},
            {"id": 2, "start_ns": 10, "dur_ns": 30, **kernel},
            {"id": 3, "start_ns": 50, "dur_ns": 30, **kernel},
            {"id": 4, "start_ns": 55, "dur_ns": 5, "kind": "copy", "stream": 8},
        ],
        "collective": [
            {"id": 2, "start_ns": 10, "end_ns": 40, "wait_ns": 25, "match_id": 1, **of_stage},
            {"id": 3, "start_ns": 50, "end_ns": 80, **of_stage},
        ],
    }  # fmt: skip
    # 20 to 35 of the first; all of the second but the copy, because nothing tells wait from transfer.
    diff("rank-overview", rows, "rank,stage,bubble_ns,bubble_ratio\n0,,40,0.4")


def _transfers(*pairs: tuple[int, int], size: int = 4) -> dict[str, Any]:
    """Ranks, each of which sends to some and receives from some, in a group that has no description."""
    rows = []
    for number, (source, destination) in enumerate(pairs):
        shared = {"group_name": "0", "group_size": size, "start_ns": number, "end_ns": number + 1}
        rows.append({"rank": source, "operation": "send", "destination_rank": destination, **shared})
        rows.append({"rank": destination, "operation": "recv", "source_rank": source, **shared})
    return {"collective": rows}


_CHAIN = [(0, 1), (1, 2), (2, 1), (1, 0)]
_EACH_OTHER = [(a, b) for a in range(3) for b in range(3) if a != b]


@pytest.mark.parametrize(
    ("rows", "ranks", "is_one"),
    [
        (_transfers(*_CHAIN, size=3), [0, 1, 2], True),
        (_transfers(*_CHAIN), [1], True),
        # A ring sends one way; an exchange knows everybody; two ranks may be anything.
        (_transfers((0, 1), (1, 2), (2, 0), size=3), [0, 1, 2], False),
        (_transfers(*_EACH_OTHER, size=3), [0, 1, 2], False),
        (_transfers((0, 1), (1, 0), size=2), [0, 1], False),
        (_transfers(*_CHAIN, size=3), [1], False),
    ],
)
def test_stages_are_told_by_whom_they_send_to(
    rows: dict[str, Any], ranks: list[int], is_one: bool, make_store: Any
) -> None:
    with Scope(make_store(rows), ranks) as scope:
        assert bool(chains(scope)) is is_one
