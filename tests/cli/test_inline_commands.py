"""`stepscope inline`, `scaling` and `timeline-chart`, as a shell sees them."""

import json

import pytest

LABEL = "fc<b>1</b>\nforward"


def _profile(rank, size, dur_ns):
    event = {
        "label": LABEL,
        "start_index": 0,
        "end_index": 1,
        "samples": [[number, dur_ns + number, 1000] for number in range(8)],
    }
    return {
        "format": "stepscope.inline",
        "host_name": "h",
        "rank": rank,
        "world_size": size,
        "timeline": {"device_0": {"stream_0": [event]}},
        "iterations": [[0, False, 10 * dur_ns]],
    }


@pytest.fixture
def runs(tmp_path):
    """Folders `one` (1 process) and `two` (2, twice as slow)."""
    for name, size, dur_ns in (("one", 1, 100_000), ("two", 2, 200_000)):
        (tmp_path / name).mkdir()
        for rank in range(size):
            path = tmp_path / name / f"h.{rank}.prof.json"
            path.write_text(json.dumps(_profile(rank, size, dur_ns)))
    return tmp_path


def test_inline_measurements_are_asked_like_a_trace(run, runs):
    answer = json.loads(run("inline", str(runs / "two"), "--json").out)
    assert [(row["label"], row["rank"], row["n"]) for row in answer["rows"]] == [
        ("iteration", 0, 1),
        ("iteration", 1, 1),
        (LABEL, 0, 8),
        (LABEL, 1, 8),
    ]


def test_a_file_of_a_rank_that_was_cut_off_is_missed_aloud(run, runs):
    path = runs / "two" / "h.1.prof.json"
    path.write_text(path.read_text()[:-9])
    missed = f"⚠ left_out: {path} could not be read and is in no answer: not a complete JSON"
    assert missed in " ".join(run("inline", str(runs / "two"), "-w", "300").out.split())
    said = run("scaling", str(runs / "one"), str(runs / "two")).out
    assert f"⚠ left_out: two: {path} could not be read" in " ".join(said.split())
    path.write_text("")
    assert "not a recording (empty file)" in run("inline", str(runs / "two"), "-w", "300").out


def test_what_has_nothing_to_tell_is_not_missed(run, runs):
    (runs / "two" / "h.1.prof.json").write_text('{"format": "stepscope.inline", "timeline": {}}')
    (runs / "two" / "notes.json").write_text("{")
    assert "left_out" not in run("inline", str(runs / "two")).out


def test_scaling_names_what_stops(run, runs):
    done = run("scaling", str(runs / "one"), str(runs / "two"))
    assert done.code == 0
    words = " ".join(done.out.split())  # a label cannot begin a line of its own
    stops = "iteration at 2 ranks, fc<b>1</b> forward at 2 ranks"
    assert f"Stop scaling (weak-scaling efficiency below 80.0 %): {stops}." in words
    done = run("scaling", str(runs / "one"), str(runs / "two"), "--below", "0.3", "--names", "a,b", "--json")
    rows = json.loads(done.out)["rows"]
    assert [(row["run"], row["ranks"], row["weak_efficiency_ratio"]) for row in rows[:2]] == [
        ("a", 1, 1.0), ("b", 2, pytest.approx(0.5)),
    ]  # fmt: skip


def test_charts_are_drawn(run, runs):
    pytest.importorskip("matplotlib")
    timeline, scaling = runs / "t.svg", runs / "s.svg"
    assert run("timeline-chart", str(runs / "two"), "-o", str(timeline)).code == 0
    assert run("scaling", str(runs / "one"), str(runs / "two"), "-o", str(scaling)).code == 0
    assert timeline.stat().st_size > 1000
    assert scaling.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "code", "slug"),
    [
        (("timeline-chart", "one", "-o", "t.pdf"), 2, "bad-chart-name"),
        (("scaling", "one", "-o", "s.txt"), 2, "bad-chart-name"),
        (("scaling", "one", "--names", "a,b"), 2, "no-runs"),
        (("scaling", "absent"), 1, "no-such-file"),
    ],
)
def test_what_cannot_be_done_is_said_in_two_lines(run, runs, monkeypatch, arguments, code, slug):
    monkeypatch.chdir(runs)
    done = run(*arguments)
    assert done.code == code
    assert f"[{slug}]" in done.err
    assert done.err.count("\n") == 2
