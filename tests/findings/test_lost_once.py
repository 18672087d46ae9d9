"""Findings that count one time: the loss has it, the others say so."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.findings.kineto_trace import Recorder, training

import stepscope


def findings(folder: Path, *, checkpoint_us: int, late_us: int = 0) -> dict[str, dict[str, Any]]:
    """Of eleven steps that all wait for a value halfway; a checkpoint is written behind the sixth wait, and some work is
    launched late in each step."""
    waits = iter(range(11))

    def step(recorder: Recorder) -> None:
        for part in (60, 20):
            for _ in range(part):
                with recorder.operator("aten::mm", [[64, 64], [64, 64]]):
                    recorder.kernel("ampere_h16816gemm_128x128", 40)
            if part == 60:
                recorder.wait()
                if next(waits) == 5:
                    with recorder.range("save checkpoint"):
                        recorder.now += checkpoint_us
                recorder.now += late_us

    (folder / "trace.json").write_text(json.dumps(training(step, steps=11)))
    with stepscope.open(folder / "trace.json") as trace:
        return {row["id"]: row for row in trace.ask("findings").rows()}


def test_one_checkpoint_is_one_loss_whichever_findings_count_it(tmp_path: Path) -> None:
    found = findings(tmp_path, checkpoint_us=30_000)
    assert {"single-gaps", "uneven-steps", "synchronization"} <= set(found)
    assert "also counted" not in found["single-gaps"]["advice"]
    assert "3.001 ms of it is also counted in `single-gaps`." in found["uneven-steps"]["advice"]
    assert "2.730 ms of it is also counted in `single-gaps`." in found["synchronization"]["advice"]
    assert found["synchronization"]["value"] == pytest.approx(2.756e6, rel=1e-3)
    assert found["synchronization"]["title"].endswith("of the step (2.756 ms), 99.0 % of it after a single call")


def test_waits_that_no_other_finding_counts_are_told_without_a_word_more(tmp_path: Path) -> None:
    found = findings(tmp_path, checkpoint_us=0, late_us=90)
    assert "single call" not in found["synchronization"]["title"]
    assert not any("also counted" in row["advice"] for row in found.values())
