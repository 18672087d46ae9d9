"""Rules about memory: what grows, what failed, and what the peak is for, with their near misses."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.memory_snapshots import BACKWARD, OPTIMIZER, Allocator, training

import stepscope

MIB = 1 << 20


@pytest.fixture
def found(tmp_path: Path) -> Any:
    """`found(played, "retained-memory")`: the rows of a rule about a snapshot."""

    def ask(played: Allocator | dict[str, Any], rule: str) -> list[dict[str, Any]]:
        snapshot = played if isinstance(played, dict) else played.snapshot()
        (tmp_path / "a.pickle").write_bytes(pickle.dumps(snapshot))
        with stepscope.open(tmp_path / "a.pickle") as recording:
            rows: list[dict[str, Any]] = recording.findings(id=rule).rows()
        for row in rows:
            row["evidence"] = json.loads(row["evidence"])
        return rows

    return ask


def test_memory_that_every_step_keeps_is_found_with_the_line_that_allocates_it(found: Any) -> None:
    (row,) = found(training(6, leaks=300), "retained-memory")
    assert row["title"] == (
        "Memory grows by 300 B a step, in each of 4 steps; 100.0 % of it is allocated by /job/model.py(12): forward"
    )
    assert row["value"] == 300
    assert row["evidence"][0]["bytes_per_step"] == 300
    assert row["confidence"] == "high"


@pytest.mark.parametrize(
    "played",
    [
        pytest.param(training(6), id="what the first step makes stays"),
        pytest.param(training(4, leaks=300), id="three steps show two growths after the first"),
        pytest.param(training(6, leaks=10), id="a few bytes of megabytes"),
    ],
)
def test_memory_that_does_not_grow_much_in_every_step_is_not(found: Any, played: Allocator) -> None:
    assert found(played, "retained-memory") == []


def test_memory_that_grows_in_turns_is_not_kept(found: Any) -> None:
    played = Allocator()
    played.reserve(0)
    for step in range(8):
        played.mark(f"ProfilerStep#{step}", "START")
        if step % 2:
            played.take(0, 5000)
        elif step:
            played.free(0)
        played.take(8192, 5)
        played.free(8192)
        played.mark(f"ProfilerStep#{step}", "END")
    assert found(played, "retained-memory") == []


def failed(free_in_one: int, *, asked: int = 4 * MIB, expandable: bool = False) -> dict[str, Any]:
    """8 MiB of which every second block is free, and an allocation that fails."""
    played = Allocator()
    played.reserve(0, 8 * MIB, seen=False)
    for at in range(0, 8 * MIB, 2 * free_in_one):
        played.take(at + free_in_one, free_in_one, seen=False)
    played.take(9 * MIB, 512)
    played.out_of_memory(asked, 2 * MIB)
    snapshot = played.snapshot()
    for segment in snapshot["segments"]:
        segment["is_expandable"] = expandable
    return snapshot


def test_free_memory_in_pieces_explains_an_out_of_memory(found: Any) -> None:
    (row,) = found(failed(MIB), "out-of-memory")
    assert row["title"] == (
        "Out of memory, by fragmentation: 4.000 MiB requested, 2.000 MiB free on the device, "
        "4.000 MiB cached by the allocator, at most 1.000 MiB in one piece"
    )
    assert "expandable_segments:True" in row["advice"]
    assert row["severity"] == "high"


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(failed(MIB, asked=4 * MIB + 1), id="more than all that is free"),
        pytest.param(failed(MIB, expandable=True), id="segments grow already"),
        pytest.param(failed(4 * MIB), id="it lies in one piece"),
    ],
)
def test_what_fragmentation_does_not_explain_is_no_advice_for_it(found: Any, snapshot: dict[str, Any]) -> None:
    (row,) = found(snapshot, "out-of-memory")
    assert row["title"].startswith("Out of memory: ")
    assert "expandable" not in row["advice"]


def test_no_failure_is_no_out_of_memory(found: Any) -> None:
    assert found(training(), "out-of-memory") == []


def at_peak(activations: int, state: int, rest: int) -> Allocator:
    played = Allocator()
    played.reserve(0, 16 * MIB, seen=False)
    played.take(0, rest, seen=False)
    played.take(4 * MIB, state, OPTIMIZER)
    played.mark("Optimizer.step#Adam.step", "END")
    played.take(8 * MIB, activations)
    played.take(12 * MIB, 1, BACKWARD)
    played.free(8 * MIB, BACKWARD)
    return played


def test_activations_that_are_most_of_the_peak_are_found_with_what_checkpoints_cost(found: Any) -> None:
    (row,) = found(at_peak(600, 1, 398), "activations-at-peak")
    assert row["value"] == 0.6
    assert row["title"] == "Activations are 60.0 % of memory at its peak: 600 B of 1000 B"
    assert "torch.utils.checkpoint" in row["advice"]
    assert "a third more computation" in row["trade_off"]
    assert found(at_peak(500, 1, 498), "activations-at-peak") == []


def test_optimizer_state_that_is_much_of_the_peak_is_found(found: Any) -> None:
    (row,) = found(at_peak(100, 410, 489), "optimizer-state-at-peak")
    assert row["value"] == 0.41
    assert found(at_peak(100, 400, 499), "optimizer-state-at-peak") == []


def test_a_half_empty_device_needs_neither(make_scope: Any) -> None:
    from stepscope.findings.facts import Facts
    from stepscope.findings.rules import find

    def event(time: int, size: int, role: str) -> dict[str, Any]:
        return {
            "device_kind": "cuda", "device": 0, "time_ns": time, "sequence": time, "address": time,
            "bytes": size, "role": role,
        }  # fmt: skip

    for size, count in ((1000, 1), (1402, 0)):
        rows = {
            "memory_event": [event(1, 700, "forward"), event(2, 1, "backward")],
            "device": [{"device": 0, "kind": "cuda", "memory_bytes": size}],
        }
        facts = Facts(make_scope(rows))
        assert len(list(find("activations-at-peak").find(facts))) == count
