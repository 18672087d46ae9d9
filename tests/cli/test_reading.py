"""Files on their way to an answer: imported to keep, cached, or read and forgotten."""

import csv
import json
import tempfile
from pathlib import Path

import pytest

EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 5, "args": {}}
    for ts, name in ((10, "aten::mm"), (20, "aten::add"), (30, "aten::mm"))
]
CALLS = ("--csv", "--columns", "name,calls")


@pytest.fixture
def traces(tmp_path) -> Path:
    """A folder with one trace and one file that is none."""
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "trace.json").write_text(json.dumps({"traceEvents": EVENTS}))
    (folder / "picture.json").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    return folder


def test_import_says_what_became_of_each_file(run, traces, tmp_path):
    (traces / "twice.json").write_bytes((traces / "trace.json").read_bytes())
    ran = run("import", str(traces), "-o", str(tmp_path / "store"), "--csv")
    assert ran.code == 0
    told, picture, copy = csv.DictReader(ran.out.splitlines())
    assert told["path"].endswith("trace.json")
    assert (told["rank"], told["rank_rule"]) == ("0", "single")
    assert (told["events_read"], told["events_repaired"], told["events_dropped"]) == ("3", "0", "0")
    assert not told["left_out"]
    assert copy["left_out"] == f"a copy of {told['path']}"
    assert (picture["left_out"], picture["rank"]) == ("not a recording (picture)", "")
    text = run("sources", str(tmp_path / "store")).out
    assert "2 files were left out; `--sort left_out` lists such files first." in text


def test_an_imported_store_answers_like_its_source(run, traces, tmp_path):
    store = str(tmp_path / "store")
    run("import", str(traces), "-o", store)
    answers = {run("operators", source, *CALLS).out for source in (store, str(traces))}
    assert answers == {"name,calls\naten::mm,2\naten::add,1\n"}


def test_a_rank_that_the_user_knows_is_taken(run, traces, tmp_path):
    store = str(tmp_path / "store")
    assert run("import", str(traces / "trace.json"), "-o", store, "--as-rank", "5").code == 0
    assert run("sources", store, "--csv", "--columns", "rank,rank_rule").out == "rank,rank_rule\n5,flag\n"


def test_only_a_store_is_replaced(run, traces, tmp_path):
    store = str(tmp_path / "store")
    assert run("import", str(traces), "-o", store).code == 0
    assert run("import", str(traces), "-o", store).code == 0
    ran = run("import", str(traces), "-o", str(traces))
    assert ran.code == 1
    assert "output-exists" in ran.err
    assert sorted(path.name for path in traces.iterdir()) == ["picture.json", "trace.json"]


def test_the_second_question_finds_the_tables_in_the_cache(run, traces, own_cache):
    run("operators", str(traces))
    (made,) = own_cache.glob("*/store.json")
    before = made.stat().st_mtime_ns
    run("kernels", str(traces))
    assert [path.stat().st_mtime_ns for path in own_cache.glob("*/store.json")] == [before]


def test_without_the_cache_nothing_is_kept(run, traces, own_cache, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    ran = run("operators", str(traces), "--no-cache", *CALLS)
    assert ran.out == "name,calls\naten::mm,2\naten::add,1\n"
    assert not own_cache.exists()
    assert list(scratch.iterdir()) == []


def test_nothing_that_needs_the_device_is_concluded_from_a_file_that_is_cut_off(run, tmp_path):
    steps = [
        {**EVENTS[0], "cat": "user_annotation", "name": name, "ts": 1_000 * n + at, "dur": dur}
        for n in range(3)
        for name, at, dur in (
            (f"ProfilerStep#{n}", 0, 1_000),
            ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 500),
        )
    ]
    complete = json.dumps({"traceEvents": [*steps, *EVENTS]})
    file = tmp_path / "trace.json"
    for text, verdict, device in (
        (complete, "Input-bound", "no device"),
        (complete[:-20], "Unreliable data (no_gpu_events, repaired, truncated)", "device events missing"),
    ):
        file.write_text(text)
        shown = run("summary", str(file), "--no-cache").out
        assert shown.startswith((verdict, f"⚠ {verdict}"))
        assert f"rank 0 · {device}\n" in shown


