"""What holds a job back, from the phases that it measured of itself."""

from itertools import chain
from typing import Any

import pytest

MS = 1_000_000
MIB = 2**20


def phases(rank: int = 0, device: float | None = None, **parts: Any) -> list[dict[str, Any]]:
    """A step of 100 ms: what is not given goes to forward, backward and optimizer. Columns of the
    whole step are given as `step`; `device` is the device's time in those three (ms)."""
    given = {name: parts.get(name, 0) for name in ("input_wait", "host_to_device", "residual")}
    left = 100 - sum(given.values())
    compute = {"forward": 0.3, "backward": 0.6, "optimizer": 0.1}
    rows = [{"phase": name, "mean_ns": time * MS} for name, time in given.items()]
    rows += [
        {"phase": name, "mean_ns": left * part * MS, "device_mean_ns": None if device is None else device * part * MS}
        for name, part in compute.items()
    ]
    whole = {"phase": "step", "mean_ns": 100.0 * MS, **parts.get("step", {})}
    return [{"rank": rank, "steps": 100, **row} for row in (whole, *rows)]


@pytest.fixture
def names(findings: Any) -> Any:
    return lambda *ranks: [row["id"] for row in findings({"phase": [*chain(*ranks)]})]


@pytest.mark.parametrize(("device_ms", "name"), [(90, "compute-bound"), (30, "phases-only"), (None, "phases-only")])
def test_only_a_device_that_is_timed_makes_a_step_of_its_phases_compute_bound(
    findings: Any, device_ms: float | None, name: str
) -> None:
    (row,) = findings({"phase": phases(device=device_ms)})
    assert (row["id"], row["severity"], row["value"]) == (name, "note", 1.0)
    assert "backward and optimizer fill 100.0 % of the step (100.0 ms)" in row["title"]
    assert ("Compute-bound" in row["title"]) is (name == "compute-bound")


def test_waiting_for_batches_is_input_bound_with_its_time(findings: Any) -> None:
    (row,) = findings({"phase": phases(input_wait=50)})
    assert (row["id"], row["value"], row["severity"]) == ("input-bound", 0.5, "high")
    assert "50.0 % of the step (50.00 ms) training waits" in row["title"]
    assert (row["saving_low_ns"], row["saving_high_ns"], row["per"]) == (0, 50 * MS, "step")
    assert row["evidence"][0]["dataloader_ns"] == 50 * MS


def test_the_largest_share_comes_first(names: Any) -> None:
    assert names(phases(input_wait=20, residual=30)) == ["residual", "input-bound"]


def test_phases_are_judged_by_the_thresholds_of_traces(names: Any) -> None:
    assert names(phases(input_wait=5)) == ["phases-only"]
    assert names(phases(input_wait=6)) == ["phases-only", "input-bound"]
    assert names(phases(host_to_device=6)) == ["phases-only", "copy-bound"]
    assert names(phases(host_to_device=16)) == ["copy-bound"]


@pytest.mark.parametrize(
    ("pageable", "says", "advises"),
    [(MIB / 2, "50.0 % of it from memory that is not pinned", "Pin the loader"),
     (0, "0.0 % of it", "Copy less")],
)  # fmt: skip
def test_copies_say_what_is_copied_and_from_what_memory(
    findings: Any, pageable: float, says: str, advises: str
) -> None:
    copied = {"copied_bytes": float(MIB), "pageable_bytes": float(pageable)}
    (row,) = findings({"phase": phases(host_to_device=16, step=copied)})
    assert "1.000 MiB a step" in row["title"]
    assert says in row["title"]
    assert row["advice"].startswith(advises)


def timed(exposed: float, backward: float, every: float = 1) -> dict[str, Any]:
    return {
        "communication_ns": every * exposed * MS,
        "exposed_communication_ns": every * exposed * MS,
        "timed_backward_ns": every * backward * MS,
    }


def test_only_communication_that_nothing_hides_counts(names: Any) -> None:
    assert names(phases(step=timed(5, 60))) == ["phases-only"]
    assert names(phases(step=timed(40, 60))) == ["communication-bound"]


def test_all_reduce_that_ddp_timed_in_slow_first_steps_is_a_part_of_todays_backward(findings: Any) -> None:
    (row,) = findings({"phase": phases(step=timed(50, 60, every=10))})
    assert row["value"] == pytest.approx(0.6 * 5 / 6)
    assert "(50.00 ms)" in row["title"]


def ran_dry(steps: int, device: float, **parts: Any) -> list[dict[str, Any]]:
    return phases(device=device, step={"checked_steps": 100, "idle_steps": steps}, **parts)


