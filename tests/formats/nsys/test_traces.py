"""Real exports, beside what Nsight Systems itself says of them."""

import csv
import re
from pathlib import Path

import pytest

import stepscope
from stepscope.cli.main import main

pytestmark = pytest.mark.traces


@pytest.fixture(scope="module")
def folder(shared_traces: Path) -> Path:
    return shared_traces / "nsys"


@pytest.fixture(scope="module")
def before(folder):
    with stepscope.open(folder / "h100_2gpu_before.sqlite.gz") as trace:
        yield trace


def rows(trace, query):
    return [tuple(row.values()) for row in trace.sql(query).rows()]


WORK = (
    "SELECT count(*) AS n, sum(dur_ns) AS ns, sum(dur_ns) FILTER (kind = 'communication') AS nccl "
    "FROM device_event WHERE category = 'kernel'"
)


def test_two_processes_are_two_ranks(before):
    assert rows(before, WORK) == [(4010, 535_200_650, 25_401_752)]
    assert rows(before, "SELECT rank, pid, rank_rule FROM rank ORDER BY rank") == [(0, 144, "order"), (1, 145, "order")]
    assert rows(before, "SELECT DISTINCT rank, device FROM device_event ORDER BY 1") == [(0, 0), (1, 1)]


def test_every_launched_kernel_has_its_operator_and_the_others_are_counted(before):
    launched = "SELECT launch_id IS NULL AS alone, count(*) AS n, sum(dur_ns) AS ns FROM device_event"
    assert rows(
        before, "SELECT count(*) AS n FROM device_event WHERE category = 'kernel' AND operator_id IS NOT NULL"
    ) == [(3986,)]
    assert rows(before, f"{launched} WHERE category = 'kernel' GROUP BY 1 ORDER BY 1") == [
        (False, 3986, 516_689_349),
        (True, 24, 18_511_301),
    ]


def test_after_the_optimisation(folder):
    with stepscope.open(folder / "h100_2gpu_after.sqlite.gz") as trace:
        assert rows(trace, WORK) == [(3587, 488_835_406, 33_742_101)]


def test_sampled_stacks_are_those_of_the_export(folder):
    with stepscope.open(folder / "a100_cloverleaf.sqlite.gz") as trace:
        assert rows(
            trace,
            "SELECT count(*) AS n, count(DISTINCT thread) AS threads, sum(weight) AS w, "
            "sum(len(string_split(frames, ';'))) AS frames FROM stack_sample "
            "JOIN call_stack USING (rank, span, stack_id)",
        ) == [(1531, 3, 1531, 7527)]


def test_device_events_and_calls_are_those_of_nsights_tables(folder):
    with stepscope.open(folder / "a100_cloverleaf.sqlite.gz") as trace:
        (zero,) = rows(trace, "SELECT min(start_ns) AS z FROM device_event WHERE category = 'kernel'")[0]
        first = 533_338_240 - zero  # the first kernel in Nsight's table
        ours = {
            (first + start, first + start + dur, stream, copied, _short(name))
            for start, dur, stream, copied, name in rows(
                trace, "SELECT start_ns, dur_ns, stream, bytes, name FROM device_event WHERE kind <> 'sync'"
            )
        }
        calls = {
            (first + start, first + start + dur, name, pid, tid)
            for start, dur, name, pid, tid in rows(
                trace,
                "SELECT h.start_ns, h.dur_ns, h.name, t.pid, t.tid FROM host_event h "
                "JOIN thread t USING (rank, span, thread) WHERE h.kind = 'runtime'",
            )
        }
    theirs = {
        (
            int(row["Timestamp (ns)"]), int(row["_matching_timestamp"]), int(row["streamId"]),
            int(row["bytes"]) if row["bytes"] else None, row["Name"],
        )
        for row in entered(folder / "a100_cloverleaf.nsys_cuda_gpu_trace.csv")
    }  # fmt: skip
    asked = {
        (
            int(row["Timestamp (ns)"]), int(row["_matching_timestamp"]), re.sub(r"_v\d+$", "", row["Name"]),
            row["Process"], row["Thread"],
        )
        for row in entered(folder / "a100_cloverleaf.nsys_cuda_api_trace.csv")
    }  # fmt: skip
    assert len(theirs) == 1591
    assert ours == theirs
    assert len(asked) == 3048
    assert calls == asked


def _short(name: str) -> str:
    if name.startswith("Memcpy "):
        return f"CUDA_MEMCPY_KIND_{name.split()[1].upper()}"
    return re.sub(r"^void ", "", name).partition("<")[0].partition("(")[0].rpartition("::")[2]


def entered(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return [row for row in csv.DictReader(lines) if row["Event Type"] == "Enter"]


def test_what_an_export_without_nvtx_lacks_is_said(folder, capsys):
    file = folder / "rtx3080_no_nvtx.sqlite.gz"
    with stepscope.open(file, cache=False) as trace:
        assert rows(trace, WORK) == [(2, 4129, None)]
    assert main(["summary", str(file), "--no-cache"]) == 0
    assert capsys.readouterr().out.startswith("No operators recorded")
