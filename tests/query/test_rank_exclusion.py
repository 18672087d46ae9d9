"""Ranks whose recording is damaged: what puts ranks together is of the others."""

from typing import Any

import pytest
from tests.literal import literal_store
from tests.questions.meetings import Meetings

from stepscope.api.comparisons import metrics_diff
from stepscope.api.trace import Trace
from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.store.open import Store

CUT = {"rank": 3, "check": "truncated", "severity": "warning", "affects": "file", "explanation": "it is cut off."}
OF_THE_OTHERS = "it is cut off. The figures are of the other ranks alone."


def job() -> dict[str, Any]:
    """Four ranks of two steps that compute and meet, the last of which lost the end of its file."""
    told = Meetings(end=20, steps=2)
    for start in (0, 10):
        ranks = range(4 if start == 0 else 3)
        for rank in ranks:
            told.on_host(rank, start, start + 1, "aten::mm")
            told.compute(rank, start + 1, start + 4 + rank)
        told.meet({rank: start + 5 + rank for rank in ranks}, start + 9)
    return {**told.rows(), "data_check": [CUT]}


@pytest.fixture(scope="module")
def store() -> Any:
    with literal_store(job()) as opened:
        yield opened


def test_rows_of_no_rank_are_of_the_sound_ranks(store: Store) -> None:
    assert ask(find("kernels"), store, columns=["name", "count"]).to_csv() == ("name,count\ngemm,6\nnccl,6\n")
    assert [one["explanation"] for one in ask(find("kernels"), store).checks] == [OF_THE_OTHERS]
    (row,) = ask(find("communication"), store).rows()
    assert (row["calls"], row["measured"]) == (6, 6)


def test_a_row_that_names_its_rank_shows_it_as_recorded(store: Store) -> None:
    table = ask(find("communication"), store, by="rank")
    assert table["calls"] == [2, 2, 2, 1]
    assert [one["explanation"] for one in table.checks] == ["it is cut off."]
    for name, asked in (("rank-overview", {"measure": "step"}), ("steps", {})):
        rows = ask(find(name), store, **asked).rows()
        assert {one["rank"] for one in rows if not one["counted"]} == {3}


def test_a_damaged_rank_that_was_asked_for_answers(store: Store) -> None:
    table = ask(find("kernels"), store, ranks=[3])
    assert table["count"] == [1, 1]
    assert [one["explanation"] for one in table.checks] == ["it is cut off."]


def test_one_sound_rank_is_enough(store: Store) -> None:
    table = ask(find("kernels"), store, ranks=[0, 3])
    assert table["count"] == [2, 2]
    assert [one["explanation"] for one in table.checks] == [OF_THE_OTHERS]


@pytest.mark.parametrize("name", ["kernels", "steps", "what-if"])
def test_where_all_ranks_are_damaged_the_figures_are_of_these(name: str) -> None:
    with literal_store({**job(), "data_check": [{**CUT, "rank": rank} for rank in range(4)]}) as all_cut:
        table = ask(find(name), all_cut)
    assert table.rows()
    assert {one["explanation"] for one in table.checks} == {"it is cut off. The figures are of damaged ranks alone."}


def test_a_step_that_one_rank_lost_is_in_no_mean_of_what_if() -> None:
    cut = job()
    cut["data_check"] = [{**CUT, "rank": rank} for rank in range(4)]
    (lost,) = (row for row in cut["step"] if (row["rank"], row["step"]) == (3, 1))
    lost |= {"complete": False, "end_ns": lost["start_ns"] + 1}
    with literal_store(cut) as store:
        given = ask(find("what-if"), store)["step_ns"][0]
        assert given == ask(find("what-if"), store, steps=[0])["step_ns"][0]


def test_counters_of_a_damaged_rank_are_not_compared() -> None:
    launch = {"name": "gemm", "tool": "ncu", "launches": 1}
    value = {"kernel": "gemm", "metric": "Duration", "kind": "duration", "unit": "ns", "tool": "ncu"}
    rows = {
        "measured_kernel": [launch | {"rank": rank, "measured": rank} for rank in range(2)],
        "kernel_metric": [value | {"rank": rank, "measured": rank, "value": 1_000.0 + rank} for rank in range(2)],
        "data_check": [{**CUT, "rank": 1}],
    }
    with Trace(literal_store(rows)) as trace:
        table = metrics_diff(trace, trace)
    assert table.note.startswith("Damaged, and left out of both: rank 1 of before")
    assert table["before"] == [1_000]


def test_shares_are_of_sound_ranks(store: Store) -> None:
    given = ask(find("tensor-cores"), store)
    wanted = ask(find("tensor-cores"), store, ranks=[0, 1, 2])
    assert given["share_ratio"] == [*wanted["share_ratio"], None]
    assert given.note.endswith("these reasons, leave out rank 3: damaged.")
    assert "leave out" not in wanted.note


def test_sql_and_python_are_told_the_same(store: Store) -> None:
    table = Trace(store).sql("SELECT name, count FROM answer.kernels ORDER BY name")
    assert table["count"] == [6, 6]
    assert [one["explanation"] for one in table.checks] == [OF_THE_OTHERS]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("operators", {}), ("communication", {"by": "step"}), ("durations", {"by": "device"}),
        ("critical-path", {"by": "rank"}), ("critical-path", {"by": "piece"}), ("what-if", {}),
    ],
)  # fmt: skip
def test_what_is_told_of_other_ranks_hangs_on_no_damaged_one(
    name: str, parameters: dict[str, str], store: Store
) -> None:
    given = ask(find(name), store, **parameters).rows()
    wanted = ask(find(name), store, ranks=[0, 1, 2], **parameters).rows()
    assert [row for row in given if row.get("rank") != 3] == wanted
    assert wanted
