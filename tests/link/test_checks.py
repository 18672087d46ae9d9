"""What each check of the data finds, and that it is silent where all is well."""

from __future__ import annotations

import pytest

from stepscope.formats.cupti.device_rows import NAMELESS
from stepscope.formats.damage import CLASSES, is_harmless
from stepscope.formats.evidence import MEANINGS, SUBJECTS
from stepscope.link.checks import check
from stepscope.link.folder_checks import (
    CHECKS,
    clocks_contradict,
    collectives_alone,
    collectives_incomplete,
    identical_files,
    left_out,
    ranks_guessed,
    spans_apart,
)

NAMES = [name for name, subject in SUBJECTS.items() if subject in ("events", "file")]
DECLARED = {check.name: set(check.damages) for check in CHECKS}


def healthy(recording, steps=4, per_step=10):
    for step in range(steps):
        recording.annotation(f"ProfilerStep#{step}", 1000 * step, 1000 * step + 900)
        for n in range(per_step):
            correlation = step * per_step + n + 1
            start = 1000 * step + 50 * n + 5
            recording.launch(start, start + 10, correlation)
            recording.kernel(start + 20, start + 40, correlation)
    return recording


def test_every_check_is_listed_with_what_it_examines():
    """Answers ask for the subject of a check without importing it."""
    assert sorted(SUBJECTS) == sorted(DECLARED)
    with pytest.raises(ValueError, match="'unlisted' is not listed"):
        check("unlisted", fine="all is well.")(lambda _: None)


def findings(recording):
    linked = recording.link()
    assert linked.column("data_check", "check") == NAMES
    for row in linked.rows("data_check"):
        assert row["explanation"]
        assert set(filter(None, row["affects"].split(","))) <= DECLARED[row["check"]]
        assert (row["severity"] == "ok") == (row["count"] == 0)
    return {
        row["check"]: (row["severity"], row["count"]) for row in linked.rows("data_check") if row["severity"] != "ok"
    }


def test_healthy_recording_passes_every_check(recording):
    assert findings(healthy(recording)) == {}


def memory(time, size, total, device=0):
    return {"time_ns": time, "device_kind": "cuda", "device": device, "bytes": size, "total_allocated_bytes": total}


def test_a_total_that_the_recorded_allocations_do_not_lead_to_is_counted(recording):
    healthy(recording)
    recording.memory_rows += [memory(1, 5, 105), memory(2, 3, 108), memory(2, 7, 7, device=1)]
    assert "memory_totals" not in findings(recording)
    recording.memory_rows += [memory(3, -5, 113)]  # 10 bytes more were taken between them
    assert findings(recording)["memory_totals"] == ("warning", 1)


def test_launches_without_kernels_are_counted(recording):
    healthy(recording)
    del recording.device_rows[15:20]
    assert findings(recording) == {"launch_without_kernel": ("warning", 5)}


@pytest.mark.parametrize(("steps", "per_step"), [(4, 10), (1, 20)])
def test_first_step_whose_start_lacks_its_kernels_is_told(recording, steps, per_step):
    healthy(recording, steps, per_step)
    del recording.device_rows[:6]
    assert findings(recording)["first_step_starved"] == ("warning", 6)


def test_kernels_of_graph_replays_are_told_apart(recording):
    healthy(recording)
    recording.launch(3800, 3810, 99, name="cudaGraphLaunch")
    for n in range(3):
        recording.kernel(3820 + 10 * n, 3825 + 10 * n, 99)
    assert findings(recording) == {"graph_replay_unattributed": ("note", 3)}
    assert recording.link().check("graph_replay_unattributed")["affects"] == "own-launches,replayed-operators"


def test_graph_launch_without_any_kernel_makes_idle_time_doubtful(recording):
    healthy(recording)
    recording.launch(3800, 3810, 99, name="cudaGraphLaunch")
    linked = recording.link()
    check = linked.check("graph_replay_unattributed")
    assert (check["severity"], check["count"]) == ("warning", 1)
    assert check["affects"] == "own-launches,device-work"


@pytest.mark.parametrize(
    ("rows", "device", "found"),
    [
        (slice(None), 0, {"zero_dur": ("error", 40)}),
        (slice(1, None), 0, {}),  # some are shorter than the clock tells
        (slice(4), 1, {"zero_dur": ("error", 4)}),  # each device has its own
    ],
)
def test_kernels_of_a_device_that_all_have_no_duration_leave_its_times_unknown(recording, rows, device, found):
    healthy(recording)
    for row in recording.device_rows[rows]:
        row |= {"dur_ns": 0, "device": device}
    assert findings(recording) == found
    if found:
        assert recording.link().check("zero_dur")["affects"] == "device-times,device-work"


