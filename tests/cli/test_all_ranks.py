"""When one rank may tell of the whole run's phases."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.literal import literal_store

from stepscope.cli.script.all_ranks import MAX_BYTES, MAX_RANKS, of_one_rank, soon_read, wrote_phases
from stepscope.query.ask import ask
from stepscope.questions import find

MINE, THEIRS = Path("out/node.a.0.phases.json"), Path("out/node.b.1.phases.json")


@pytest.fixture
def wrote(monkeypatch):
    """Whether the ranks are there, in a folder that looks different every time it is looked at."""

    def found(folders, ranks=2, before=None):
        looks = iter(folders)
        seen = []
        now = [0.0]

        def files():
            seen.append(next(looks, folders[-1]))
            return dict.fromkeys(seen[-1], 5)

        def sleep(seconds):
            now[0] += seconds

        fake = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
        monkeypatch.setattr("stepscope.cli.script.all_ranks.time", fake)
        return wrote_phases(files, before or {}, ranks), len(seen)

    return found


def test_it_waits_for_ranks_that_write_a_moment_later(wrote):
    assert wrote([[MINE], [MINE], [MINE, THEIRS]]) == (True, 3)


def test_it_does_not_wait_long_for_ranks_that_write_elsewhere(wrote):
    found, looks = wrote([[MINE]])
    assert found is False
    assert looks <= 63


def test_files_of_an_earlier_run_are_not_this_runs(wrote):
    assert wrote([[MINE, THEIRS]], before={THEIRS: 5})[0] is False
    assert wrote([[MINE, THEIRS]], before={THEIRS: 4})[0] is True


@pytest.mark.parametrize("old", ["old.7.phases.json", "trace-0-of-1.json.gz"])
def test_what_else_lies_there_is_not_mixed_with_it(old, wrote):
    assert wrote([[MINE, THEIRS, Path("out", old)]], before={Path("out", old): 5})[0] is False


def test_inline_profiles_of_the_same_run_do_not_disturb(wrote):
    assert wrote([[MINE, THEIRS, Path("out/node.a.0.prof.json")]])[0] is True


@pytest.mark.parametrize("ranks", [1, MAX_RANKS + 1])
def test_one_rank_and_very_many_speak_for_themselves(ranks, wrote):
    assert wrote([[MINE]], ranks=ranks) == (False, 0)


def test_few_bytes_are_shown_at_the_end_of_the_job_and_many_are_not(tmp_path):
    traces = [tmp_path / f"train-{rank}-of-2.json.gz" for rank in range(2)]
    for trace in traces:
        trace.touch()
        os.truncate(trace, MAX_BYTES // 2)
    assert soon_read(traces)
    os.truncate(traces[0], MAX_BYTES // 2 + 1)
    assert not soon_read(traces)
    traces[0].unlink()
    assert not soon_read(traces)


def test_one_ranks_rows_keep_the_words_about_all(wrote):
    phases = [{"rank": rank, "phase": phase, "mean_ns": 5.0} for rank in range(3) for phase in ("step", "residual")]
    rank = {"rank": 0, "world_size": 4}
    with literal_store({"phase": phases, "rank": [rank]}) as store:
        answer = ask(find("phases"), store)
    shown = of_one_rank(answer)
    assert [row["rank"] for row in shown.rows()] == [0, 0]
    assert shown.note == answer.note != ""
