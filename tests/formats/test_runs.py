import contextlib
import gzip
import io
import json
import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from stepscope.base.errors import SourceError
from stepscope.formats.container import Listings, Member, members
from stepscope.formats.runs import find_run


def write(path, *, rank=None, ts=1, base=None, nccl=None, world=None):
    event = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": ts, "dur": 1, "args": {}}
    if nccl is not None:
        event["args"] = {"Rank": nccl}
    trace = {"traceEvents": [event], "traceName": str(path)}
    if rank is not None:
        trace["distributedInfo"] = {"rank": rank, "world_size": world}
    if base is not None:
        trace["baseTimeNanoseconds"] = base
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(trace))


def ranks(folder):
    return [(r.member.path.name, r.rank, r.span, r.rule) for r in find_run(folder).recordings]


def test_the_files_own_word_comes_first(tmp_path):
    write(tmp_path / "rank9.json", rank=1)
    write(tmp_path / "rank8.json", rank=0)
    assert ranks(tmp_path) == [("rank8.json", 0, 0, "distributedInfo"), ("rank9.json", 1, 0, "distributedInfo")]


def test_rank_beside_collectives_comes_second(tmp_path):
    write(tmp_path / "a.json", nccl=1)
    write(tmp_path / "b.json", nccl=0)
    assert ranks(tmp_path) == [("b.json", 0, 0, "nccl"), ("a.json", 1, 0, "nccl")]


@pytest.mark.parametrize(
    "names",
    [
        ["rank-0.json", "rank-1.json", "rank-10.json"],
        ["trace_rank0.json", "trace_rank1.json", "trace_rank10.json"],
        ["step5_r0.json", "step5_r1.json", "step5_r10.json"],
        [
            "worker0_step_12.1694128201545.pt.trace.json",
            "worker1_step_12.1694128201556.pt.trace.json",
            "worker10_step_12.1694128201554.pt.trace.json",
        ],
        ["gpt-0-of-11.json", "gpt-1-of-11.json", "gpt-10-of-11.json"],
    ],
)
def test_rank_in_the_name_comes_third(tmp_path, names):
    for name in names:
        write(tmp_path / name)
    assert ranks(tmp_path) == [(name, rank, 0, "file name") for name, rank in zip(names, (0, 1, 10), strict=True)]


def test_order_of_names_comes_last(tmp_path):
    for name in ("node10_77.1700000000001.pt.trace.json", "node9_88.1700000000000.pt.trace.json"):
        write(tmp_path / name)
    assert ranks(tmp_path) == [
        ("node9_88.1700000000000.pt.trace.json", 0, 0, "order"),
        ("node10_77.1700000000001.pt.trace.json", 1, 0, "order"),
    ]


def test_parallel_strategy_names_are_put_in_order(tmp_path):
    names = [f"TP-{tp}-DP-{dp}-PP-0-EP-0.json" for tp in (0, 1) for dp in (0, 1)]
    for name in reversed(names):
        write(tmp_path / name)
    assert [name for name, _, _, _ in ranks(tmp_path)] == names


def test_recordings_of_one_worker_are_spans_in_order_of_time(tmp_path):
    write(tmp_path / "worker0.1623143566756.pt.trace.json", ts=1623143100000000)
    write(tmp_path / "worker0.1623143089861.pt.trace.json", ts=1623142600000000)
    assert ranks(tmp_path) == [
        ("worker0.1623143089861.pt.trace.json", 0, 0, "file name"),
        ("worker0.1623143566756.pt.trace.json", 0, 1, "file name"),
    ]


def test_single_file_says_its_rank_when_it_is_read(tmp_path):
    write(tmp_path / "rank7.json")
    recording = find_run(tmp_path / "rank7.json").recordings[0]
    assert (recording.rank, recording.rule) == (-1, "single")


def test_caller_knows_better(tmp_path):
    write(tmp_path / "a.json", rank=3)
    assert find_run(tmp_path / "a.json", rank=5).recordings[0].rank == 5


def test_unfinished_file_counts_only_without_its_finished_twin(tmp_path):
    write(tmp_path / "a.json")
    write(tmp_path / "a.json.tmp")
    write(tmp_path / "b.json.tmp")
    assert [name for name, *_ in ranks(tmp_path)] == ["a.json", "b.json.tmp"]


