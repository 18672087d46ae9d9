"""What a store has of clocks and matched collectives, for jobs whose truth is known."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.simulated_job import Delay, Job, Simulated, simulate

from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.questions.invariants import invariants
from stepscope.store.build import import_source
from stepscope.store.open import Store
from stepscope.store.part import write_part

OFFSETS = (0, 2_900_000_000)
DRIFTS = (0, -30_000)


@pytest.fixture(scope="module")
def job() -> Simulated:
    return simulate(Job(ranks=4, hosts=2, steps=8, layers=2, clock_offset_ns=OFFSETS, clock_drift_ppb=DRIFTS))


@pytest.fixture(scope="module")
def imported(job: Simulated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    job.write(folder / "traces")
    return import_source(folder / "traces", folder / "store")


def rows(store: Store, columns: str, table: str = "collective") -> list[dict[str, Any]]:
    return store.sql(f"SELECT {columns} FROM {table} ORDER BY rank, start_ns").to_pylist()


def test_clocks_of_hosts_are_found_within_the_stated_uncertainty(job, imported):
    with Store.open(imported) as store:
        ranks = store.sql("FROM rank ORDER BY rank").to_pylist()
        starts = store.sql("SELECT rank, min(start_ns) AS ns FROM host_event GROUP BY rank").to_pylist()  # fmt: skip
        ends = store.sql("SELECT max(end_ns) - min(end_ns) AS ns FROM collective GROUP BY match_id").column(0)
        assert all(row["severity"] != "error" for row in ask(invariants, store).rows())
    assert [row["clock_rule"] for row in ranks] == ["same host"] * 2 + ["collectives"] * 2
    assert [row["clock_drift_ppb"] for row in ranks[:2]] == [None, None]
    assert all(abs(row["clock_drift_ppb"] + 30_000) < 30 for row in ranks[2:])
    for row in ranks[2:]:
        assert abs(row["clock_offset_ns"] + 2_900_000_000) <= row["clock_uncertainty_ns"]
    assert max(ends.to_pylist()) <= sum(row["clock_uncertainty_ns"] for row in ranks[1:3])
    assert max(row["clock_uncertainty_ns"] for row in ranks) < 1_000
    assert {row["ns"] // 1_000_000 for row in starts} == {0}


def test_waits_are_those_that_were(job, imported):
    with Store.open(imported) as store:
        found = rows(store, "rank, match_id, last_rank, wait_ns, transfer_ns, end_ns - start_ns AS ns, match_rule, match_confidence")  # fmt: skip
    truth = [
        (rank, max(one.arrivals_ns.values()) - at, one.last_rank)
        for rank in range(4)
        for one in sorted(job.collectives, key=lambda one: one.end_ns)
        for at in [one.arrivals_ns[rank]]
    ]
    assert len(found) == len(truth)
    for row, (rank, wait, last) in zip(found, truth, strict=True):
        assert row["rank"] == rank
        assert abs(row["wait_ns"] - wait) <= 2
        assert row["last_rank"] in (last, None)
        assert row["wait_ns"] + row["transfer_ns"] == row["ns"]
        assert (row["match_rule"], row["match_confidence"]) == ("sequence", 1.0)
    # The second collective of two in a row starts on all ranks at once.
    assert sum(row["last_rank"] is None for row in found) == len(found) / 2


def test_a_part_keeps_what_all_ranks_told(imported, tmp_path):
    columns = "rank, id, match_id, last_rank, wait_ns, transfer_ns"
    with Store.open(imported) as store:
        write_part(store, tmp_path / "part", ranks=[2, 3], steps=[4])
        whole = [row for row in rows(store, columns) if row["rank"] > 1]
        clocks = store.sql("FROM rank WHERE rank > 1 ORDER BY rank").to_pylist()
    with Store.open(tmp_path / "part") as part:
        kept = rows(part, columns)
        assert part.sql("FROM rank ORDER BY rank").to_pylist() == clocks
        assert all(row["severity"] != "error" for row in ask(invariants, part).rows())
    assert 0 < len(kept) < len(whole)
    assert all(row in whole for row in kept)
    assert {row["match_id"] for row in kept} - {None}


def test_a_recording_moves_as_a_piece_however_its_clock_drifts(make_directory):
    """A nested event would leave its parent, had each its own shift."""
    event = {"start_ns": 10, "dur_ns": 5}
    directory = make_directory(
        {
            "rank": [
                {"rank": 0, "start_epoch_ns": 100},
                {"rank": 1, "start_epoch_ns": 200, "clock_offset_ns": -40, "clock_drift_ppb": 9.0},
            ],
            "source": [{"rank": 0}, {"rank": 1}, {"rank": 1, "span": 1, "drift_ns": -7}],
            "host_event": [{**event}, {**event, "rank": 1}, {**event, "rank": 1, "span": 1}],
        }
    )
    with Store.open(directory) as store:
        found = store.sql("SELECT start_ns, dur_ns FROM host_event ORDER BY rank, span")
    assert [tuple(row.values()) for row in found.to_pylist()] == [(10, 5), (70, 5), (63, 5)]


def test_a_rank_without_an_epoch_is_put_where_collectives_say(make_directory):
    directory = make_directory(
        {
            "rank": [{"rank": 0, "start_epoch_ns": 5_000}, {"rank": 1, "clock_offset_ns": 30}],
            "host_event": [{"start_ns": 10, "rank": 1}],
        }
    )
    with Store.open(directory) as store:
        assert store.sql("SELECT start_ns FROM host_event").to_pylist() == [{"start_ns": 40}]


def test_one_rank_alone_has_no_clock_to_align(job, tmp_path):
    job.write(tmp_path / "traces", ranks=[1])
    folder = import_source(tmp_path / "traces", tmp_path / "store") / "rank=00001"
    (row,) = pq.ParquetFile(folder / "rank.0.parquet").read().to_pylist()
    assert {value for name, value in row.items() if name.startswith("clock_")} == {None}
    checks = pq.ParquetFile(folder / "data_check.0.parquet").read().to_pylist()
    assert "collectives_alone" not in {check["check"] for check in checks}


@pytest.mark.traces
def test_the_eight_ranks_of_dlrm_wait_for_rank_7(shared_traces, tmp_path):
    source = shared_traces / "kineto" / "dlrm_8rank_v100"
    with Store.open(import_source(source, tmp_path / "store")) as store:
        matched = store.sql("SELECT count(*) AS n, count(match_id) AS matched FROM collective")
        assert matched.to_pylist() == [{"n": 64, "matched": 64}]
        first = store.sql("FROM collective WHERE match_id = 0 ORDER BY wait_ns DESC").to_pylist()
        clocks = store.sql("SELECT DISTINCT clock_rule, clock_offset_ns FROM rank").to_pylist()
        uncertain = store.sql("SELECT max(clock_uncertainty_ns) AS ns FROM rank").to_pylist()
    assert {(row["operation"], row["matched_ranks"]) for row in first} == {("all_to_all", 8)}
    assert {row["last_rank"] for row in first} == {7}
    assert (first[0]["rank"], first[0]["wait_ns"], first[0]["transfer_ns"]) == (1, 7_624_000, 11_000)
    assert (first[-1]["rank"], first[-1]["wait_ns"]) == (7, 0)
    assert clocks == [{"clock_rule": "epoch", "clock_offset_ns": 0}]
    assert 1_000 <= uncertain[0]["ns"] < 10_000


def test_it_is_known_which_collectives_leave_a_node(tmp_path):
    # Without arguments, so that matches and hosts alone tell; tensor groups of two share a node.
    for args in (True, False):
        simulate(Job(ranks=4, hosts=2, tensor_parallel=2, steps=2, layers=2, nccl_args=args)).write(
            tmp_path / str(args)
        )
        with Store.open(import_source(tmp_path / str(args), tmp_path / f"store{args}")) as store:
            found = store.sql(
                "SELECT group_description, extent, group_size, count(*) AS n FROM collective GROUP BY ALL ORDER BY ALL"
            ).to_pylist()
        if args:
            assert {row["group_description"]: (row["extent"], row["group_size"]) for row in found} == {
                "tensor": ("intra_node", 2),
                "data": ("inter_node", 2),
            }
        else:
            assert {row["extent"] for row in found} <= {"inter_node", None}


def _incomplete(folder: Path) -> list[str]:
    file = folder / "rank=00000" / "data_check.0.parquet"
    found = pq.ParquetFile(file).read().to_pylist()
    return [row["explanation"] for row in found if row["check"] == "collectives_incomplete"]


def test_a_rank_of_the_group_without_a_recording_is_told(tmp_path):
    late = simulate(Job(ranks=3, layers=2, delays=(Delay(rank=2, ns=5_000_000),)))
    late.write(tmp_path / "two", ranks=[0, 1])
    (told,) = _incomplete(import_source(tmp_path / "two", tmp_path / "store"))
    assert told.startswith("6 of 6 matched collectives lack a rank of their group; rank 2 is not recorded")
    with Store.open(tmp_path / "store") as store:
        (note,) = [c for c in ask(find("communication"), store).checks if c["check"] == "collectives_incomplete"]
    assert note["severity"] == "warning"
    late.write(tmp_path / "all")
    assert _incomplete(import_source(tmp_path / "all", tmp_path / "store of all")) == []


def test_a_kernel_that_a_recording_lost_is_told(tmp_path):
    lost = simulate(Job(ranks=3, steps=4, layers=3, dropped=((2, "1", 5),)))
    lost.write(tmp_path / "traces")
    (told,) = _incomplete(import_source(tmp_path / "traces", tmp_path / "store"))
    assert told.startswith("1 of 12 matched collectives lack a rank of their group: if it")
