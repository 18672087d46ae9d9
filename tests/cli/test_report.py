"""`stepscope report`: one file, complete or absent."""

import json
import re

import pytest
from tests.small_traces import H100, MI300, write_trace

from stepscope.questions import find
from stepscope.report import page_data
from stepscope.report.page_data import Form


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Some questions stand for all."""
    asked = [Form(find(name), {}) for name in ("summary", "kernels", "diff")]
    monkeypatch.setattr(page_data, "forms", lambda: asked)


def block(path):
    text = path.read_text(encoding="utf-8")
    (data,) = re.findall(r'id="stepscope-data">(.*?)</script>', text, re.DOTALL)
    return json.loads(data)


def test_a_report_is_one_file(run, store, tmp_path):
    target = tmp_path / "out.html"
    ran = run("report", store, "-o", str(target))
    assert ran.code == 0
    assert ran.out == ""
    assert re.fullmatch(r".*out\.html: [\d.]+ KiB; open it in a browser\n", ran.err)
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [one["name"] for one in block(target)["recordings"]] == ["store"]


def test_it_is_the_same_file_a_second_time(run, store, tmp_path):
    for name in ("a.html", "b.html"):
        run("report", store, "-o", str(tmp_path / name))
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_several_recordings_are_compared_with_the_first(run, store, make_store, tmp_path):
    target = tmp_path / "out.html"
    other = make_store()
    assert run("report", store, "--compare", other, "-o", str(target)).code == 0
    data = block(target)
    assert len(data["recordings"]) == 2
    assert '[["1","2"],"diff",[]]' in data["replies"]


def test_a_place_that_cannot_be_written_is_said_before_anything_is_computed(run, store, tmp_path):
    ran = run("report", store, "-o", str(tmp_path / "missing" / "out.html"))
    assert ran.code == 1
    assert "cannot be written" in ran.err


def test_files_of_several_jobs_are_a_recording_for_each(run, tmp_path):
    write_trace(tmp_path / "runs" / "a.json", device=H100)
    write_trace(tmp_path / "runs" / "b.json", device=MI300)
    target = tmp_path / "out.html"
    assert run("report", str(tmp_path / "runs"), "-o", str(target)).code == 0
    assert [one["name"] for one in block(target)["recordings"]] == ["runs: a", "runs: b"]
