"""Charts are held to what they draw, read from the figure; how they look is for people to judge."""

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.browser.recordings import training
from tests.examples import examples
from tests.literal import literal_store

from stepscope.api.trace import Trace
from stepscope.base.errors import SourceError, StepScopeError, UsageError
from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.report import figures
from stepscope.report.chart import chart
from stepscope.report.figures import plain_text, save_figure
from stepscope.report.scaling_chart import scaling_chart
from stepscope.report.timeline_chart import placed, timeline_chart

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")

HOSTILE = "</text><script>alert(1)</script>\n$\\frac{1}{0}$ \x00\x1b[31m & \u202e 测试"


def _profile(rank, *events, whole_ms=10.0):
    return {
        "host_name": "h",
        "rank": rank,
        "avg_iter_time_ms": whole_ms,
        "timeline": {"device_0": {"stream_0": list(events)}},
    }


def _event(label, start, end, ms, at_ms):
    return {
        "label": label,
        "start_index": start,
        "end_index": end,
        "avg_measured_time_ms": ms,
        "avg_iter_start_to_event_start_time_ms": at_ms,
    }


FIRST = _event("fc1", 0, 1, 2.0, 1.0)
SECOND = _event("fc2", 2, 3, 3.0, 4.0)


def _bars(figure):
    """(y, x, width, height) of every drawn bar, without those of the legend."""
    axes = figure.axes[0]  # beside it the efficiency of several sizes
    boxes = [patch.get_bbox() for patch in axes.patches]
    return [
        (round(box.y0, 3), round(box.x0, 3), round(box.width, 3), round(box.height, 3))
        for box in boxes
        if box.width and box.height
    ]


def test_events_are_drawn_in_order_where_they_run():
    figure = timeline_chart([_profile(0, SECOND, FIRST)])
    axes = figure.axes[0]  # beside it the efficiency of several sizes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fc1", "fc2"]
    assert [(x, width) for _, x, width, _ in _bars(figure)] == [(1.0, 2.0), (4.0, 3.0)]
    texts = [text.get_text() for text in axes.texts]
    assert "complete iteration 10.00 ms" in texts
    assert "2.000 ms" in texts


def _row(label, start, end, ns, at, **more):
    return {
        "label": label, "occurrence": 0, "rank": 0, "span": 0, "device": 0, "stream": 0, "start_index": start,
        "end_index": end, "time_ns": ns, "start_offset_ns": at, "p5_ns": None, "p95_ns": None, **more,
    }  # fmt: skip


def _spans(bars):
    return {bar.row["label"]: (bar.start, bar.start + bar.width) for bar in bars}


def test_an_event_lies_within_the_one_around_it_and_after_the_one_before():
    """Each was measured in other iterations: `a` seems to start before forward, and `b` to end after it."""
    bars = placed(
        [
            _row("forward", 0, 5, 50, 20),
            _row("a", 1, 2, 20, 18),
            _row("b", 3, 4, 25, 55),
            _row("backward", 6, 7, 40, 65),
        ],
        100,
    )
    assert _spans(bars) == {
        "forward": (10, 60), "a": (10, 30), "b": (35, 60), "backward": (60, 100),
    }  # fmt: skip


def test_events_that_took_longer_than_the_one_around_them_are_drawn_shorter():
    bars = placed([_row("all", 0, 5, 30, 0), _row("a", 1, 2, 30, 0), _row("b", 3, 4, 30, 30)], 100)
    assert _spans(bars) == {"all": (0, 30), "a": (0, 15), "b": (15, 30)}


def test_offsets_are_those_from_the_event_around_them():
    """On its median the outer event starts at 40; the inner one, measured elsewhere, 5 after the outer one's own."""
    bars = placed([_row("outer", 0, 3, 50, 70), _row("inner", 1, 2, 10, 75)], 100)
    assert _spans(bars) == {"outer": (50, 100), "inner": (55, 65)}