def test_other_files_in_the_folder_are_skipped_with_their_reason(tmp_path):
    write(tmp_path / "sub" / "a.json")
    (tmp_path / "notes.txt").write_text("loss went down\n")
    (tmp_path / "observer_0.json").write_text(json.dumps({"schema": "1.0", "nodes": []}))
    (tmp_path / "empty.json").write_text("")
    run = find_run(tmp_path)
    assert len(run.recordings) == 1
    assert len(run.skipped) == 3
    assert all(reason for _, reason in run.skipped)


def test_folder_without_recordings_says_so(tmp_path):
    with pytest.raises(SourceError, match="empty"):
        find_run(tmp_path)
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(SourceError):
        find_run(tmp_path)


def test_a_folder_that_may_not_be_read_is_named_and_costs_only_its_own_ranks(tmp_path, monkeypatch):
    write(tmp_path / "node0" / "a.json", rank=0)
    write(tmp_path / "node1" / "b.json", rank=1)
    scandir = os.scandir

    def denied(path):
        if str(path).endswith("node1"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    run = find_run(tmp_path)
    assert [one.member.path.name for one in run.recordings] == ["a.json"]
    assert run.unreadable == [(str(tmp_path / "node1"), "no permission to read it")]
    with pytest.raises(SourceError, match=r"node1: no permission"):
        find_run(tmp_path / "node1")


def test_links_to_folders_are_followed_and_each_folder_is_read_once(tmp_path):
    write(tmp_path / "disk" / "r1" / "b.json", rank=1)
    write(tmp_path / "run" / "r0" / "a.json", rank=0)
    for name, target in {"r1": "../disk/r1", "again": "r0", "up": "..", "self": "self"}.items():
        (tmp_path / "run" / name).symlink_to(target)
    found = find_run(tmp_path / "run").recordings
    assert [(one.rank, one.member.path.relative_to(tmp_path)) for one in found] == [
        (0, Path("run/r0/a.json")),
        (1, Path("run/r1/b.json")),
    ]


def test_missing_path_says_so(tmp_path):
    with pytest.raises(SourceError, match="no such"):
        find_run(tmp_path / "nowhere")


def test_a_list_without_events_is_no_rank_unless_it_says_so(tmp_path):
    write(tmp_path / "a.json", rank=0)
    (tmp_path / "b.json").write_text("[]")
    (tmp_path / "c.json").write_text('{"traceEvents": [], "distributedInfo": {"rank": 1}}')
    assert [(name, rank) for name, rank, *_ in ranks(tmp_path)] == [("a.json", 0), ("c.json", 1)]
    ((skipped, reason),) = find_run(tmp_path).skipped
    assert (skipped, reason) == (str(tmp_path / "b.json"), "no trace events")


def test_a_list_of_other_things_is_no_rank(tmp_path):
    """What lies beside a capture of vLLM's CUDA graphs."""
    write(tmp_path / "capture.json")
    (tmp_path / "details.json").write_text('[{"file": "capture.json", "batch_size": 32}]')
    assert [(name, rank) for name, rank, *_ in ranks(tmp_path)] == [("capture.json", 0)]
    ((skipped, reason),) = find_run(tmp_path).skipped
    assert (skipped, reason) == (str(tmp_path / "details.json"), "no trace events")


def test_copies_of_one_file_are_no_further_ranks(tmp_path):
    for name in ("r.json", "s.json"):
        write(tmp_path / name)
    for name in ("copy of r.json", "z.json"):
        shutil.copy(tmp_path / "r.json", tmp_path / name)
    copied = str(tmp_path / "r.json")
    assert [(name, rank) for name, rank, *_ in ranks(tmp_path)] == [("r.json", 0), ("s.json", 1)]
    assert find_run(tmp_path).copies == {str(tmp_path / "copy of r.json"): copied, str(tmp_path / "z.json"): copied}


@pytest.mark.parametrize("said", [{}, {"rank": 1, "world": 2, "base": 10**18}])
def test_copies_are_known_however_each_is_compressed(tmp_path, said):
    folder = tmp_path / "run"
    write(folder / "a.json", **said)
    data = (folder / "a.json").read_bytes()
    (folder / "a.json.gz").write_bytes(gzip.compress(data))
    for name, content in (("a.json", data), ("a.json.gz", gzip.compress(data))):
        with zipfile.ZipFile(folder / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, content)
        with tarfile.open(folder / f"{name}.tgz", "w:gz") as archive:
            archive.add(folder / name, name)
    # As bgzip writes it: many gzips in one, each with a field of its own, and an empty one behind them.
    pieces = (gzip.compress(piece) for piece in (data[:100], data[100:], b""))
    extra = b"\x06\x00BC\x02\x00\x00\x00"
    (folder / "blocks.json.gz").write_bytes(
        b"".join(one[:3] + b"\x04" + one[4:10] + extra + one[10:] for one in pieces)
    )
    run = find_run(folder)
    assert [one.member.path.name for one in run.recordings] == ["a.json"]
    assert len(run.copies) == 6
    assert set(run.copies.values()) == {str(folder / "a.json")}


def test_recordings_that_say_the_same_and_differ_at_their_start_are_not_read_for_it(tmp_path, monkeypatch):
    write(tmp_path / "a.json", base=10**18)
    write(tmp_path / "longer.json", base=10**18)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress((tmp_path / "a.json").read_bytes() + b" "))
    digest = Member.digest
    monkeypatch.setattr(
        Member, "digest", lambda one, size=None: digest(one, size) if size else pytest.fail(f"{one.label} was read")
    )
    assert find_run(tmp_path).copies == {}


