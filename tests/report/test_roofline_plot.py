import pytest
from tests.literal import literal_store
from tests.questions.launched import ODD, calls, product

from stepscope.base.errors import UsageError
from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.report.figures import save_figure
from stepscope.report.roofline_plot import picture_of, roofline_figure


def answer(rows):
    with literal_store(rows) as store:
        return ask(find("roofline"), store)


def test_a_point_lies_where_its_intensity_and_rate_are_under_its_roof():
    pytest.importorskip("matplotlib")
    table = answer(product(4000))
    (row,) = table.rows()
    (axes,) = roofline_figure(table).axes
    (point,) = (spot for group in axes.collections for spot in group.get_offsets())
    assert list(point) == [row["intensity"], row["flop_per_s"]]
    (roof,) = axes.lines[-1:]
    assert roof.get_ydata()[-1] == row["peak_flop_per_s"] > row["flop_per_s"]
    told = [text.get_text() for text in axes.texts]
    assert told == ["aten::mm", "bfloat16: 989.5 TFLOP/s, 3350 GB/s"]


def test_names_from_recordings_are_only_text(tmp_path):
    pytest.importorskip("matplotlib")
    rows = calls([("<script>&", [[8, 8]] * 2, ["float"] * 2, 10, {})])
    rows["host_event"][0]["name"] = "aten::mm"
    rows["device"] = [{**ODD, "name": "<script>alert($x$)</script>"}]
    drawn = save_figure(roofline_figure(answer(rows)), tmp_path / "roof.svg").read_text()
    assert "<script>" not in drawn
    assert "alert($x$)" in drawn


def test_an_unknown_device_has_points_and_no_roof():
    picture = picture_of(answer(product(4000) | {"device": [ODD]}))
    assert (len(picture.points), picture.ceilings) == (1, ())


def test_rows_with_next_to_no_time_do_not_stretch_the_axes():
    mm = ("aten::mm", [[64, 64]] * 2, ["float"] * 2, 10_000_000, {})
    speck = ("aten::mm", [[1, 1]] * 2, ["float"] * 2, 1, {})
    assert len(picture_of(answer(calls([mm, speck]))).points) == 1


def test_nothing_to_draw_is_said():
    with pytest.raises(UsageError, match="nothing to draw"):
        picture_of(answer({"device_event": [{"dur_ns": 5}]}))