@examples(60)
@given(st.data())
def test_whatever_was_measured_children_lie_within_and_siblings_follow(data):
    """A tree of events of any lengths and offsets: brute force over all pairs."""
    rows, index = [], 0

    def grow(depth):
        nonlocal index
        for _ in range(data.draw(st.integers(0, 3))):
            row = _row(f"e{index}", index, None, data.draw(st.integers(1, 99)), data.draw(st.integers(-9, 150)))
            rows.append(row)
            index += 1
            if depth:
                grow(depth - 1)
            row["end_index"] = index
            index += 1

    grow(2)
    bars = placed(rows, 100)
    for one in bars:
        assert one.start >= -1e-6
        assert one.start + one.width <= 100 + 1e-6
        for other in bars:
            if one.row["start_index"] < other.row["start_index"]:
                if other.row["end_index"] < one.row["end_index"]:
                    assert other.start >= one.start - 1e-6
                    assert other.start + other.width <= one.start + one.width + 1e-6
                else:
                    assert other.start >= one.start + one.width - 1e-6


def test_streams_have_lanes_with_names_and_beside_each_event_stands_how_sure_it_is():
    def samples(label, stream, start, *times):
        return [
            {"label": label, "device": 0, "stream": stream, "start_index": start, "end_index": start + 1,
             "dur_ns": time * 1_000_000, "start_offset_ns": 1_000_000}
            for time in times
        ]  # fmt: skip

    rows = {
        "inline_timing": [*samples("fc1", 0, 0, 3, 3, 3), *samples("copy", 7, 2, 1, 2, 3)],
        "rank": [{"host": "node7"}],
        "source": [{"format": "inline", "metadata": '{"script": "src/dlrm.py"}'}],
    }
    with Trace(literal_store(rows)) as trace:
        (axes,) = timeline_chart(trace).axes
    texts = [text.get_text().strip() for text in axes.texts]
    assert texts == ["3.000 ms  n 3", "2.000 ms  n 3  ± 50.0 %", "device 0, stream 0", "device 0, stream 7"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["fc1", "copy"]
    assert axes.get_title(loc="left") == "dlrm.py, 1 rank on node7, medians of 3 measurements"
    (whisker,) = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_xdata()[1] > 1]
    assert list(whisker.get_xdata()) == pytest.approx([2.1, 3.9])  # 5th and 95th percentile from 1 ms on


def test_each_rank_has_a_bar_of_its_own():
    figure = timeline_chart([_profile(0, FIRST), _profile(1, _event("fc1", 0, 1, 6.0, 1.5))])
    assert [(x, width) for _, x, width, _ in _bars(figure)] == [(1.0, 2.0), (1.5, 6.0)]
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["rank 0", "rank 1"]


def test_many_ranks_share_one_bar_of_their_average():
    figure = timeline_chart([_profile(rank, _event("fc1", 0, 1, 2.0 + rank, 1.0)) for rank in range(9)])
    ((_, x, width, _),) = _bars(figure)
    assert (x, width) == (1.0, 6.0)


def test_of_many_events_the_longest_are_drawn_and_the_others_are_counted():
    events = [_event(f"e{n}", 2 * n, 2 * n + 1, 0.01 * (n + 1), 0.1 * n) for n in range(65)]
    (axes,) = timeline_chart([_profile(0, *events)]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"e{n}" for n in range(5, 65)]
    assert "5 shorter events are not drawn" in axes.get_xlabel()


def test_nothing_to_draw_is_an_error_with_a_cure():
    with (
        Trace(literal_store({"host_event": [{"name": "aten::mm"}]})) as trace,
        pytest.raises(SourceError, match="no measured events"),
    ):
        timeline_chart(trace)


def test_two_profiles_of_one_rank_are_no_run():
    with pytest.raises(UsageError, match="two inline profiles of rank 0"):
        timeline_chart([_profile(0, FIRST), _profile(0, FIRST)])