def archived(path, members):
    """Writes an archive of the kind that its name states, with the members in order."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members:
                archive.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [["a.json", "a.json", "a.json"], ["../a.json", "./a.json", "a.json"]])
@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_of_members_with_one_name_the_last_counts_as_after_unpacking(tmp_path, kind, names):
    contents = []
    for ts in (1, 20, 300):
        write(tmp_path / "trace.json", ts=ts)
        contents.append((tmp_path / "trace.json").read_bytes())
    path = archived(tmp_path / f"run.{kind}", [*zip(names, contents, strict=True), ("A.json", contents[0])])
    run = find_run(path)
    read = {one.member.name: Listings().member(str(path), one.member.name) for one in run.recordings}
    assert {name: member.open().read() for name, member in read.items()} == {
        "a.json": contents[2],
        "A.json": contents[0],
    }
    assert [reason for _, reason in run.skipped] == ["the archive has a later file of this name"] * 2


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["rank{}.json", "a.json", "notes{}.txt"])
@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_the_work_for_an_archive_grows_with_its_members(tmp_path, kind, name):
    write(tmp_path / "trace.json", rank=None)
    content = (tmp_path / "trace.json").read_bytes() if name.endswith("json") else b"nothing"
    counts = []
    for size in (5, 40, 80, 160):  # the first fills caches
        path = archived(tmp_path / f"{size}.{kind}", [(name.format(at), content) for at in range(size)])
        lines = 0

        def count(*_):
            nonlocal lines
            lines += 1
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            listings = Listings()
            for member in members(path):
                listings.member(str(path), member.name).open().peek(1)
            with contextlib.suppress(SourceError):
                find_run(path)
        finally:
            sys.settrace(before)
        counts.append(lines)
    _, *counts = counts
    assert counts[2] - counts[1] < 2.05 * (counts[1] - counts[0])


def test_copies_whose_names_say_a_rank_are_what_they_say(tmp_path):
    write(tmp_path / "rank0.json")
    shutil.copy(tmp_path / "rank0.json", tmp_path / "rank1.json")
    assert [rank for _, rank, *_ in ranks(tmp_path)] == [0, 1]
    assert find_run(tmp_path).copies == {}


def test_copies_that_say_their_rank_are_no_further_jobs(tmp_path):
    write(tmp_path / "run" / "a.json", rank=1, world=2, base=10**18)
    write(tmp_path / "run" / "b.json", rank=0, world=2, base=10**18)
    (tmp_path / "backup").mkdir()
    shutil.copy(tmp_path / "run" / "a.json", tmp_path / "backup" / "a.json")
    run = find_run(tmp_path)
    assert len(run.jobs) == 1
    assert [one.rank for one in run.recordings] == [0, 1]
    assert list(run.copies) == [str(tmp_path / "backup" / "a.json")]
