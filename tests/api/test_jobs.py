"""Files of several jobs, from the files to the answers: each job is answered on its own."""

import pytest
from tests.small_traces import H100, MI300, write_trace

import stepscope
from stepscope.base.errors import SourceError, StoreError, UsageError
from stepscope.store.build import import_source
from stepscope.store.manifest import write_store_file


@pytest.fixture
def unlike(tmp_path):
    """A single rank's trace on one device, and two ranks' on another."""
    write_trace(tmp_path / "runs" / "a.json", device=H100, lasts_minutes=1)
    for rank in (0, 1):
        write_trace(tmp_path / "runs" / "b" / f"rank{rank}.json", rank=rank, world=2, device=MI300)
    return tmp_path / "runs"


def test_each_job_is_answered_on_its_own_and_named(unlike):
    with stepscope.open(unlike) as trace:
        answer = trace.sources(columns=["rank", "rank_rule"])
        assert answer.rows() == [
            {"job": "a", "rank": 0, "rank_rule": "single"},
            {"job": "b", "rank": 0, "rank_rule": "distributedInfo"},
            {"job": "b", "rank": 1, "rank_rule": "distributedInfo"},
        ]
        assert [column.name for column in answer.columns] == ["job", "rank", "rank_rule"]
        assert answer.note == (f"The files are of 2 jobs: a ({H100}), b ({MI300}). `--job NAME` picks one.")
        assert answer.to_dict()["rows"][0]["job"] == "a"
        assert len(answer.sources) == 3
        assert answer.jobs["b"].rows() == [
            {"rank": 0, "rank_rule": "distributedInfo"},
            {"rank": 1, "rank_rule": "distributedInfo"},
        ]


def test_the_first_rows_are_those_of_each_job(unlike):
    with stepscope.open(unlike) as trace:
        answer = trace.operators(top=1, columns=["job", "name"])
        assert answer.rows() == [{"job": "a", "name": "first"}, {"job": "b", "name": "first"}]
        every = trace.operators(sort="name:desc", columns=["name"])
        assert [row["name"] for row in every] == ["last", "last", "first", "first"]
        lines = [line.text for line in trace.operators().lines(width=80, limit=2)]
        assert [line.split()[:2] for line in lines[2:4]] == [["a", "first"], ["b", "first"]]
        assert lines[4] == "(2 more rows)"


def test_files_that_no_job_has_are_told_once(unlike):
    (unlike / "notes.json").write_text("{}")
    (unlike / "cut.pt.trace.json.gz").write_bytes(b"\x1f\x8b\x08")
    with stepscope.open(unlike) as trace:
        rows = trace.sources().rows()
        assert [row["job"] for row in rows if row["left_out"] is None] == ["a", "b", "b"]
        assert [row["job"] for row in rows if row["left_out"] is not None] == [None, None]
        assert len(trace.sources(columns=["left_out"])) == 7
        rows = [row for row in trace.checks().rows() if row["check"] == "left_out"]
        assert [row["job"] for row in rows] == [None]
        told = [one for one in trace.operators().checks if one["check"] == "left_out"]
        assert [one["explanation"].startswith("a: ") for one in told] == [False]


def test_a_job_is_a_trace_of_its_own(unlike):
    with stepscope.open(unlike) as trace:
        assert list(trace.jobs) == ["a", "b"]
        assert trace.jobs["b"].ranks == (0, 1)
        assert repr(trace) == "<Trace of 2 jobs: a, b>"
    with stepscope.open(unlike, job="b") as trace:
        assert list(trace.jobs) == ["b"]
        assert trace.sql("SELECT count(*) AS n FROM source").rows() == [{"n": 2}]
        assert "job" not in trace.sources().arrow.column_names


def test_what_takes_one_job_names_them(unlike):
    with stepscope.open(unlike) as trace:
        for ask in (
            lambda: trace.sql("SELECT 1"),
            lambda: trace.scope(),
            lambda: trace.store,
            lambda: trace.ranks,
            lambda: trace.step_numbers,
            lambda: stepscope.diff(trace, trace),
        ):
            with pytest.raises(UsageError, match="2 jobs, and this takes one: a, b") as caught:
                ask()
            assert caught.value.slug == "several-jobs"
        with pytest.raises(AttributeError):
            trace.no_such_thing  # noqa: B018  # it raises