def test_a_device_that_waits_for_the_host_is_host_bound(findings: Any) -> None:
    (row,) = findings({"phase": ran_dry(95, 100)})
    assert (row["id"], row["saving_high_ns"]) == ("host-bound", None)
    assert "in 95.0 % of the steps" in row["title"]


def test_a_device_that_is_behind_the_host_is_not(names: Any) -> None:
    assert names(ran_dry(3, 100)) == ["compute-bound"]


def test_a_device_that_is_slower_than_the_host_is_not_host_bound_when_the_job_waits_for_it(names: Any) -> None:
    # The job reads its loss every step: the device is always idle when asked, but not for want of work.
    assert names(ran_dry(95, 180, residual=10)) == ["compute-bound"]


def memory(*samples: int) -> list[dict[str, Any]]:
    return [{"step": 10 * k, "dur_ns": 1, "memory_bytes": size} for k, size in enumerate(samples, 1)]


def test_memory_that_grows_on_is_found_with_its_rate(findings: Any) -> None:
    rows = memory(*(10**9 + 10**6 * k for k in range(60)))
    _, growth = findings({"phase": phases(), "phase_step": rows})
    assert (growth["id"], growth["rank"], growth["value"]) == ("growing-memory", 0, 4e7)
    assert "about 97.66 KiB a step" in growth["title"]


def test_memory_that_levels_off_is_a_cache_filling_up(findings: Any) -> None:
    rows = memory(*(10**9 + 10**7 * min(k, 20) for k in range(60)))
    assert len(findings({"phase": phases(), "phase_step": rows})) == 1


def test_waiting_for_the_first_batch_of_every_epoch_is_found_beside_the_rest(findings: Any) -> None:
    waits = {"first_batch_ns": 500.0 * MS, "first_batches": 2}
    _, start = findings({"phase": phases(step=waits)})
    assert (start["id"], start["value"]) == ("slow-first-batch", 0.1)
    assert "takes 500.0 ms; in 2 epochs that adds 10.0 %" in start["title"]


def test_one_slow_start_or_short_ones_are_not_worth_words(names: Any) -> None:
    for mean, epochs in ((5000.0, 1), (100.0, 4)):
        waits = {"first_batch_ns": mean * MS, "first_batches": epochs}
        assert names(phases(step=waits)) == ["phases-only"]


def test_a_late_rank_is_a_finding_of_that_rank(findings: Any) -> None:
    ranks = [*phases(0), *phases(1, input_wait=30)]
    first, *_ = findings({"phase": ranks})
    assert (first["id"], first["rank"], first["saving_high_ns"]) == ("straggling-rank", 1, 30 * MS)


def test_phases_beside_a_trace_leave_the_losses_to_the_trace(findings: Any) -> None:
    rows = {"phase": phases(host_to_device=50), "host_event": [{"dur_ns": 5}]}
    assert "copy-bound" not in [row["id"] for row in findings(rows)]


def traced(dataloader_ms: int, *, kernel_ms: int = 0) -> dict[str, Any]:
    """A trace of four steps of 100 ms, whose loader takes so long in each; beside phases, as their span 1."""
    loads, works, steps = [], [], []
    for at in range(4):
        start = at * 100 * MS
        loader = {"kind": "operator", "name": "enumerate(DataLoader)#_Iter.__next__", "role": "dataloader"}
        loads.append({**loader, "start_ns": start, "dur_ns": dataloader_ms * MS, "id": 2 * at, "span": 1})
        rest = (100 - dataloader_ms) * MS
        mm = {"kind": "operator", "name": "aten::mm", "role": None, "dur_ns": rest, "id": 2 * at + 1, "span": 1}
        loads.append({**mm, "start_ns": start + dataloader_ms * MS})
        work = {"kind": "computation", "name": "k", "dur_ns": kernel_ms * MS, "id": at, "step": at, "span": 1}
        works.append({**work, "start_ns": start + (100 - kernel_ms) * MS})
        steps.append({"step": at, "start_ns": start, "end_ns": start + 100 * MS, "rule": "ProfilerStep",
                      "complete": True, "span": 1})  # fmt: skip
    return {"host_event": loads, "step": steps, "device_event": works if kernel_ms else []}