@pytest.mark.parametrize("text", ["[]", '{"traceEvents": []}', '{"traceEvents": ['])
def test_a_file_without_an_event_is_an_error_unless_it_is_one_of_several(run, traces, text):
    file = traces / "without.json"
    file.write_text(text)
    ran = run("summary", str(file))
    assert (ran.code, "without.json: no event in it [not-a-trace]" in ran.err) == (1, True)
    assert "1 file" in run("summary", str(traces)).out


def test_memory_that_no_import_can_keep_to_is_refused(run, traces, tmp_path):
    for size in ("1", "50MB", "1e8"):
        ran = run("import", str(traces), "-o", str(tmp_path / "s"), "--memory", size)
        assert (ran.code, "allow 512MiB or more" in ran.err) == (2, True)


def test_a_cut_file_is_answered_from_what_is_left_and_refused_when_strict(run, traces):
    cut = traces / "cut.json"
    cut.write_text(json.dumps({"traceEvents": EVENTS})[:-40])
    ran = run("operators", str(cut))
    assert ran.code == 0
    assert ran.out.startswith("⚠ ")
    assert "truncated" in ran.out
    strict = run("operators", str(cut), "--strict")
    assert (strict.code, strict.out) == (1, "")
    assert "damaged-source" in strict.err


@pytest.mark.parametrize("name", ["empty.json", "folder", "picture.png", "nowhere"])
@pytest.mark.parametrize("command", ["summary", "import"])
def test_what_is_no_recording_is_two_lines_and_leaves_nothing(run, tmp_path, own_cache, name, command):
    source = tmp_path / "in" / name
    source.parent.mkdir()
    if name == "empty.json":
        source.write_text("")
    elif name == "folder":
        source.mkdir()
    elif name == "picture.png":
        source.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    output = ["-o", str(tmp_path / "store")] if command == "import" else []
    ran = run(command, str(source), *output)
    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) == 2
    assert not (tmp_path / "store").exists()
    assert list(own_cache.glob("[!.]*")) == []


def test_where_an_answer_cannot_go_is_said_before_anything_is_read(run, tmp_path):
    (tmp_path / "file").write_text("")
    ran = run("kernels", __file__, "--parquet", str(tmp_path / "file" / "a.parquet"))
    assert ran.code == 1
    assert "cannot be written (Not a directory)" in ran.err


def test_a_folder_that_is_missing_is_said_before_anything_is_read(run, tmp_path):
    place = str(tmp_path / "no folder" / "a.svg")
    for words in (("kernels", "--parquet"), ("roofline", "--plot"), ("report", "-o")):
        ran = run(words[0], str(tmp_path / "nothing"), words[1], place)
        assert ran.code == 1
        assert "cannot be written (its folder is missing)" in ran.err
        assert f"mkdir -p '{tmp_path}/no folder'" in ran.err


def test_an_import_of_a_stretch_in_which_nothing_starts_makes_no_store(run, traces, tmp_path):
    ran = run("import", str(traces), "-o", str(tmp_path / "store"), "--window", "9s:")
    assert (ran.code, ran.out) == (2, "")
    assert "nothing starts in the window that opens at 9.000 s [nothing-kept]" in ran.err
    assert not (tmp_path / "store").exists()


def test_an_answer_into_a_link_leaves_the_link(run, store, tmp_path):
    (tmp_path / "a.parquet").write_text("before")
    (tmp_path / "link").symlink_to("a.parquet")
    assert run("kernels", store, "--parquet", str(tmp_path / "link")).code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a.parquet").read_bytes().startswith(b"PAR1")