def test_a_comparison_takes_the_job_of_each_recording(unlike):
    with stepscope.open(unlike) as trace:
        for job in (("a", "a"), "a"):
            answer = stepscope.diff(trace, unlike, by="operator", job=job)
            assert answer["change_ns"][:1] == [0]
        assert "after: runs: a, " in answer.note
        answer = stepscope.diff(unlike / "a.json", unlike, by="operator", job="a")
        assert "before: a.json, " in answer.note
        for job, message in (
            (None, "the files of before are of 2 jobs, and this takes one: a, b"),
            (("a", "c"), "no job 'c' of runs"),
            ("c", "no job 'c' of before"),
            (("a", "b", "a"), "3 jobs for 2 recordings: a, b, a"),
        ):
            with pytest.raises(UsageError, match=message):
                stepscope.diff(trace, unlike, job=job)
    with pytest.raises(UsageError, match=r"no job 'c' of a\.json"):
        stepscope.diff(unlike / "a.json", unlike / "a.json", job="c")
    with pytest.raises(UsageError, match="are of 2 jobs"):
        stepscope.scaling([unlike, unlike / "a.json"])


def test_an_unknown_job_is_told_which_there_are(unlike):
    with pytest.raises(UsageError, match="no job 'c' of these files") as caught:
        stepscope.open(unlike, job="c")
    assert caught.value.hint == "there is: a, b"


def test_filters_are_each_job_s_own(unlike):
    with stepscope.open(unlike) as trace:
        answer = trace.operators(name="first", columns=["name"])
        assert answer.rows() == [{"job": "a", "name": "first"}, {"job": "b", "name": "first"}]
        with pytest.raises(UsageError, match="steps is about all that went on"):
            trace.steps(name="first")
        with pytest.raises(UsageError, match="no module, operator or range 'none'"):
            trace.operators(under="none")
        with pytest.raises(UsageError, match="is not a stretch of time"):
            trace.operators(window="2s:1s")


def test_a_job_without_the_rank_is_left_out_and_named(unlike):
    with stepscope.open(unlike) as trace:
        answer = trace.sources(rank=1, columns=["rank"])
        assert answer.rows() == [{"job": "b", "rank": 1}]
        assert "a: no rank 1 in this recording." in answer.note
        with pytest.raises(UsageError, match="no rank 7"):
            trace.sources(rank=7)
        with pytest.raises(UsageError, match="no column 'nmae'"):
            trace.operators(columns=["nmae"])
    with stepscope.open(unlike, ranks=[1]) as trace:
        assert trace.ranks == (1,)


def test_a_job_without_the_part_that_was_asked_for_is_left_out_and_named(unlike):
    write_trace(unlike / "a.json", device=H100, step=3)
    with stepscope.open(unlike) as trace:
        answer = trace.operators(under="ProfilerStep#3", columns=["name"])
        assert [row["job"] for row in answer] == ["a"]
        assert "b: no module, operator or range 'ProfilerStep#3'" in answer.note
        with pytest.raises(UsageError, match="no module, operator or range 'net'"):
            trace.operators(under="net")


def test_files_of_one_job_are_joined_and_others_stand_beside_them(unlike):
    b = unlike / "b"
    with stepscope.open(b / "rank1.json", b / "rank0.json") as trace:
        assert trace.ranks == (0, 1)
    with stepscope.open(unlike / "a.json", b / "rank0.json", b / "rank1.json") as trace:
        assert {name: job.ranks for name, job in trace.jobs.items()} == {"a": (0,), "b": (0, 1)}


def test_stores_and_files_stand_beside_each_other(unlike, tmp_path):
    kept = import_source(unlike / "a.json", tmp_path / "kept")
    with stepscope.open(kept, unlike / "b") as trace:
        assert list(trace.jobs) == ["a", "b"]
    with stepscope.open(kept, unlike / "a.json") as trace:
        assert list(trace.jobs) == ["kept/a", "a.json/a"]


def test_stores_of_several_jobs_lie_in_folders_named_after_them(unlike, tmp_path):
    kept = import_source(unlike, tmp_path / "kept")
    assert sorted(path.name for path in kept.iterdir()) == ["a", "b", "store.json"]
    with stepscope.open(kept) as trace:
        assert {name: job.ranks for name, job in trace.jobs.items()} == {"a": (0,), "b": (0, 1)}
    with stepscope.open(kept / "b") as trace:
        assert trace.ranks == (0, 1)
    with pytest.raises(SourceError, match="is a store already"):
        import_source(kept, tmp_path / "again")
    only = import_source(unlike, kept, job="b")
    with stepscope.open(only) as trace:
        assert trace.ranks == (0, 1)


@pytest.mark.parametrize("jobs", [[{"name": "a", "folder": "../a"}], [{"no": 1}], 7, []])
def test_a_list_of_jobs_that_is_none_is_refused(unlike, tmp_path, jobs):
    kept = import_source(unlike, tmp_path / "kept")
    write_store_file(kept, {"source": "x", "ranks": [], "jobs": jobs})
    with pytest.raises(StoreError, match="cannot be read"):
        stepscope.open(kept)


