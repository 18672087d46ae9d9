"""Ranking, silence, the rules' declarations, and the rules about the recording itself."""

from pathlib import Path
from typing import Any

import pytest
from tests.findings.job import A100, V100, Job

import stepscope.findings.rules
from stepscope.base.errors import UsageError
from stepscope.findings.rules import ALL, OURS, QUICK, all_rules, quick
from stepscope.findings.rules.data_quality import _QUESTIONS
from stepscope.schema.tables import TABLES

PARTS_OF_A_STORE = ({}, {"step": [{"end_ns": 0}]}, {"host_event": [{"name": "aten::mm", "dur_ns": 5}]})


def test_every_rule_is_declared_in_full() -> None:
    rules = all_rules()
    assert [rule.id for rule in rules] == list(OURS)
    for rule in rules:
        assert rule.looks_for.endswith(".")
        assert len(rule.explanation) > 80
        assert rule.thresholds
        assert all(threshold.source for threshold in rule.thresholds)


def test_the_quick_rules_are_rules() -> None:
    assert [rule.id for rule in quick()] == list(OURS)[: len(QUICK)]
    assert set(QUICK) <= set(ALL)


def test_no_two_rules_find_the_same_loss_and_no_file_is_left_out() -> None:
    names = [rule.id for rule in all_rules()]
    assert len(names) == len(set(names))
    files = Path(stepscope.findings.rules.__file__).parent.glob("[a-z]*.py")
    assert {file.stem for file in files} == {place.partition(".")[0] for place in ALL}


@pytest.mark.parametrize("rows", PARTS_OF_A_STORE)
def test_where_there_is_next_to_nothing_that_alone_is_found(findings: Any, rows: Any) -> None:
    assert [row["id"] for row in findings(rows)] == ["nothing-recorded"]


def test_counters_alone_are_named_in_place_of_nothing(findings: Any) -> None:
    (row,) = findings({"counter": [{"track": "power", "kind": "power", "value": 250.0}]})
    assert row["title"] == (
        "No steps recorded: there is no operator, device event or phase to judge by, but counters over time"
    )
    assert row["advice"] == "`stepscope counters` for counters over time."


def test_every_measurement_has_a_question() -> None:
    measured = {table.name for table in TABLES.values() if table.measures}
    assert set(_QUESTIONS) == measured - {"memory_block", "phase"}  # these are judged by rules of their own


def test_events_measured_inline_are_named_in_place_of_nothing(findings: Any) -> None:
    timing = {"label": "fc1.forward", "iteration": 0, "clock": "host", "dur_ns": 10}
    (row,) = findings({"inline_timing": [timing]})
    assert row["title"].endswith("to judge by, but the events that the job measured inline")
    assert "`stepscope inline`" in row["advice"]


def test_an_unknown_rule_is_told(findings: Any) -> None:
    with pytest.raises(UsageError, match="no rule 'input-bond'") as told:
        findings({}, "input_bond")
    assert "input-bound" in str(told.value.hint)


def test_a_busy_device_on_tensor_cores_has_no_finding(findings: Any) -> None:
    product = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
    job = Job(steps=5, device=A100)
    job.kernel(product, 950_000, operator="aten::mm", blocks_per_sm=8.0, occupancy_ratio=0.12)
    (row,) = findings(job.rows())
    assert (row["id"], row["severity"], row["value"]) == ("device-bound", "note", 0.95)


def test_unreliable_data_comes_first_then_the_verdict_then_the_larger_saving(findings: Any) -> None:
    job = Job(steps=3, device=V100).kernel("volta_sgemm_128x64_nn", 850_000, operator="aten::mm")
    job.event("enumerate(DataLoader)#_Iter.__next__", 850_000, 100_000, role="dataloader")
    rows = job.rows()
    rows["data_check"] = [{"check": "zero_ts", "severity": "error", "count": 3, "affects": "device-times"}]
    found = findings(rows)
    ids = ["data-quality", "device-bound", "amp-off", "input-bound"]
    assert [row["id"] for row in found] == ids
    assert (found[0]["severity"], found[0]["value"]) == ("high", 1)
    assert found[3]["confidence"] == "low"


def test_device_work_alone_is_enough_for_rules_about_kernels(findings: Any) -> None:
    rows = Job(steps=1, device=V100).kernel("volta_scudnn_128x64_relu_interior_nn_v1", 600_000).rows()
    rows["host_event"], rows["step"] = [], []
    for row in rows["device_event"]:
        for name in ("step", "launch_id"):
            row.pop(name, None)
    rows["step"] = [{"rule": "whole recording", "end_ns": 600_000}]
    first, row = findings(rows)
    assert first["id"] == "device-only"
    assert (row["id"], row["per"], row["value"]) == ("amp-off", "recording", 600_000)


def test_incomplete_steps_do_not_count(findings: Any) -> None:
    rows = Job(steps=3, device=V100).kernel("volta_sgemm_128x64_nn", 600_000, operator="aten::mm").rows()
    for row in rows["device_event"]:
        if row["step"] == 2:
            row["dur_ns"] *= 2
    rows["step"][2]["complete"] = False
    for row in rows["step"][:2]:
        row["complete"] = True
    (row,) = findings(rows, "amp-off")
    assert row["value"] == 600_000


def test_chosen_steps_alone_are_looked_at(findings: Any) -> None:
    rows = Job(steps=2, device=V100).kernel("volta_sgemm_128x64_nn", 600_000, operator="aten::mm").rows()
    rows["device_event"] = [r for r in rows["device_event"] if r["step"] == 0 or r["name"] == "filler"]
    assert findings(rows, "amp-off", steps=[1]) == []
    (row,) = findings(rows, "amp-off", steps=[0])
    assert row["value"] == 600_000
