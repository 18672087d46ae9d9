"""What inline measurements show in a few lines, above their table."""

from __future__ import annotations

from typing import Any

from stepscope.answers.ask import ask
from stepscope.questions import find
from stepscope.report.inline_text import conclusion, inline_lines
from stepscope.store.open import Store


def _event(label: str, start: int, end: int, *times: int, **more: Any) -> list[dict[str, Any]]:
    places = {"device": 0, "stream": 0, "start_index": start, "end_index": end}
    return [{"label": label, **places, "dur_ns": time, **more} for time in times]


def _whole(*times: int, rank: int = 0) -> list[dict[str, Any]]:
    same = {"kind": "iteration", "label": "iteration", "rank": rank}
    return [{**same, "dur_ns": time} for time in times]


def _told(rows: list[dict[str, Any]], **more: Any) -> list[str]:
    with Store.from_rows({"inline_timing": rows, **more}) as store:
        return conclusion(ask(find("inline"), store).rows())


def test_five_lines_say_how_long_where_how_sure_and_at_what_cost() -> None:
    rows = [
        *_whole(990_000, 1_000_000, 1_010_000),
        *_event("forward", 0, 5, 400_000, 400_000),
        *_event("0.forward", 1, 2, 150_000, 150_000),
        *_event("1.forward", 3, 4, 50_000, 90_000),
        *_event("backward", 6, 7, 500_000, 500_000),
    ]
    cost = '{"overhead": {"ratio": 0.01, "ratio_low": 0.005, "ratio_high": 0.02}}'
    assert _told(rows, source=[{"format": "inline", "metadata": cost}]) == [
        "An iteration takes 1.000 ms (median of 3; mean 1.000 ms, 975.2 µs to 1.025 ms).",
        "Most of it is in backward (500.0 µs, 50.0 %), forward (400.0 µs, 40.0 %); in none that was measured 10.0 %.",
        "Of what was measured within them, 0.forward (150.0 µs, 15.0 %), 1.forward (70.00 µs, 7.0 %) take most.",
        "Of 4 events 3 are known within ± 5.0 % of the mean; least sure is 1.forward, ± 363.0 % by 2 measurements.",
        "Measuring an event added 1.0 % to an iteration (0.5 % to 2.0 % of it).",
    ]
    unclear = cost.replace("0.005", "-0.03")
    assert _told(rows, source=[{"format": "inline", "metadata": unclear}])[-1] == (
        "Measuring an event added nothing to an iteration that can be told from its scatter (-3.0 % to 2.0 % of it)."
    )


def test_of_several_ranks_the_slowest_is_told_of() -> None:
    rows = [*_whole(100), *_whole(200, rank=1), *_event("forward", 0, 1, 50, rank=1)]
    assert _told(rows) == [
        "On rank 1, the slowest of 2, an iteration takes 200 ns (median of 1; mean 200 ns).",
        "Most of it is in forward (50 ns, 25.0 %); in none that was measured 75.0 %.",
        "Of 1 event no mean has an interval: each was measured once, or the file has averages alone.",
    ]


def test_without_iterations_nothing_is_concluded() -> None:
    assert _told(_event("forward", 0, 1, 50)) == []


def test_the_lines_stand_between_the_title_and_the_table() -> None:
    rows = [*_whole(100, 101), *_event("forward", 0, 1, 50, 51)]
    with Store.from_rows({"inline_timing": rows}) as store:
        lines = inline_lines(ask(find("inline"), store), width=120, most=None, bars=False)
        by_label = inline_lines(
            ask(find("inline"), store, by="label"), width=120, most=None, bars=False
        )
    assert [line.style for line in lines[:6]] == ["title", "row", "row", "row", "row", "head"]
    assert [line.style for line in by_label[:2]] == ["title", "head"]