def test_a_list_of_jobs_that_was_altered_is_refused_and_in_the_cache_made_again(unlike, tmp_path, own_cache):
    kept = import_source(unlike, tmp_path / "kept")
    with stepscope.open(unlike) as trace:
        expected = trace.sources().rows()
    (cached,) = (path for path in own_cache.iterdir() if path.is_dir())
    for directory in (kept, cached):
        file = directory / "store.json"
        file.write_text(file.read_text().replace('"name": "a"', '"name": "x"'))
    with pytest.raises(StoreError, match="not as it was written"):
        stepscope.open(kept)
    with stepscope.open(unlike) as trace:
        assert trace.sources().rows() == expected


def test_a_damaged_store_of_one_job_in_the_cache_is_made_again(unlike, own_cache):
    with stepscope.open(unlike) as trace:
        expected = trace.operators().rows()
    (file,) = own_cache.glob("runs-*/a/rank=*/host_event.*.parquet")
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    with stepscope.open(unlike) as trace:
        assert trace.operators().rows() == expected


def test_stores_of_several_jobs_are_replaced_and_what_lies_beside_them_is_not(unlike, tmp_path):
    kept = import_source(unlike, tmp_path / "kept")
    again = import_source(unlike, kept)
    (again / "c").mkdir()
    (again / "c" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="has other files in it"):
        import_source(unlike, again)
    assert (again / "c" / "notes.txt").read_text() == "mine"


def test_what_a_killed_import_of_several_jobs_left_is_removed(unlike, tmp_path):
    kept = import_source(unlike, tmp_path / "kept")
    left = kept.with_name(".kept.partial-77-abcdef")
    kept.rename(left)
    (left / "store.json").unlink()
    (left / "a" / "store.json").unlink()
    import_source(unlike, tmp_path / "kept")
    assert not left.exists()


def test_ranks_of_several_jobs_are_those_that_each_has(unlike, tmp_path):
    for ranks, kept in (([1], {"b": (1,)}), ([0, 1], {"a": (0,), "b": (0, 1)})):
        with stepscope.open(import_source(unlike, tmp_path / "kept", ranks=ranks)) as trace:
            assert tuple(job.ranks for job in trace.jobs.values()) == tuple(kept.values())
    for source, hint in ((unlike, "it has rank 0, 1"), (unlike / "a.json", "it has rank 0")):
        with pytest.raises(UsageError, match="no rank 7") as caught:
            import_source(source, tmp_path / "seven", ranks=[7])
        assert caught.value.hint == hint
        assert not (tmp_path / "seven").exists()


def test_without_the_cache_nothing_is_kept(unlike, own_cache):
    with stepscope.open(unlike, cache=False) as trace:
        assert trace._scratch is not None
        assert list(trace.jobs) == ["a", "b"]
        scratch = trace._scratch
        assert scratch.exists()
    assert not scratch.exists()
    assert not own_cache.exists()


def test_guessed_ranks_and_recordings_far_apart_are_said_with_every_answer(tmp_path):
    for name in ("a", "b"):
        write_trace(tmp_path / "guessed" / f"{name}.json", lasts_minutes=1)
        write_trace(tmp_path / "apart" / f"{name}.json", rank=0, minute=30 * (name == "b"))
    for folder, check in (("guessed", "ranks_guessed"), ("apart", "spans_apart")):
        with stepscope.open(tmp_path / folder) as trace:
            for answer in (trace.summary(), trace.operators(), trace.sources()):
                (found,) = [one for one in answer.checks if one["affects"] == "run"]
                assert (found["check"], found["severity"]) == (check, "note")
                assert not answer.unreliable
                assert check in answer.to_json()
            assert f"· {check}: " in repr(trace.operators())  # two recordings of the only rank


def test_a_job_without_the_steps_that_are_kept_is_left_out(tmp_path):
    write_trace(tmp_path / "runs" / "a.json", device=H100, step=3)
    write_trace(tmp_path / "runs" / "b.json", device=MI300, step=4)
    write_trace(tmp_path / "runs" / "c.json", device="NVIDIA B200", step=4)
    kept = import_source(tmp_path / "runs", tmp_path / "kept", steps=[4])
    assert sorted(path.name for path in kept.iterdir()) == ["b", "c", "store.json"]
    with stepscope.open(kept, job="c") as trace:
        assert trace.step_numbers == (4,)
    with pytest.raises(UsageError, match="no step 7 in this recording") as caught:
        import_source(tmp_path / "runs", tmp_path / "seven", steps=[7])
    assert caught.value.hint == "it has step 3, 4"
    with stepscope.open(tmp_path / "runs", steps=[3]) as trace:
        assert trace.step_numbers == (3,)