def test_a_file_that_says_how_long_and_not_when_marks_what_rests_on_times(recording):
    healthy(recording)
    recording.report.note("no_moments", count=40)
    assert findings(recording) == {"durations_only": ("warning", 40)}
    affects = recording.link().check("durations_only")["affects"]
    assert affects == "host-times,device-times,clocks"


def test_steps_found_by_what_recurs_are_noted_with_how_sure_they_are(recording):
    for step in range(4):
        names = ["embedding", *["linear", "gelu"] * 10, *(["item"] if step == 2 else []), "argmax"]
        for place, name in enumerate(names):
            recording.operator(f"aten::{name}", 100 * step + 4 * place, 100 * step + 4 * place + 3)
    check = recording.link().check("no_steps")
    assert (check["severity"], check["affects"]) == ("note", "steps")
    assert check["explanation"] == (
        "No step ranges: 4 repeats count as steps (recurring operators, each starting with aten::embedding); they share "
        "100.0 % of their operators and ranges (median; at least 95.7 %)."
    )


def test_recording_without_steps_is_noted(recording):
    healthy(recording)
    recording.host_rows = [row for row in recording.host_rows if row["role"] != "step"]
    assert findings(recording) == {"no_steps": ("note", 1)}


def test_kernels_before_their_launch_show_that_clocks_disagree(recording):
    healthy(recording)
    for row in recording.device_rows[:3]:
        row["start_ns"] -= 40
    found = findings(recording)
    assert found["clock_skew"] == ("warning", 3)
    assert "20 ns" in recording.link().check("clock_skew")["explanation"]


def test_microsecond_of_truncation_is_no_clock_skew(recording):
    recording.resolution_ns = 1000
    recording.annotation("ProfilerStep#1", 0, 90_000)
    recording.launch(10_000, 12_000, 1)
    recording.kernel(9_001, 20_000, 1)
    assert "clock_skew" not in findings(recording)


def test_device_time_without_launch_is_measured(recording):
    healthy(recording)
    for row in recording.device_rows[:10]:
        row["correlation"] = 1000 + row["correlation"]
    found = findings(recording)
    assert found["unlinked_kernel_fraction"] == ("warning", 10)
    assert "25.0 %" in recording.link().check("unlinked_kernel_fraction")["explanation"]


@pytest.mark.parametrize(("number", "severity"), [(1, "note"), (4, "warning")])
def test_kernels_without_a_name_may_be_communication(recording, number, severity):
    healthy(recording)
    recording.launch(5000, 5010, 99)
    recording.kernel(5020, 8020, 99)
    for row in recording.device_rows[:number]:
        row["name"] = NAMELESS
    found = recording.link().check("nameless_kernels")
    assert (found["severity"], found["count"]) == (severity, number)
    assert found["affects"] == "kernel-names"


@pytest.mark.parametrize(
    ("launches", "severity", "affects"), [(0, "note", "devices"), (3, "error", "devices,device-work")]
)
def test_recording_without_device_events_says_whether_they_were_lost(recording, launches, severity, affects):
    recording.annotation("ProfilerStep#1", 0, 100)
    for n in range(launches):
        recording.launch(10 * n, 10 * n + 5, n + 1)
    assert findings(recording) == {"no_gpu_events": (severity, 1)}
    assert recording.link().check("no_gpu_events")["affects"] == affects


@pytest.mark.parametrize(("launches", "severity"), [(0, "warning"), (3, "error")])
def test_device_events_of_a_file_that_is_cut_off_are_unknown(recording, launches, severity):
    """Kineto writes them last, so that none before the cut says nothing of the device."""
    recording.annotation("ProfilerStep#1", 0, 100)
    for n in range(launches):
        recording.launch(10 * n, 10 * n + 5, n + 1)
    recording.report.truncated = True
    assert findings(recording)["no_gpu_events"] == (severity, 1)
    found = recording.link().check("no_gpu_events")
    assert found["affects"] == "devices,device-work"
    assert ("3 kernels were launched" in found["explanation"]) == bool(launches)


