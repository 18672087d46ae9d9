"""The summary as a page of text: at most 40 lines, none too wide, nothing unsaid."""

from typing import Any

import pytest
from tests.literal import literal_store

from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.report.renderers import Layout
from stepscope.report.summary_text import summary_lines


def text_of(rows: dict[str, Any], width: int = 80) -> list[str]:
    with literal_store(rows) as store:
        return [line.text for line in summary_lines(ask(find("summary"), store), Layout(width))]


def many(count: int) -> dict[str, Any]:
    """A recording with more operators, kernels, modules and checks than fit."""
    return {
        "step": [{"step": n, "start_ns": 1000 * n, "end_ns": 1000 * n + 1000} for n in range(5)],
        "module": [{"module_id": n, "path": f"net.layers.{n}"} for n in range(count)],
        "host_event": [
            {"id": n, "name": f"aten::{n}" * 30, "start_ns": 10 * n, "dur_ns": 5, "module_id": n}
            for n in range(count)
        ],
        "device_event": [
            {"name": f"kernel_{n}" * 30, "start_ns": 100 * n, "dur_ns": 50 + n, "operator_id": n,
             "module_id": n, "kind": ("computation", "copy", "communication")[n % 3]}
            for n in range(count)
        ],
        "data_check": [
            {"check": f"check_{n}", "explanation": "what was found " * 20, "affects": "clocks"}
            for n in range(count)
        ],
    }  # fmt: skip


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("count", [1, 9, 40])
def test_at_most_forty_lines_and_none_too_wide(width: int, count: int) -> None:
    lines = text_of(many(count), width)
    assert len(lines) <= 40
    assert max(len(line) for line in lines) <= width


def test_every_list_is_shown_when_all_are_long() -> None:
    lines = text_of(many(40))
    for title in ("Operators by device self time", "Kernels by summed", "Modules by device self"):
        at = next(i for i, line in enumerate(lines) if line.startswith(title))
        assert lines[at + 1].startswith("  ")
    assert lines[-1] == "39 more: stepscope checks SRC"  # the first takes five lines


def test_step_times_and_throughput_say_whether_they_were_traced() -> None:
    traced = {"step": [{"step": n, "start_ns": 40_000 * n, "end_ns": 40_000 * n + 40_000, "span": 0} for n in range(5)]}
    traced["host_event"] = [{"dur_ns": 5, "span": 0}]
    phase = {"phase": "step", "span": 1}
    untraced = {
        "phase": [{**phase, "steps": 8, "mean_ns": 20_000.0}],
        "phase_step": [{**phase, "step": n, "dur_ns": 20_000} for n in range(8)],
        "step_value": [{"step": n, "name": "samples", "value": 2, "span": 1} for n in range(8)],
    }
    text = "\n".join(text_of({**traced, **untraced}, 120))
    assert "Step time  traced: mean 40.00 µs" in text
    assert "not traced: mean 20.00 µs (8 steps); traced steps take 2 times that" in text
    assert "Throughput, not traced: " in text
    assert "traced: " not in "\n".join(text_of(traced))
    assert "traced: " not in "\n".join(text_of(untraced))


def test_the_verdict_leads_and_says_where_to_look() -> None:
    rows = {
        "step": [{"step": 7, "end_ns": 1_000_000}],
        "host_event": [{"kind": "annotation", "role": "dataloader", "start_ns": 0, "dur_ns": 400_000}],
        "device_event": [{"name": "gemm", "start_ns": 400_000, "dur_ns": 600_000}],
    }
    lines = text_of(rows)
    assert lines[0].startswith("Input-bound: for 40.0 % of the step (400.0 µs)")
    assert any(line.startswith("Next: `stepscope steps`") for line in lines[1:4])
    assert "  Kernel            600.0 µs   60.0 %  " + "█" * 18 in lines
    assert "  DataLoader        400.0 µs   40.0 %  " + "█" * 12 in lines


def test_lesser_losses_are_told_without_a_name_of_their_own() -> None:
    rows = {
        "step": [{"end_ns": 1000}],
        "host_event": [{"kind": "annotation", "role": "dataloader", "dur_ns": 100}],
        "device_event": [{"start_ns": 100, "dur_ns": 900}],
    }
    lines = text_of(rows, 120)
    assert lines[0].startswith("Device-bound: kernels fill 90.0 %")
    assert lines[1].startswith("Also for 10.0 % of the step (100 ns) the device waits for the next")


def test_what_was_not_measured_is_named_and_not_shown_as_zero() -> None:
    lines = text_of({"step": [{"end_ns": 10}], "host_event": [{"name": "aten::mm", "dur_ns": 5}]})
    assert "  not recorded: Kernel, Memcpy, Memset, Runtime" in lines
    assert not any(line.startswith(("  Kernel ", "Device ")) for line in lines)


def test_activities_without_time_share_a_line() -> None:
    lines = text_of({"step": [{"end_ns": 10}], "device_event": [{"dur_ns": 5}], "host_event": [{}]})
    assert "  no time in: Memcpy, Memset, Communication, DataLoader, CPU Exec" in lines


def test_an_unreliable_verdict_carries_the_mark() -> None:
    rows = {
        "step": [{"end_ns": 10}],
        "host_event": [{"dur_ns": 9}],
        "data_check": [{"check": "zero_ts", "severity": "error", "affects": "device-times", "explanation": "x"}],
    }
    lines = text_of(rows)
    assert lines[0].startswith("⚠ Unreliable data (zero_ts)")
    assert "⚠ zero_ts: x" in lines  # there is no other rank


def test_checks_are_told_in_full_on_as_many_lines_as_they_take() -> None:
    words = " ".join(["so many events were found to be wrong"] * 5)
    checks = [{"check": f"check_{n}", "severity": "note", "explanation": words} for n in range(3)]
    rows = {"step": [{"end_ns": 10}], "host_event": [{"name": "aten::mm", "dur_ns": 5}]}
    for width in (60, 100):
        lines = text_of({**rows, "data_check": checks}, width)
        told = " ".join(line.strip() for line in lines)
        assert len(lines) <= 40
        assert max(map(len, lines)) <= width
        assert all(f"· check_{n}: {words}" in told for n in range(3))


def test_names_from_files_cannot_steer_the_terminal() -> None:
    rows = {"step": [{"end_ns": 10}], "host_event": [{"name": "evil\x1b[2J\nname", "dur_ns": 5}]}
    text = "\n".join(text_of(rows))
    assert "\x1b" not in text
    assert "evil�[2J name" in text


def test_a_number_is_not_parted_from_its_unit() -> None:
    for width in range(40, 100):
        lines = text_of(many(3), width) if width % 20 == 0 else []
        assert not any(line.lstrip().startswith(("% ", "µs", "ms", "ns")) for line in lines)