def test_a_loader_that_the_profiler_slows_is_judged_by_the_steps_without_it(findings: Any) -> None:
    slow_in_the_trace = {"phase": phases(input_wait=2), **traced(40)}
    assert findings(slow_in_the_trace, "input-bound") == []
    (row,) = findings({"phase": phases(input_wait=30), **traced(2)}, "input-bound")
    assert row["title"] == (
        "Input-bound: for 30.0 % of a step that is not traced (30.00 ms) training waits for the next batch of the "
        "DataLoader"
    )
    assert (row["saving_high_ns"], row["query"]) == (30 * MS, "stepscope phases SRC")
    assert row["evidence"] == [{"rank": 0, "steps": 100, "dataloader_ns": 30 * MS, "step_ns": 100 * MS}]


def test_what_rests_on_steps_that_are_not_traced_is_a_part_of_these(findings: Any, answer: Any) -> None:
    """The traced steps, of 100 ms, are shorter than the loss in the others."""
    own = [{"rank": 0, "steps": 100, "phase": name, "mean_ns": ms * MS}
           for name, ms in (("step", 400.0), ("input_wait", 300.0), ("residual", 100.0))]  # fmt: skip
    rows = {"phase": own, **traced(2)}
    (row,) = findings(rows, "input-bound")
    assert (row["saving_high_ns"], row["saving_share_ratio"]) == (300 * MS, 0.75)
    assert row["per"] == "step that is not traced"
    (row,) = findings(rows, "residual")
    assert (row["saving_high_ns"], row["saving_share_ratio"]) == (100 * MS, 0.25)
    assert "25.0 % of a step that is not traced (100.0 ms)" in row["title"]
    verdict, *_ = answer("summary", rows).rows()
    assert (verdict["time_ns"], verdict["share_ratio"]) == (300 * MS, 0.75)


def test_a_host_that_waits_while_the_device_computes_is_judged_by_the_trace(findings: Any) -> None:
    rows = {"phase": phases(input_wait=30), **traced(30, kernel_ms=95)}
    assert findings(rows, "input-bound") == []


def kept(*lengths_ms: int, **parts: int) -> list[dict[str, Any]]:
    """Kept steps of these lengths; of the longest, `parts` are so long, and forward is the rest as of all."""
    longest = max(lengths_ms)
    rows = []
    for number, ms in enumerate(lengths_ms, 1):
        own = parts if ms == longest else {}
        times = {"step": ms, **dict.fromkeys(parts, 0), **own, "forward": ms - sum(own.values())}
        rows += [{"step": number, "phase": name, "dur_ns": one * MS} for name, one in times.items()]
    return rows


def test_steps_of_the_run_that_take_much_longer_are_found(findings: Any) -> None:
    """Beside a trace of other steps, too."""
    steps = kept(*[100] * 30, 500, *[100] * 30, residual=400)
    for trace in ({}, traced(2)):
        (row,) = findings({"phase": phases(), "phase_step": steps, **trace}, "uneven-steps")
        assert row["title"] == (
            "Steps are uneven: step 31 of the run takes 500.0 ms, the median 100.0 ms; the extra time is time outside the phases"
        )
        assert (row["value"], row["rank"]) == (pytest.approx(400 / 61 / 100), 0)
    even = kept(*[100] * 30, 500, *[100] * 60)
    assert findings({"phase": phases(), "phase_step": even}, "uneven-steps") == []


def test_a_loss_in_every_tenth_step_stays_a_loss(findings: Any) -> None:
    steps = kept(*([100] * 9 + [1_000]) * 10, residual=900)
    rows = [
        {"rank": 0, "steps": 100, "phase": name, "mean_ns": ms * MS}
        for name, ms in (("step", 190.0), ("forward", 100.0), ("residual", 90.0))
    ]
    first, *_ = findings({"phase": rows, "phase_step": steps})
    assert (first["id"], first["value"]) == ("residual", pytest.approx(90 / 190))


@pytest.mark.parametrize(
    "ranks",
    [
        phases(),
        phases(input_wait=6),
        phases(residual=30, input_wait=20),
        [*phases(0), *phases(1, input_wait=30)],
        phases(step=timed(40, 60)),
    ],
)
def test_summary_phases_and_findings_say_the_same(answer: Any, ranks: Any) -> None:
    first = answer("findings", {"phase": ranks}).rows()[0]
    verdict, then = (row for row in answer("summary", {"phase": ranks}).rows()[:2])
    of_phases = answer("phases", {"phase": ranks}, by="verdict").rows()[0]
    assert first["title"] == verdict["text"] == of_phases["evidence"]
    assert first["advice"] == then["text"] == of_phases["next_step"]
    assert first["value"] == verdict["share_ratio"] == of_phases["share_ratio"]
    assert first["id"] == verdict["item"] == of_phases["kind"]
    assert f"Verdict: {first['title']}. Next: " in answer("phases", {"phase": ranks}).note