@pytest.mark.parametrize("steps", [2, 5])
def test_device_work_of_a_cut_file_is_damaged_where_no_step_is_complete(recording, steps):
    for n in range(10 * steps):
        if n % 10 == 0:
            recording.annotation(f"ProfilerStep#{n // 10}", 100 * n, 100 * n + 990)
        recording.launch(100 * n, 100 * n + 3, n + 1)
        recording.kernel(100 * n + 4, 100 * n + 8, n + 1)
    recording.report.truncated = True
    found = recording.link().check("truncated")
    none = steps == 2
    assert found["affects"] == ("file,device-work" if none else "file")
    assert ("no step is known to be complete" in found["explanation"]) == none


def test_what_the_reader_found_becomes_checks(recording):
    healthy(recording)
    recording.report.read = 1000
    recording.report.note("zero_timestamp", count=4)
    recording.report.note("negative_duration", count=1)
    recording.report.note("unfinished", count=2)
    recording.report.repaired, recording.report.dropped = 3, 2
    recording.report.truncated = True
    assert findings(recording) == {
        "zero_ts": ("warning", 4), "negative_dur": ("warning", 3), "truncated": ("warning", 1),
        "repaired": ("note", 5),
    }  # fmt: skip


def test_empty_recording_is_checked_too(recording):
    assert findings(recording) == {"no_steps": ("note", 1), "no_gpu_events": ("note", 1)}


def test_events_that_were_repaired_damage_nothing_and_lost_ones_the_file(recording):
    healthy(recording)
    recording.report.read, recording.report.repaired = 1000, 3
    found = recording.link().check("repaired")
    assert (found["affects"], found["explanation"]) == ("", "3 events had to be repaired.")
    recording.report.repaired, recording.report.dropped = 0, 1
    found = recording.link().check("repaired")
    assert (found["affects"], found["explanation"]) == ("file", "1 event could not be read.")
    recording.report.damage["no_time"] = 1
    found = recording.link().check("repaired")
    assert found["explanation"] == ("1 event could not be read; no_time (1): events without a time were left out.")


@pytest.mark.parametrize("damage", CLASSES)
def test_no_class_of_damage_passes_unseen_unless_it_is_harmless(recording, damage):
    healthy(recording)
    recording.report.note(damage)
    recording.report.truncated = damage.endswith("truncated")
    failed = findings(recording).keys() - {"zero_ts", "negative_dur", "durations_only"}
    assert bool(failed) != is_harmless(damage)


def test_damage_that_no_count_measures_damages_the_file(recording):
    healthy(recording)
    recording.report.note("wrong_type", count=3)
    found = recording.link().check("repaired")
    assert (found["severity"], found["count"], found["affects"]) == ("note", 3, "")
    assert found["explanation"].startswith("wrong_type (3): values have a type")
    recording.report.note("interleaved")
    recording.report.dropped = 2
    found = recording.link().check("repaired")
    assert (found["severity"], found["count"], found["affects"]) == ("warning", 3, "file")
    assert found["explanation"].startswith("2 events could not be read; interleaved (1): there is")


def test_recordings_that_cannot_be_read_damage_the_file():
    assert left_out.row([])["severity"] == "ok"
    found = left_out.row([("a.json", "it is empty"), ("b.json", "it is cut")])
    assert (found["affects"], found["count"]) == ("file", 2)
    assert "a.json and 1 more" in found["explanation"]


def test_every_kind_of_evidence_can_be_damaged_and_every_check_is_explained():
    assert set().union(*DECLARED.values()) == set(MEANINGS)
    for declared in CHECKS:
        # What ran before an early end is right; there is only less of it.
        assert bool(declared.damages) == (declared.name != "ended_early"), declared.name
        assert declared.explanation.endswith("."), declared.name
        assert declared.fine.endswith("."), declared.name


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            {"ended": {"exception": "ValueError"}, "steps": 1},
            "ValueError ended the job after 1 recorded step; answers cover what it did until then.",
        ),
        (
            {"stepscope": {"ended": {"signal": "SIGTERM"}, "ended_in_step": 41}, "steps": 5},
            "SIGTERM ended the job in step 41; answers cover what it did until then.",
        ),
        (
            {"ended": {"exit_code": 7}, "iterations_run": 840},
            "The job ended with exit code 7 after 840 recorded steps; answers cover what it did until then.",
        ),
        (
            {"ended": None, "steps": 840},
            # The number is that of an early save: it is not when the job ended.
            "Not closed: last written after 840 recorded steps; the job was killed later, or "
            "still ran when this was written; answers cover what it did until then.",
        ),
        (
            {"ended": [{"exception": "x"}], "steps": "many"},
            "Not closed: the job was killed later, or still ran when this was written; answers cover what it did until then.",
        ),
        ({"ended": {}, "steps": 5}, None),
        ({"steps": 5}, None),  # of another recorder
        ({"stepscope": 3, "ended": None}, None),
    ],
)
def test_an_early_end_is_said_with_what_the_figures_hold(recording, told, words):
    recording.metadata = told
    found = findings(healthy(recording))
    assert found == ({} if words is None else {"ended_early": ("note", 1)})
    if words is not None:
        row = recording.link().check("ended_early")
        assert (row["explanation"], row["affects"]) == (words, "")