def test_scaling_sets_the_whole_beside_stacked_averages_and_maxima():
    one = [_profile(0, FIRST, SECOND)]
    slow = _event("fc1", 0, 1, 4.0, 1.0)
    two = [_profile(0, FIRST, SECOND), _profile(1, slow, SECOND, whole_ms=20.0)]
    figure = scaling_chart([one, two], ["one", "two"])
    # y, height: whole; average: fc1, fc2 above it; maximum: likewise
    assert [(y, height) for y, _, _, height in _bars(figure)] == [
        (0.0, 10.0),
        (0.0, 2.0), (2.0, 3.0),
        (0.0, 2.0), (2.0, 3.0),
        (0.0, 15.0),
        (0.0, 3.0), (3.0, 3.0),
        (0.0, 4.0), (4.0, 3.0),
    ]  # fmt: skip
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert "one\n1 process" in texts
    assert "two\n2 processes" in texts


def test_what_lies_inside_a_measured_event_is_not_stacked_twice():
    outer = _event("forward", 0, 3, 5.0, 0.0)
    inner = _event("fc1", 1, 2, 2.0, 1.0)
    bars = _bars(scaling_chart([[_profile(0, outer, inner)]]))
    assert [height for _, _, _, height in bars] == [10.0, 5.0, 5.0]


def test_small_labels_share_one_part_of_the_stack():
    events = [_event(f"e{n}", 2 * n, 2 * n + 1, 1.0 + n, 0.0) for n in range(14)]
    figure = scaling_chart([[_profile(0, *events)]])
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert legend[:2] == ["complete iteration", "all others"]
    assert legend[2:] == [f"e{n}" for n in range(13, 1, -1)]
    assert 3.0 in [height for _, _, _, height in _bars(figure)]  # 1 + 2


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_labels_of_any_kind_make_a_sound_picture(tmp_path, suffix):
    profiles = [_profile(0, {**FIRST, "label": HOSTILE}, {**SECOND, "label": "x" * 10_000})]
    for number, figure in enumerate([timeline_chart(profiles, title=HOSTILE), scaling_chart([profiles], [HOSTILE])]):
        path = save_figure(figure, tmp_path / f"{number}{suffix}")
        if suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        else:
            tree = ElementTree.parse(path)  # noqa: S314  # we wrote it
            assert not [node for node in tree.iter() if node.tag.endswith("script")]
    assert len(list(tmp_path.iterdir())) == 2


def test_the_same_figure_is_the_same_svg(tmp_path):
    first = save_figure(timeline_chart([_profile(0, FIRST)]), tmp_path / "a.svg").read_bytes()
    second = save_figure(timeline_chart([_profile(0, FIRST)]), tmp_path / "b.svg").read_bytes()
    assert first == second


def test_a_chart_that_cannot_be_written_leaves_nothing(tmp_path):
    figure = timeline_chart([_profile(0, FIRST)])
    with pytest.raises(StepScopeError, match="cannot be written"):
        save_figure(figure, tmp_path / "absent" / "a.svg")
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        save_figure(figure, tmp_path / "a.pdf")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(StepScopeError) as refused:
        figures.new_figure(1, 1)
    assert "pip install matplotlib" in refused.value.hint


def test_long_labels_keep_both_ends():
    assert plain_text("a" * 20 + "b" * 20, 12) == "aaaa…bbbbbbb"
    assert plain_text("plain.label") == "plain.label"


@pytest.mark.parametrize(("question", "asked"), [("kernels", {}), ("operators", {"sort": "calls"})])
def test_an_answer_is_drawn_by_its_shares(question, asked):
    with literal_store(training()) as store:
        figure = chart(ask(find(question), store, **asked))
    (axes,) = figure.axes
    widths = [bar.get_width() for bar in axes.patches]
    assert len(widths) == 4
    assert widths == sorted(widths, reverse=True)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_an_answer_without_shares_says_that_it_has_no_chart():
    with literal_store(training()) as store, pytest.raises(StepScopeError) as refused:
        chart(ask(find("sources"), store))
    assert refused.value.slug == "no-chart"