STACKS = {
    "stack_sample": [
        {"stack_id": 0, "phase": "residual", "weight": 18, "thread": 0},
        {"stack_id": 1, "phase": "residual", "weight": 6, "thread": 0},
        {"stack_id": 1, "phase": "forward", "weight": 90, "thread": 0},
    ],
    "call_stack": [
        {"stack_id": 0, "frames": "data.py(6): get_batch;train.py(30): main"},
        {
            "stack_id": 1,
            "frames": "torch/_C.py(1): norm;torch/nn/utils/clip_grad.py(9): clip_grad_norm_;"
            "torch/utils.py(4): no_grad.<locals>.wrapper;train.py(33): main",
        },
    ],
}


def test_the_residual_names_the_lines_that_samples_fell_in(findings: Any) -> None:
    (row, *_) = findings({"phase": phases(residual=40), **STACKS}, "residual")
    assert "of its 24 samples 18 in get_batch (data.py:6), 6 in main (train.py:33)" in row["title"]
    assert row["title"].endswith("in clip_grad_norm_")
    assert "logging" not in row["title"].lower()
    assert {"text": "get_batch (data.py:6)", "samples": 18} in row["evidence"]
    assert "hotspots" in row["advice"]


def test_the_residual_names_hooks_of_frameworks_in_place_of_the_line_that_calls_them(findings: Any) -> None:
    lightning = "lightning/pytorch/trainer/call.py(227): _call_callback_hooks;lightning/pytorch/loops/training_epoch_loop.py(3): "
    lightning += "_TrainingEpochLoop.advance;lightning/pytorch/trainer/trainer.py(5): Trainer.fit;train.py(30): main"
    trainer = (
        "transformers/trainer.py(9): Trainer._run_epoch;transformers/trainer.py(7): Trainer.train;train.py(30): main"
    )
    hooks = {
        f"json/encoder.py(4): dumps;lightning/pytorch/callbacks/timer.py(9): Timer.on_train_batch_end;{lightning}":
            "Timer.on_train_batch_end (lightning/pytorch/callbacks/timer.py)",
        f"net.py(8): Net.on_train_batch_end;{lightning}": "Net.on_train_batch_end (net.py:8)",
        f"transformers/trainer.py(2): Trainer._maybe_log_save_evaluate;{trainer}":
            "Trainer._maybe_log_save_evaluate (transformers/trainer.py)",
        "accelerate/accelerator.py(6): Accelerator.gather;train.py(30): main": "main (train.py:30), in Accelerator.gather",
    }  # fmt: skip
    rows = {
        "stack_sample": [{"stack_id": at, "phase": "residual", "weight": 30, "thread": 0} for at in range(len(hooks))],
        "call_stack": [{"stack_id": at, "frames": text} for at, text in enumerate(hooks)],
    }
    (row, *_) = findings({"phase": phases(residual=40), **rows}, "residual")
    assert {one["text"] for one in row["evidence"] if "text" in one} == set(hooks.values())


def test_few_samples_name_nothing(findings: Any) -> None:
    few = [{**row, "weight": 3} for row in STACKS["stack_sample"]]
    (row,) = findings({"phase": phases(residual=40), **STACKS, "stack_sample": few}, "residual")
    assert "samples" not in row["title"]
    assert "record --stack" in row["advice"]


def test_what_recorded_stacks_is_not_advised_where_there_are_some(findings: Any) -> None:
    frame = [{"kind": "python", "name": "a.py(9): main", "start_ns": 0, "dur_ns": 10, "id": 0, "span": 1}]
    (row,) = findings({"phase": phases(residual=40), "host_event": frame}, "residual")
    assert "hotspots" in row["advice"]
    assert "--stack" not in row["advice"]


def test_the_residual_of_the_run_is_found_beside_a_trace_without_a_device(findings: Any) -> None:
    """And not beside one with a device, which may be busy meanwhile."""
    host = [{"kind": "operator", "name": "aten::mm", "start_ns": 0, "dur_ns": 10, "id": 0}]
    step = [{"step": 1, "start_ns": 0, "end_ns": 100, "rule": "ProfilerStep"}]
    trace = {"host_event": [{**host[0], "span": 1}], "step": [{**step[0], "span": 1}]}
    work = {"kind": "kernel", "name": "k", "start_ns": 5, "dur_ns": 90, "id": 0, "span": 1}
    for device, found in (([], True), ([work], False)):
        rows = {"phase": phases(residual=40), **trace, "device_event": device}
        assert bool(findings(rows, "residual")) is found
