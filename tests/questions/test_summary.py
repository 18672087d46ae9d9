"""The summary's rows: what they hold, and that they are the other questions' numbers."""

from typing import Any

from stepscope.report.renderers import Layout
from stepscope.report.text import answer_lines

TRAINING = {
    "rank": [
        {"rank": 0, "world_size": 4, "resolution_ns": 1, "rank_rule": "flag"},
        {"rank": 2, "world_size": 4, "resolution_ns": 1, "rank_rule": "flag"},
    ],
    "source": [
        {"rank": rank, "path": f"{rank}.json", "tool": "torch", "events_read": 7, "format": "kineto",
         "truncated": False, "bytes": 1, "events_repaired": rank, "events_dropped": 0}
        for rank in (0, 2)
    ],
    "device": [
        {"rank": rank, "device": 0, "kind": "cuda", "name": "H100", "used": True} for rank in (0, 2)
    ],
    "step": [
        {"rank": 0, "step": 1, "end_ns": 100},
        {"rank": 0, "step": 2, "start_ns": 100, "end_ns": 220},
        {"rank": 0, "step": 3, "start_ns": 220, "end_ns": 900, "complete": False},
        {"rank": 2, "step": 1, "end_ns": 140},
    ],
    "module": [{"module_id": 4, "path": "net.fc", "calls": 2}],
    "host_event": [
        {"id": 1, "name": "aten::mm", "start_ns": 0, "dur_ns": 30},
        {"id": 2, "name": "cudaLaunchKernel", "kind": "runtime", "role": "launch", "start_ns": 5,
         "dur_ns": 10, "parent_id": 1},
        {"id": 3, "name": "enumerate(DataLoader)#", "kind": "annotation", "role": "dataloader",
         "start_ns": 100, "dur_ns": 60},
    ],
    "device_event": [
        {"id": 10, "name": "gemm", "start_ns": 10, "dur_ns": 60, "launch_id": 2, "operator_id": 1,
         "module_id": 4},
        {"id": 11, "name": "gemm", "start_ns": 160, "dur_ns": 60},
        {"id": 10, "name": "nccl", "kind": "communication", "start_ns": 0, "dur_ns": 140, "rank": 2},
    ],
}  # fmt: skip


def rows_of(table: Any, section: str) -> dict[str, dict[str, Any]]:
    return {row["item"]: row for row in table.rows() if row["section"] == section}


def test_processes_of_one_file_are_one_file(answer):
    paths = ("a.sqlite!pid 7", "a.sqlite!pid 8", "b.zip!a.json")
    sources = [TRAINING["source"][0] | {"path": path} for path in paths]
    table = answer("summary", TRAINING | {"source": sources})
    assert rows_of(table, "recorded")["files"]["count"] == 2


