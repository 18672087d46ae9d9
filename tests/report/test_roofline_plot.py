import xml.etree.ElementTree as ET
from importlib.util import find_spec

import pytest
from tests.questions.launched import ODD, calls, product

from stepscope.answers.ask import ask
from stepscope.floor.errors import StepScopeError, UsageError
from stepscope.questions import find
from stepscope.report import roofline_plot
from stepscope.report.roofline_plot import picture_of, svg_text, write_plot
from stepscope.store.open import Store

SVG = "{http://www.w3.org/2000/svg}"


def answer(rows):
    with Store.from_rows(rows) as store:
        return ask(find("roofline"), store)


def test_a_point_lies_where_its_intensity_and_rate_are_under_its_roof():
    picture = picture_of(answer(product(4000)))
    (point,) = picture.points
    (ceiling,) = picture.ceilings
    frame = roofline_plot._frame(picture)
    root = ET.fromstring(svg_text(picture))  # noqa: S314  # our own text
    circle = root.find(f"{SVG}circle")
    x, y = frame.place(point.intensity, point.rate)
    assert float(circle.get("cx")) == pytest.approx(x, abs=0.06)
    assert float(circle.get("cy")) == pytest.approx(y, abs=0.06)
    roof = root.find(f"{SVG}polyline").get("points").split()
    flat = float(roof[-1].split(",")[1])
    assert flat < y  # the roof is above, and SVG counts downwards
    assert frame.place(1, ceiling.peak)[1] == pytest.approx(flat, abs=0.06)
    assert "54.3 % of the limit" in circle.find(f"{SVG}title").text


def test_names_from_recordings_are_escaped():
    rows = calls([("<script>&", [[8, 8]] * 2, ["float"] * 2, 10, {})])
    rows["host_event"][0]["name"] = "aten::mm"
    rows["device"] = [{**ODD, "name": "<script>alert(1)</script>"}]
    text = svg_text(picture_of(answer(rows)))
    assert "<script>" not in text
    ET.fromstring(text)  # noqa: S314


def test_an_unknown_device_has_points_and_no_roof():
    picture = picture_of(answer(product(4000) | {"device": [ODD]}))
    assert (len(picture.points), picture.ceilings) == (1, ())
    ET.fromstring(svg_text(picture))  # noqa: S314


def test_rows_with_next_to_no_time_do_not_stretch_the_axes():
    mm = ("aten::mm", [[64, 64]] * 2, ["float"] * 2, 10_000_000, {})
    speck = ("aten::mm", [[1, 1]] * 2, ["float"] * 2, 1, {})
    assert len(picture_of(answer(calls([mm, speck]))).points) == 1


def test_nothing_to_draw_is_said():
    with pytest.raises(UsageError, match="nothing to draw"):
        picture_of(answer({"device_event": [{"dur_ns": 5}]}))


def test_a_plot_is_an_svg_or_a_png(tmp_path):
    with pytest.raises(UsageError, match=r"a \.png or \.svg file"):
        write_plot(answer(product(4000)), tmp_path / "roof.pdf")
    with pytest.raises(StepScopeError, match="cannot be written"):
        write_plot(answer(product(4000)), tmp_path / "missing" / "roof.svg")


def test_a_png_is_drawn_by_matplotlib_or_says_what_to_install(tmp_path):
    target = tmp_path / "roof.png"
    if find_spec("matplotlib"):
        write_plot(answer(product(4000)), target)
        assert target.read_bytes().startswith(b"\x89PNG")
    else:
        with pytest.raises(StepScopeError, match="matplotlib"):
            write_plot(answer(product(4000)), target)