SECOND = 10**9


@pytest.mark.parametrize(
    ("gap_ns", "severity", "words"),
    [
        (30 * SECOND, "ok", "recordings of the rank lie together."),
        (600 * SECOND, "note", "2 recordings of the rank are up to 10 minutes apart."),
        (50 * 3600 * SECOND, "note", "2 recordings of the rank are up to 2.08 days apart."),
        (-SECOND // 1000, "ok", "recordings of the rank lie together."),
        (-SECOND, "warning", "1 of 2 recordings of the rank overlap in time with the one before,"),
    ],
)
def test_recordings_of_a_rank_that_lie_minutes_apart_are_marked(gap_ns, severity, words):
    first = (7 * SECOND, 12 * SECOND)
    start = first[1] + gap_ns
    found = spans_apart.row([(start, start + SECOND), first])
    assert (found["severity"], found["affects"]) == (severity, "" if severity == "ok" else "run")
    assert found["explanation"].startswith(words)


def test_ranks_that_were_guessed_from_the_order_of_names_are_said():
    assert ranks_guessed.row([])["severity"] == "ok"
    found = ranks_guessed.row([("runs/b.json", 0), ("runs/c.json", 1), ("runs/d.json", 2)])
    assert (found["severity"], found["affects"], found["count"]) == ("note", "run", 3)
    assert "(b.json is rank 0, c.json is rank 1, and 1 more)" in found["explanation"]


def test_copies_of_a_recording_are_said():
    assert identical_files.row([])["severity"] == "ok"
    found = identical_files.row([("runs/b.json", "runs/a.json"), ("old/a.json", "runs/a.json")])
    assert (found["severity"], found["affects"], found["count"]) == ("note", "run", 2)
    assert "(b.json is a copy of a.json, old/a.json is a copy of runs/a.json)" in found["explanation"]


def test_collectives_without_a_counterpart_are_counted():
    assert collectives_alone.row((0, 0, 64))["severity"] == "ok"
    found = collectives_alone.row((2, 1, 64))
    assert (found["severity"], found["count"], found["affects"]) == ("note", 2, "across-ranks")
    assert "2 of 64 collectives of all ranks (3.1 %) could not be matched" in found["explanation"]
    assert "for 1 of them the ranks were not recorded" in found["explanation"]
    assert collectives_alone.row((20, 0, 64))["severity"] == "warning"


def test_matched_collectives_without_a_rank_of_their_group_are_counted():
    assert collectives_incomplete.row((0, 64, []))["severity"] == "ok"
    found = collectives_incomplete.row((2, 64, []))
    assert (found["severity"], found["count"]) == ("note", 2)
    assert "2 of 64 matched collectives lack a rank of their group: if" in found["explanation"]
    found = collectives_incomplete.row((64, 64, [2, 3]))
    assert found["severity"] == "warning"
    assert "; ranks 2, 3 are not recorded: if it arrived last" in found["explanation"]


def test_ranks_whose_clocks_nothing_can_align_are_named():
    assert clocks_contradict.row(([], []))["severity"] == "ok"
    found = clocks_contradict.row(([3], []))
    assert (found["severity"], found["count"]) == ("warning", 1)
    assert "the collectives of rank 3 do not end when those of the others do" in found["explanation"]
    found = clocks_contradict.row(([], [0, 1, 2, 3, 4]))
    assert (found["severity"], found["count"]) == ("note", 5)
    assert "ranks 0, 1, 2, 3 and 1 more were guessed" in found["explanation"]