def test_of_chosen_steps_the_head_is_of_the_recordings_that_have_them(answer):
    """A rank recorded twice: the second recording has neither of the chosen steps' events, nor their time."""
    rows: Any = {
        "source": [{"span": span, "path": f"{span}.json", "events_read": 50} for span in (0, 1)],
        "step": [{"span": n // 2, "step": n, "start_ns": 1000 * n, "end_ns": 1000 * n + 900} for n in range(4)],
        "host_event": [
            {"span": n // 2, "step": n, "name": "aten::mm", "start_ns": 1000 * n, "dur_ns": 500, "kind": "operator"}
            for n in range(4)
        ],
    }
    every, chosen = (rows_of(answer("summary", rows, **asked), "recorded") for asked in ({}, {"steps": [1]}))
    assert (every["files"]["count"], every["events"]["count"], every["recordings"]["count"]) == (2, 100, 2)
    assert every["events"]["text"] is None
    assert (chosen["files"]["count"], chosen["events"]["count"]) == (1, 50)
    assert chosen["events"]["text"] == "1 of them in the chosen step"
    assert chosen["duration"]["time_ns"] is None
    assert "recordings" not in chosen


def test_a_device_without_a_name_is_called_so(answer):
    unnamed = {"rank": 0, "device": 0, "kind": "rocm", "used": True}
    items = [row["item"] for row in answer("summary", {**TRAINING, "device": [unnamed]}).rows()]
    assert "AMD GPU of unknown model" in items
    (row,) = answer("tensor-cores", {**TRAINING, "device": [unnamed]}).rows()[:1]
    assert row["device_name"] == "AMD GPU of unknown model"


def test_what_was_recorded_and_what_is_missing(answer: Any) -> None:
    found = rows_of(answer("summary", TRAINING), "recorded")
    assert found["tool"]["text"] == "torch"
    assert found["files"]["text"] == "2 events repaired"
    assert found["events"]["count"] == 14
    assert (found["ranks"]["count"], found["ranks"]["text"]) == (2, "0, 2 of 4; missing: 1, 3")
    assert found["H100"]["count"] == 2
    assert (found["steps"]["count"], found["steps"]["text"]) == (4, "ProfilerStep 1-3")
    assert found["duration"]["time_ns"] == 220


def test_how_well_clocks_agree_is_told_of_several_ranks(answer: Any) -> None:
    def words(*clocks: dict[str, Any]) -> str | None:
        ranks = [old | clock for old, clock in zip(TRAINING["rank"], clocks, strict=True)]
        table = answer("summary", {**TRAINING, "rank": ranks})
        row = rows_of(table, "recorded").get("clocks")
        text = "\n".join(line.text for line in answer_lines(table, Layout(width=200, command="stepscope")))
        assert ("Clocks  " in text) == (row is not None)
        return row and row["text"]

    host, epoch = {"clock_rule": "same host"}, {"clock_rule": "epoch", "clock_offset_ns": 0}
    ahead = {"clock_rule": "collectives", "clock_offset_ns": -2_500_000_000}
    assert words({}, {}) is None
    assert words(host, host) is None
    assert words(epoch, epoch) == "no collective tells how far the clocks of the ranks are off"
    agree = "ends of matched collectives agree to within 4.000 µs"
    known = {"clock_uncertainty_ns": 4_000}
    assert words(host | known, host | known) == agree
    apart = f"{agree}; clocks up to 2.500 s apart were aligned"
    assert words(host | known, ahead | known) == apart
    some = f"{agree}; no collective tells how far the clocks of 1 of 2 ranks are off"
    assert words(host | known, epoch) == some


def test_step_times_are_of_complete_steps_of_all_ranks(answer: Any) -> None:
    found = rows_of(answer("summary", TRAINING), "step time")
    assert {item: row["time_ns"] for item, row in found.items()} == {
        "mean": 120,
        "p50": 120,
        "p95": 138,
        "fastest rank": 110,
        "slowest rank": 140,
    }
    assert found["mean"]["count"] == 3
    assert found["slowest rank"]["rank"] == 2


def test_all_figures_are_of_the_ranks_that_are_not_damaged(answer: Any) -> None:
    ranks = (0, 1, 2)
    job = {
        "source": [TRAINING["source"][0] | {"rank": rank, "truncated": rank == 1} for rank in ranks],
        "step": [{"rank": rank, "step": 1, "end_ns": (100, 900, 140)[rank]} for rank in ranks],
        "data_check": [
            {"rank": 1, "check": "truncated", "severity": "warning", "affects": "file"},
            {"rank": 0, "check": "identical_files", "severity": "note", "affects": "run"},
        ],
    }
    table = answer("summary", job)
    assert rows_of(table, "step time")["mean"]["time_ns"] == 120
    assert rows_of(table, "breakdown")["total"]["time_ns"] == 120
    found = rows_of(table, "recorded")
    assert (found["ranks"]["count"], found["steps"]["count"]) == (2, 2)
    assert found["ranks"]["text"].startswith("0-2; damaged, in no figure of steps")
    checks = rows_of(table, "checks")
    assert (checks["truncated"]["rank"], checks["identical_files"]["rank"]) == (1, None)


def test_the_breakdown_adds_up_to_the_mean_step(answer: Any) -> None:
    table = answer("summary", TRAINING)
    found = rows_of(table, "breakdown")
    parts = {item: row["time_ns"] for item, row in found.items() if item != "total"}
    assert parts == {
        "kernel": 40,
        "copy": 0,
        "memset": 0,
        "communication": 47,
        "runtime": 2,
        "dataloader": 20,
        "cpu_exec": 1,
        "other": 10,
    }
    assert sum(parts.values()) == found["total"]["time_ns"] == 120
    assert rows_of(table, "verdict")["communication-bound"]["share_ratio"] == 47 / 120
    severities = {row["id"]: row["severity"] for row in answer("findings", TRAINING).rows()}
    told = {row["item"]: row["severity"] for row in table.rows() if row["severity"]}
    assert len(told) > 1
    assert told == {rule: severities[rule] for rule in told}


def test_the_device_is_that_of_the_other_questions(answer: Any) -> None:
    found = rows_of(answer("summary", TRAINING), "device")
    spans = answer("device-time", TRAINING).rows()
    used = answer("utilization", TRAINING).rows()
    assert found["idle"]["time_ns"] == sum(row["idle_ns"] for row in spans) == 90
    assert found["GPU utilisation"]["share_ratio"] == sum(r["kernel_ns"] for r in used) / sum(
        r["window_ns"] for r in used
    )
    assert found["lowest utilisation"]["rank"] == 0
    assert found["est. SM efficiency"]["share_ratio"] is None


def test_what_takes_most(answer: Any) -> None:
    table = answer("summary", TRAINING)
    operators = answer("operators", TRAINING).rows()
    assert [(row["item"], row["time_ns"], row["count"]) for row in rows_of(table, "operators").values()] == [
        (row["name"], row["device_self_ns"], row["calls"]) for row in operators
    ]
    kernels = rows_of(table, "kernels")
    assert [(item, row["time_ns"], row["count"]) for item, row in kernels.items()] == [
        ("nccl", 140, 1),
        ("gemm", 120, 2),
    ]
    assert rows_of(table, "modules")["net.fc"]["time_ns"] == 60


def test_without_a_device_operators_are_ranked_by_host_self_time(answer: Any) -> None:
    rows = {
        "step": [{"end_ns": 50, "rule": "whole recording"}],
        "host_event": [
            {"id": 1, "name": "outer", "dur_ns": 50},
            {"id": 2, "name": "inner", "start_ns": 1, "dur_ns": 40, "parent_id": 1},
        ],
    }
    table = answer("summary", rows)
    assert [(row["item"], row["time_ns"], row["text"]) for row in rows_of(table, "operators").values()] == [
        ("inner", 40, "host self time"),
        ("outer", 10, "host self time"),
    ]
    assert rows_of(table, "device") == {}
    verdict = table.rows()[0]
    assert verdict["item"] == "host-only"
    assert "inner alone takes 80.0 % of the recording (40 ns)" in verdict["text"]
    assert "of the recording" in verdict["text"]
    assert rows_of(table, "breakdown")["kernel"]["time_ns"] is None


SLEEPS = {
    "step": [{"step": 0, "end_ns": 1000, "rule": "ProfilerStep"}],
    "module": [{"module_id": 1, "path": "net", "name": "net", "calls": 1}],
    "host_event": [
        {"id": 1, "step": 0, "kind": "annotation", "name": "nn.Module: net", "dur_ns": 900, "module_id": 1},
        {"id": 2, "step": 0, "name": "mm", "start_ns": 1, "dur_ns": 60, "parent_id": 1, "module_id": 1},
        {"id": 3, "step": 0, "name": "add", "start_ns": 70, "dur_ns": 30, "parent_id": 1, "module_id": 1},
    ],
}


def test_time_that_is_in_no_operator_leads_to_where_it_is(answer: Any) -> None:
    """An operator with most of the operators' time has little of the step's; the module has the rest."""
    verdict, then = answer("summary", SLEEPS).rows()[:2]
    assert verdict["item"] == "host-only"
    assert "; no single operator dominates (the largest: 6.0 % of the step (60 ns))" in verdict["text"]
    assert then["text"].startswith("`stepscope modules`")
    elsewhere = [{**row, "module_id": None} for row in SLEEPS["host_event"]]
    _, then = answer("summary", SLEEPS | {"host_event": elsewhere}).rows()[:2]
    assert then["text"].startswith("`stepscope call-tree`")


def test_checks_of_many_ranks_are_one_row_each(answer: Any) -> None:
    rows = {
        "step": [{"end_ns": 50}],
        "data_check": [
            {"check": "zero_ts", "explanation": f"lost {rank}", "rank": rank, "count": rank, "affects": "device-times"}
            for rank in range(3)
        ]
        + [{"check": "no_steps", "severity": "ok"}],
    }
    found = rows_of(answer("summary", rows), "checks")
    assert list(found) == ["zero_ts"]
    assert (found["zero_ts"]["count"], found["zero_ts"]["rank"]) == (3, None)
    assert found["zero_ts"]["text"].startswith("warning: lost 2 Found in 3 recordings")


WAITS = {
    "step": [{"rank": 0, "step": 1, "start_ns": 0, "end_ns": 1_000_000}],
    "host_event": [
        {"id": 1, "name": "train", "start_ns": 0, "dur_ns": 1_000_000},
        {"id": 2, "kind": "runtime", "role": "launch", "start_ns": 100_000, "dur_ns": 1},
        {"id": 3, "kind": "runtime", "role": "launch", "start_ns": 100_001, "dur_ns": 1},
        {"id": 4, "kind": "runtime", "role": "launch", "start_ns": 100_002, "dur_ns": 1},
    ],
    "device_event": [
        {"name": "one", "start_ns": 100_010, "dur_ns": 99_990, "launch_id": 2},
        {"name": "two", "start_ns": 220_000, "dur_ns": 80_000, "launch_id": 3, "stream": 7},
        {"name": "three", "start_ns": 900_000, "dur_ns": 100_000, "launch_id": 4, "stream": 7},
    ],
}


def test_the_verdict_says_what_the_device_waits_for_as_idle_does(answer: Any) -> None:
    found = rows_of(answer("summary", WAITS), "verdict")
    assert {item: row["time_ns"] for item, row in found.items()} == {
        "dependency-bound": 600_000,  # launched in time, begins 600 µs after the work before
        "next": None,
        "single-gaps": 100_010,  # one gap, until the first launch
    }
    idle = answer("idle", WAITS, steps=[1]).rows()
    assert {row["cause"]: row["idle_ns"] for row in idle if row["stream"] is None} == {
        "other": 600_000,
        "host wait": 100_010,
        "kernel wait": 20_000,
    }


def test_without_steps_the_verdict_is_on_the_time_from_first_to_last_device_work(answer: Any) -> None:
    rows = {
        "step": [{"end_ns": 1000, "rule": "whole recording"}],
        "host_event": [{"name": "aten::mm", "dur_ns": 1000}],
        "device_event": [{"start_ns": 300, "dur_ns": 90}, {"start_ns": 400, "dur_ns": 100}],
    }
    table = answer("summary", rows)
    verdict = rows_of(table, "verdict")["device-bound"]
    assert (verdict["time_ns"], verdict["share_ratio"]) == (190, 0.95)
    assert rows_of(table, "breakdown")["kernel"]["share_ratio"] == 0.19
    assert rows_of(table, "step time") == {}


def test_a_recording_of_nothing_is_answered(answer: Any) -> None:
    table = answer("summary", {})
    assert table.rows()[0]["item"] == "nothing-recorded"
    assert rows_of(table, "breakdown") == {}


def test_one_step_alone(answer: Any) -> None:
    table = answer("summary", TRAINING, ranks=[0], steps=[2])
    assert rows_of(table, "step time")["mean"]["time_ns"] == 120
    assert rows_of(table, "breakdown")["dataloader"]["time_ns"] == 60
    assert rows_of(table, "breakdown")["kernel"]["time_ns"] == 60
    assert rows_of(table, "verdict")["input-bound"]["share_ratio"] == 0.5


def test_a_device_is_shown_with_its_memory_and_compute_capability(answer):
    known = {"memory_bytes": 80 << 30, "compute_major": 9, "compute_minor": 0}
    devices = [{**TRAINING["device"][0], **known}, TRAINING["device"][1]]
    rows = answer("summary", {**TRAINING, "device": devices}).rows()
    assert [(row["count"], row["text"]) for row in rows if row["item"] == "H100"] == [
        (1, "device, 80.00 GiB memory, compute capability 9.0"),
        (1, "device"),
    ]


def test_kernels_without_durations_are_not_an_idle_device(answer: Any) -> None:
    kernels = [{**row, "dur_ns": 0} for row in TRAINING["device_event"]]
    found = answer("summary", {**TRAINING, "device_event": kernels})
    assert rows_of(found, "device")["GPU utilisation"]["share_ratio"] is None
    assert "idle" not in rows_of(found, "device")
    assert rows_of(found, "breakdown")["kernel"]["time_ns"] is None


def test_of_phases_alone_the_steps_are_those_that_the_job_timed(answer):
    step = {"phase": "step", "steps": 4, "mean_ns": 100.0}
    table = answer(
        "summary", {"source": TRAINING["source"][:1], "phase": [step, {**step, "phase": "forward", "mean_ns": 90.0}]}
    )
    recorded, times = rows_of(table, "recorded"), rows_of(table, "step time")
    assert (recorded["steps"]["count"], recorded["duration"]["time_ns"]) == (4, None)
    assert recorded["steps"]["text"] == "their phases timed by the job itself"
    assert {name: (row["time_ns"], row["count"]) for name, row in times.items()} == {"mean": (100, 4)}
    words = "\n".join(line.text for line in answer_lines(table, Layout(width=80)))
    assert "Steps      4 (their phases timed by the job itself)\n" in words
    assert "no device" not in words


def test_a_recording_is_as_long_as_its_steps_also_where_the_system_was_called_first(answer):
    rows = {
        "step": [{"start_ns": 0, "end_ns": 900, "rule": "whole recording"}],
        "host_event": [
            {"name": "read", "kind": "other", "start_ns": 0, "dur_ns": 100},
            {"id": 1, "name": "cudaLaunchKernel", "kind": "runtime", "start_ns": 500, "dur_ns": 400},
        ],
    }
    (row,) = (row for row in answer("summary", rows).rows() if row["item"] == "duration")
    assert row["time_ns"] == 900
