from __future__ import annotations

import pytest

from stepscope.questions.ask import ask
from stepscope.questions.invariants import INVARIANTS, invariants
from stepscope.store.open import Store

SOUND = {
    "step": [{"step": 3, "start_ns": 0, "end_ns": 100}],
    "host_event": [
        {"id": 0, "start_ns": 0, "dur_ns": 50, "step": 3, "module_id": 0},
        {"id": 1, "start_ns": 10, "dur_ns": 20, "step": 3, "parent_id": 0, "forward_id": 0},
    ],
    "device_event": [
        {"id": 2, "start_ns": 40, "dur_ns": 9, "launch_id": 1, "operator_id": 1, "step": 3},
        {"id": 3, "start_ns": 50, "dur_ns": 5, "kind": "communication", "module_id": 0},
    ],
    "collective": [{"id": 3}],
    "module": [{"module_id": 0, "path": "net"}],
    "attribution": [{"link": "launch", "device_ns": 14, "attributed_ns": 9}],
}


def broken(rows) -> set[str]:
    with Store.from_rows(rows) as store:
        return {row["check"] for row in ask(invariants, store).rows() if row["severity"] == "error"}


def changed(table: str, row: int, **values):
    rows = [dict(old) for old in SOUND[table]]
    rows[row].update(values)
    return {**SOUND, table: rows}


def test_a_sound_store_breaks_nothing():
    assert broken(SOUND) == set()
    assert broken({}) == set()


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("unique_ids", changed("device_event", 0, id=1)),
        ("times_from_start", changed("device_event", 0, start_ns=-1)),
        ("children_inside_parents", changed("host_event", 1, start_ns=40)),
        ("children_inside_parents", changed("host_event", 1, thread=5)),
        ("depth_counts_parents", changed("host_event", 1, depth=0)),
        ("depth_counts_parents", changed("host_event", 0, depth=1)),
        ("self_times_add_up", changed("host_event", 0, self_ns=50)),
        ("links_lead_somewhere", changed("device_event", 0, launch_id=77)),
        ("links_lead_somewhere", changed("device_event", 0, operator_id=2)),
        ("links_lead_somewhere", changed("host_event", 1, forward_id=9)),
        ("links_lead_somewhere", changed("host_event", 0, module_id=4)),
        ("links_lead_somewhere", changed("module", 0, parent_id=4)),
        (
            "steps_cover_operators",
            changed("host_event", 1, step=4)
            | {"step": [*SOUND["step"], {"step": 4, "start_ns": 60, "end_ns": 90}]},
        ),
        ("steps_exist", changed("device_event", 0, step=9)),
        ("attribution_covers_device_time", changed("attribution", 0, attributed_ns=15)),
        ("attribution_covers_device_time", changed("attribution", 0, device_ns=13)),
        ("collectives_are_communication", changed("collective", 0, id=2)),
    ],
)
def test_a_violation_is_found(name, rows):
    assert name in broken(rows)


def test_an_empty_required_value_is_found(tmp_path):
    """Parquet keeps no NOT NULL: a view over a file may hold what the schema forbids."""
    with Store.from_rows({}) as store:
        count = {name: text for name, _, text in INVARIANTS}["required_values_present"]
        cursor = store.cursor()
        cursor.execute(
            "CREATE TEMP VIEW stream AS SELECT NULL::INTEGER AS rank, 0 AS device, 0 AS stream"
        )
        assert cursor.execute(count).fetchall() == [(1,)]
        cursor.close()


def test_checks_of_the_recording_come_first():
    rows = {"data_check": [{"check": "stream_overlap", "explanation": "two kernels overlap"}]}
    with Store.from_rows(rows) as store:
        first = ask(invariants, store).rows()[0]
    assert (first["check"], first["severity"], first["rank"]) == ("stream_overlap", "warning", 0)
    assert first["meaning"] == "two kernels overlap"


def test_every_invariant_says_what_must_hold():
    assert len({name for name, _, _ in INVARIANTS}) == len(INVARIANTS)
    assert all(meaning for _, meaning, _ in INVARIANTS)
