"""The tables of a part of a recording, held against filtering by hand, moment by moment."""

import fnmatch
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from tests.literal import literal_store

from stepscope.base.errors import UsageError
from stepscope.query.event_filter import EventFilter
from stepscope.query.scope import Scope
from stepscope.questions import find
from stepscope.questions.invariants import INVARIANTS, SUMS
from stepscope.store.open import Store

LEADS_OUT = {"links_lead_somewhere", "links_are_what_they_lead_to", "attribution_covers_device_time"}
"""Invariants of a complete recording alone: what is kept may lead to what is not, and `attribution` is of
all that was recorded."""

Row = dict[str, Any]

KINDS = {"a": "operator", "b": "operator", "r": "annotation", "f": "python", "c": "runtime"}


class Recorded:
    """A small random recording, with everything about it worked out by hand."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.host: list[Row] = []
        self.device: list[Row] = []
        for thread in range(2):
            at = random.randrange(4)
            while at < 30:
                at = self._call(at, random.randrange(2, 14), thread, None) + random.randrange(3)
        calls = [row for row in self.host if row["kind"] == "runtime"]
        for number, call in enumerate(calls):
            if random.random() < 0.8:
                self.device.append(self._work(1000 + number, call))
        for row in self.host:
            row["self_ns"] = sum(self.innermost(t, row["thread"]) is row for t in self.moments(row))
            row["recursive"] = row["kind"] in ("operator", "annotation") and any(
                (one["name"], one["kind"]) == (row["name"], row["kind"]) for one in self.above(row)
            )
            row["device_ns"], row["device_self_ns"] = self.device_times(row, (0, 1 << 40))

    def _call(self, start: int, length: int, thread: int, parent: Row | None) -> int:
        name = self.random.choice("aabrfc" if length > 2 else "c")
        row: Row = {
            "id": len(self.host), "name": name, "kind": KINDS[name], "thread": thread, "start_ns": start,
            "dur_ns": length, "parent_id": None if parent is None else parent["id"],
            "depth": 0 if parent is None else parent["depth"] + 1,
        }  # fmt: skip
        self.host.append(row)
        at = start + self.random.randrange(2)
        while KINDS[name] != "runtime" and at + 1 < start + length:
            within = self.random.randrange(1, start + length - at + 1)
            if within == length and at == start:
                within -= 1
            at = self._call(at, within, thread, row) + self.random.randrange(3)
        return start + length

    def _work(self, number: int, call: Row) -> Row:
        start = call["start_ns"] + self.random.randrange(8)
        operator = next((one for one in self.above(call) if one["kind"] == "operator"), None)
        return {
            "id": number, "name": self.random.choice(["k", "l", "a"]), "kind": "computation", "start_ns": start,
            "dur_ns": self.random.randrange(6), "launch_id": call["id"], "launch_ns": call["start_ns"],
            "operator_id": operator and operator["id"], "operator_name": operator and operator["name"], "bytes": 60,
        }  # fmt: skip

    def above(self, row: Row) -> list[Row]:
        found = []
        while row["parent_id"] is not None:
            row = self.host[row["parent_id"]]
            found.append(row)
        return found

    @staticmethod
    def moments(row: Row) -> range:
        return range(row["start_ns"], row["start_ns"] + row["dur_ns"])

    def innermost(self, time: int, thread: int) -> Row | None:
        here = [row for row in self.host if row["thread"] == thread and time in self.moments(row)]
        return max(here, key=lambda row: row["depth"], default=None)

    def device_times(self, row: Row, window: tuple[int, int]) -> tuple[int | None, int | None]:
        """What it launched in all and itself, counted in moments of the window."""
        total: list[int] = []
        own: list[int] = []
        for work in self.device:
            if not overlaps(work, window):
                continue
            ns = sum(window[0] <= t < window[1] for t in self.moments(work))
            call = self.host[work["launch_id"]]
            chain = [call, *self.above(call)]
            if row not in chain:
                continue
            total.append(ns)
            ranges = [one for one in chain if one["kind"] in ("operator", "annotation")]
            caller = next((one for one in chain if one["kind"] != "runtime"), None)
            if row is call or row is caller or (ranges and row is ranges[0]):
                own.append(ns)
        return (sum(total) if total else None), (sum(own) if own else None)

    def store(self) -> Store:
        return literal_store(
            {
                "host_event": self.host,
                "device_event": self.device,
                "step": [
                    {"step": 1, "start_ns": 0, "end_ns": 15, "host_end_ns": 15},
                    {"step": 2, "start_ns": 15, "end_ns": 60, "host_start_ns": 15, "host_end_ns": 50},
                ],
            }
        )

    def kept(self, part: EventFilter) -> tuple[list[Row], list[Row]]:
        """The host and device rows of a part, by hand."""
        window = part.window or (0, 1 << 40)

        def named(*names: str | None) -> bool:
            return part.name is None or any(name is not None and fnmatch.fnmatchcase(name, part.name) for name in names)

        def under(row: Row) -> bool:
            return part.under is None or any(one["name"] == part.under for one in (row, *self.above(row)))

        inside = [row for row in self.host if under(row) and overlaps(row, window)]
        device = [
            work
            for work in self.device
            if under(self.host[work["launch_id"]])
            and overlaps(work, window)
            and named(work["name"], work["operator_name"])
        ]
        launches = {work["launch_id"] for work in device} if part.name is not None else set()
        host = [row for row in inside if named(row["name"]) or row["id"] in launches]
        ids = {row["id"] for row in host}
        expected = []
        for row in host:
            above = [one for one in self.above(row) if one["id"] in ids]
            times = [t for t in self.moments(row) if window[0] <= t < window[1]]
            whole = window == (0, 1 << 40)
            device_ns = self.device_times(row, window)
            expected.append(
                {
                    "id": row["id"],
                    "parent_id": above[0]["id"] if above else None,
                    "depth": len(above),
                    "recursive": row["recursive"]
                    and any((o["name"], o["kind"]) == (row["name"], row["kind"]) for o in above),
                    "start_ns": row["start_ns"] if whole else max(row["start_ns"], window[0]),
                    "dur_ns": len(times),
                    "self_ns": sum(self.innermost(t, row["thread"]) is row for t in times),
                    "device_ns": device_ns[0],
                    "device_self_ns": device_ns[1],
                }
            )
        cut = [
            {
                "id": work["id"],
                "start_ns": min(max(work["start_ns"], window[0]), window[1]),
                "dur_ns": (ns := sum(window[0] <= t < window[1] for t in self.moments(work))),
                "bytes": 60 if ns == work["dur_ns"] else 60 * ns // work["dur_ns"],
            }
            for work in device
        ]
        return expected, cut


def overlaps(row: Row, window: tuple[int, int]) -> bool:
    if not row["dur_ns"]:
        return window[0] <= row["start_ns"] < window[1]
    return any(window[0] <= t < window[1] for t in Recorded.moments(row))


def parts(random: Random) -> Iterator[EventFilter]:
    """Parts of every combination of filters."""
    for name in (None, random.choice(["a", "k", "[rk]"])):
        for under in (None, random.choice("ar")):
            start = random.randrange(25)
            for window in (None, (start, start + random.randrange(1, 15))):
                yield EventFilter(name, under, window)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_kept_is_what_filtering_by_hand_keeps(seed):
    random = Random(seed)  # noqa: S311  # a made recording, no secret
    recorded = Recorded(random)
    with recorded.store() as store:
        for asked in parts(random):
            name = "/^[rk]$/" if asked.name == "[rk]" else asked.name
            check(store, replace(asked, name=name), *recorded.kept(asked))


def check(store: Store, part: EventFilter, host: list[Row], device: list[Row]) -> None:
    try:
        scope = Scope(store, part=part)
    except UsageError:
        assert (host, device) == ([], [])
        return
    with scope:
        columns = "id, parent_id, depth, recursive, start_ns, dur_ns, self_ns, device_ns, device_self_ns"
        assert scope.sql(f"SELECT {columns} FROM host_event ORDER BY id").to_pylist() == host
        columns = "id, start_ns, dur_ns, bytes"
        assert scope.sql(f"SELECT {columns} FROM device_event ORDER BY id").to_pylist() == device
        for invariant, meaning, query in INVARIANTS if part.window and not part.name else ():
            if invariant not in LEADS_OUT:
                assert not scope.value(query), (meaning, part)


@pytest.mark.parametrize("seed", range(4))
def test_windows_side_by_side_add_up_to_the_recording(seed):
    """Nothing is lost at an edge, or counted twice."""
    random = Random(seed)  # noqa: S311  # a made recording, no secret
    recorded = Recorded(random)
    ends = [0, *sorted({random.randrange(1, 40) for _ in range(3)}), 100]
    queries = ("SELECT sum(self_ns) FROM host_event", "SELECT sum(dur_ns) FROM device_event")
    with recorded.store() as store:
        with Scope(store) as scope:
            whole = [int(scope.value(query) or 0) for query in queries]
        found = [0, 0]
        for window in pairwise(ends):
            try:
                scope = Scope(store, part=EventFilter(window=window))
            except UsageError:
                continue
            with scope:
                of_window = [int(scope.value(query) or 0) for query in queries]
                found = [a + b for a, b in zip(found, of_window, strict=True)]
                for _, meaning, question, total, columns in SUMS:
                    for row in find(question).answer(scope).to_pylist():
                        assert row[total] == sum(row[one] or 0 for one in columns), meaning
        assert found == whole


MODEL = {
    "module": [
        {"module_id": 0, "path": "net", "name": "net"},
        {"module_id": 1, "path": "net.fc", "name": "fc", "parent_id": 0, "depth": 1},
        {"module_id": 2, "path": "net.fc.act", "name": "act", "parent_id": 1, "depth": 2},
        {"module_id": 3, "path": "net.head", "name": "head", "parent_id": 0, "depth": 1},
    ],
    "host_event": [
        {"id": 1, "name": "aten::mm", "module_id": 1, "dur_ns": 5, "direction": "forward"},
        {"id": 2, "name": "aten::relu", "module_id": 2, "start_ns": 5, "dur_ns": 5},
        {"id": 3, "name": "MmBackward0", "module_id": 1, "start_ns": 20, "direction": "backward"},
        {"id": 4, "name": "aten::mm", "module_id": 3, "start_ns": 10, "dur_ns": 2},
        {"id": 5, "name": "head", "kind": "annotation", "start_ns": 30, "dur_ns": 4},
        {"id": 6, "name": "net.head", "kind": "annotation", "start_ns": 40, "dur_ns": 4},
    ],
    "device_event": [
        {"id": 11, "name": "gemm", "module_id": 1, "operator_id": 1, "dur_ns": 3},
        {"id": 12, "name": "gemm", "module_id": 1, "operator_id": 3, "start_ns": 21, "dur_ns": 3},
        {"id": 14, "name": "gemm", "module_id": 3, "operator_id": 4, "start_ns": 12, "dur_ns": 3},
    ],
    "collective": [{"id": 12}, {"id": 14}],
    "memory_event": [{"time_ns": 1, "operator_id": 1}, {"time_ns": 11, "operator_id": 4}],
}


def ids(scope: Scope, table: str, column: str = "id") -> list[int]:
    return scope.sql(f"SELECT {column} FROM {table} ORDER BY 1").column(0).to_pylist()


def test_a_module_has_its_parts_and_its_backward(make_scope):
    scope = make_scope(MODEL, part=EventFilter(under="net.fc"))
    assert ids(scope, "host_event") == [1, 2, 3]
    assert ids(scope, "device_event") == [11, 12]
    assert ids(scope, "module", "module_id") == [0, 1, 2]  # and what it is part of
    assert ids(scope, "collective") == [12]
    assert ids(scope, "memory_event", "operator_id") == [1]
    assert ids(make_scope(MODEL, part=EventFilter(under="*.act")), "host_event") == [2]


def test_a_collective_of_the_host_is_kept_with_its_range(make_scope):
    on_host = [{"id": None, "host_id": 3}, {"id": None, "host_id": 4}, {"id": 12, "host_id": 4}]
    scope = make_scope(MODEL | {"collective": on_host}, part=EventFilter(under="net.fc"))
    assert scope.sql("SELECT id, host_id FROM collective ORDER BY ALL").to_pylist() == [
        {"id": 12, "host_id": 4},
        {"id": None, "host_id": 3},
    ]


def test_what_under_names_may_be_said(make_scope):
    assert ids(make_scope(MODEL, part=EventFilter(under="range:net.head")), "host_event") == [6]
    assert ids(make_scope(MODEL, part=EventFilter(under="module:net.head")), "host_event") == [4]
    assert ids(make_scope(MODEL, part=EventFilter(under="aten::mm")), "host_event") == [1, 4]
    assert ids(make_scope(MODEL, part=EventFilter(under="operator:*Backward0")), "device_event") == [12]


@pytest.mark.parametrize(
    ("under", "message", "hint"),
    [
        ("net.head", "names 1 module and 1 range", "--under module:net.head or --under range:net.head"),
        ("net.fcc", "no module, operator or range 'net.fcc'", "net.fc"),
        ("relu", "no module, operator or range 'relu'", "aten::relu"),
        ("module:aten::mm", "no module 'aten::mm'", "modules, operators and annotations"),
        ("/(/", "is not a regular expression", "RE2"),
    ],
)
def test_under_says_what_there_is(make_scope, under, message, hint):
    with pytest.raises(UsageError) as caught:
        make_scope(MODEL, part=EventFilter(under=under))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_window_in_which_nothing_ran_says_when_something_did(make_scope):
    with pytest.raises(UsageError, match="no event lies in 50 ns to 60 ns of the run") as caught:
        make_scope(MODEL, part=EventFilter(window=(50, 60)))
    assert "from 0 ns to 44 ns" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        make_scope({"inline_timing": [{"label": "x"}]}, part=EventFilter(window=(50, 60)))
    assert "no events and no samples on a clock" in caught.value.hint


def test_a_window_of_a_recording_of_samples_alone_is_one_of_them(make_scope):
    sample = {"track": "t", "series": "s", "kind": None, "unit": "%", "pid": "0", "value": 1.0}
    rows = {"counter": [{**sample, "time_ns": at} for at in (0, 55, 90)]}
    with make_scope(rows, part=EventFilter(window=(50, 60))) as scope:
        assert scope.sql("SELECT time_ns FROM counter").to_pylist() == [{"time_ns": 55}]
    with pytest.raises(UsageError, match="no event or sample lies in 60 ns to 70 ns") as caught:
        make_scope(rows, part=EventFilter(window=(60, 70)))
    assert "from 0 ns to 90 ns" in caught.value.hint


def test_samples_do_not_stand_for_the_events_that_a_window_lacks(make_scope):
    sample = {"track": "t", "series": "s", "kind": None, "unit": "%", "pid": "0", "value": 1.0}
    with pytest.raises(UsageError, match="no event lies in 50 ns to 60 ns of the run"):
        make_scope({**MODEL, "counter": [{**sample, "time_ns": 55}]}, part=EventFilter(window=(50, 60)))


def test_an_event_named_for_its_launch_brings_the_call(make_scope):
    rows = {
        "host_event": [
            {"id": 1, "name": "aten::mm", "dur_ns": 9},
            {"id": 2, "name": "cudaLaunchKernel", "kind": "runtime", "parent_id": 1, "depth": 1},
        ],
        "device_event": [{"id": 3, "name": "gemm", "launch_id": 2, "dur_ns": 4}],
    }
    scope = make_scope(rows, part=EventFilter(name="gemm"))
    assert scope.sql("SELECT id, parent_id, depth FROM host_event").to_pylist() == [
        {"id": 2, "parent_id": None, "depth": 0}
    ]


def test_ranks_steps_and_a_part_narrow_together(make_scope):
    rows = {
        "step": [{"rank": rank, "step": step, "end_ns": 10} for rank in (0, 1) for step in (3, 4)],
        "host_event": [
            {"rank": rank, "name": name, "step": step, "dur_ns": 1}
            for rank in (0, 1)
            for step in (3, 4)
            for name in ("a", "b")
        ],
    }
    scope = make_scope(rows, ranks=[1], steps=[4], part=EventFilter(name="b"))
    query = "SELECT rank, step, name FROM {} ORDER BY ALL"
    assert scope.sql(query.format("host_event")).to_pylist() == [{"rank": 1, "step": 4, "name": "b"}]
    assert len(scope.sql(query.format(scope.unfiltered("host_event")))) == 2
    assert make_scope(rows).unfiltered("host_event") == "host_event"


def test_steps_that_a_window_cuts_are_noted(answer):
    rows = {
        "step": [
            {"step": 3, "start_ns": 0, "end_ns": 10, "host_end_ns": 10},
            {"step": 4, "start_ns": 10, "end_ns": 20, "host_start_ns": 10, "host_end_ns": 20},
            {"step": 5, "start_ns": 20, "end_ns": 30, "host_start_ns": 20, "host_end_ns": 30},
        ],
        "host_event": [{"name": "aten::mm", "start_ns": 2, "dur_ns": 26}],
    }
    table = answer("steps", rows, part=EventFilter(window=(5, 24)), columns=["step", "total_ns", "complete"])
    assert table.to_csv() == "step,total_ns,complete\n3,5,False\n4,10,True\n5,4,False\n"
    (check,) = table.checks
    assert check["check"] == "cut_by_window"
    assert "cuts step 3 and 5" in check["explanation"]
    assert not table.unreliable
    means = answer("steps", rows, part=EventFilter(window=(5, 24)), by="mean", columns=["steps", "total_ns"])
    assert means.to_csv() == "steps,total_ns\n1,10\n"
    assert answer("steps", rows, part=EventFilter(window=(10, 20))).checks == ()
