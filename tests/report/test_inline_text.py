"""What inline measurements show in a few lines, above their table."""

from typing import Any

from tests.literal import literal_store

from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.report.inline_text import conclusion, inline_lines
from stepscope.report.renderers import Layout


def _event(label: str, start: int, end: int, *times: int, **more: Any) -> list[dict[str, Any]]:
    places = {"device": 0, "stream": 0, "start_index": start, "end_index": end}
    return [{"label": label, **places, "dur_ns": time, **more} for time in times]


def _whole(*times: int, rank: int = 0) -> list[dict[str, Any]]:
    same = {"kind": "iteration", "label": "iteration", "rank": rank}
    return [{**same, "dur_ns": time} for time in times]


def _told(rows: list[dict[str, Any]], **more: Any) -> list[str]:
    with literal_store({"inline_timing": rows, **more}) as store:
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
        "Most of it is in backward (500.0 µs, 50.0 % ± 1.2 %), forward (400.0 µs, 40.0 % ± 1.0 %); outside "
        "measured events 10.0 % ± 2.2 %.",
        "Of 4 events 3 are known within ± 5.0 % of the mean; least certain is 1.forward, of which 2 measurements are too few "
        "for an interval (70.00 µs in the median, 88.00 µs at the 95th percentile).",
        "Measuring an event added 1.0 % to an iteration (0.5 % to 2.0 % of it).",
    ]
    unclear = cost.replace("0.005", "-0.03")
    assert _told(rows, source=[{"format": "inline", "metadata": unclear}])[-1] == (
        "The overhead of measuring an event is within the scatter of iterations (-3.0 % to 2.0 % of it)."
    )

    assert _told(rows, source=[{"format": "inline", "metadata": unclear.replace("0.02", "1.02")}])[-1] == (
        "The overhead of measuring an event is not known yet (-3.0 % to 102.0 % of it)."
    )
    no_time = cost.replace("0.005", "-1.5").replace("0.02", "1.02")
    assert _told(rows, source=[{"format": "inline", "metadata": no_time}])[-1] == (
        "The overhead of measuring an event is not known yet."
    )
    seldom = cost.replace("}}", '}, "armed_every": 16}')
    assert _told(rows, source=[{"format": "inline", "metadata": seldom}])[-1] == (
        "Measuring an event added 1.0 % to an iteration (0.5 % to 2.0 % of it), so the costliest event was "
        "measured in only one of 16 at the end."
    )


def test_parts_are_of_means_as_the_table_has_them_and_open_where_one_straggler_is_half_of_them() -> None:
    """A median of six beside that of all iterations would leave half of an iteration in nothing."""
    straggling = (4_768, 524, 448, 595, 4_600, 467)
    rows = [
        *_whole(*[1_600, 6_400] * 9),
        *_event("forward", 0, 3, *straggling),
        *_event("0.forward", 1, 2, 350, 360, 340),
        *_event("backward", 4, 5, 1_200, 1_300, 1_250),
    ]
    assert _told(rows)[1:3] == [
        "Its largest part is not known yet: of forward 6 measurements are too few for an interval (560 ns in the "
        "median, 4.726 µs at the 95th percentile).",
        "Within other events, 0.forward (350 ns, 8.8 % ± 2.8 %) takes most.",
    ]
    even = [row for row in rows if row["label"] != "forward"]
    assert _told(even)[1] == (
        "Most of it is in backward (1.250 µs, 31.2 % ± 10.1 %), 0.forward (350 ns, 8.8 % ± 2.8 %); outside "
        "measured events 60.0 % ± 12.7 %."
    )


def test_parts_of_different_work_are_not_compared() -> None:
    rows = [
        *_whole(990, 1_000, 1_010),
        *_event("forward", 0, 3, 270, 271, 272),
        *_event("0.forward", 1, 2, 430, 431, 432),
    ]
    cannot = "and parts of an iteration cannot be compared."
    longer = (
        f"0.forward took longer than forward around it: they were measured in iterations that did different work, "
        f"{cannot}"
    )
    changed = [{"format": "inline", "metadata": '{"model_changes": [60]}'}]
    assert _told(rows)[1:-1] == [longer]
    assert _told(rows, source=changed)[1:-1] == [
        "2 models were measured one after the other: a mean covers those that were trained at its turn, " + cannot,
        longer,
    ]
    same = [{"format": "inline", "metadata": '{"model_changes": []}'}]
    assert _told(rows[:-3], source=same)[1].startswith("Most of it is in forward")


def test_parts_of_more_than_an_iteration_have_no_share() -> None:
    """The iterations that measured them were not those that the iteration's time is of."""
    whole = _whole(990, 1_000, 1_010)
    cannot = (
        "in the iterations that measured it, which differ too much from the others to compare parts with an iteration."
    )
    longer = _event("backward", 0, 1, 1_700, 1_701, 1_702)
    assert _told(whole + longer)[1:-1] == [f"backward takes 1.701 µs {cannot}"]
    perhaps = _event("backward", 0, 1, 700, 850, 1_000)
    assert _told(whole + perhaps)[1:-1] == [f"backward takes 850 ns {cannot}"]


def test_an_interval_that_reaches_below_zero_is_not_told_as_one() -> None:
    rows = [*_whole(1_000, 1_000, 20_000), *_event("forward", 0, 1, 50)]
    assert _told(rows)[0] == (
        "An iteration takes 1.000 µs (median of 3; mean 7.333 µs: 3 iterations are too few for an interval)."
    )


def test_a_plan_that_was_complete_before_the_run_ended_is_of_its_first_part() -> None:
    rows = [*_whole(990, 1_000, 1_010), *_event("forward", 0, 1, 500, 501)]
    alone = "means and intervals of events cover only that part of the run."

    def last(complete: str, *beside: dict[str, Any]) -> str:
        metadata = f'{{"complete": {complete}, "iterations_run": 840}}'
        return _told(rows, source=[{"format": "inline", "metadata": metadata}, *beside])[-1]

    def phases(steps: int) -> dict[str, Any]:
        return {"span": 1, "format": "phases", "metadata": f'{{"steps": {steps}}}'}

    assert last("true", phases(100_000)) == f"The plan was complete after 840 of 100\u202f000 iterations: {alone}"
    assert last("true") == f"The plan was complete after 840 iterations: {alone}"
    assert last("true", phases(840)).startswith("Of 1 event")
    assert last("false", phases(100_000)).startswith("Of 1 event")


def test_of_several_ranks_the_slowest_is_told_of() -> None:
    rows = [*_whole(100), *_whole(200, rank=1), *_event("forward", 0, 1, 50, rank=1)]
    assert _told(rows) == [
        "On rank 1, the slowest of 2, an iteration takes 200 ns (median of 1; mean 200 ns).",
        "Of 1 event no mean has an interval: each was measured once, or the file has averages alone.",
    ]


def test_without_iterations_nothing_is_concluded() -> None:
    assert _told(_event("forward", 0, 1, 50)) == []


def test_the_lines_stand_between_the_title_and_the_table() -> None:
    rows = [*_whole(100, 101), *_event("forward", 0, 1, 50, 51)]
    with literal_store({"inline_timing": rows}) as store:
        lines = inline_lines(ask(find("inline"), store), Layout(120))
        by_label = inline_lines(ask(find("inline"), store, by="label"), Layout(120))
    assert [line.style for line in lines[:6]] == ["title", "row", "row", "row", "row", "head"]
    assert [line.style for line in by_label[:2]] == ["title", "head"]
