import json

import pytest
from tests.literal import literal_store

from stepscope.analysis.job.throughput import throughput_words
from stepscope.api.comparisons import diff
from stepscope.api.trace import Trace
from stepscope.compare.sides import phase_means


def phases(*durations, rank=0, **values):
    """Steps of one rank with their numbers by name: one for all steps."""
    steps = list(enumerate(durations, 1))
    return {
        "phase": [
            {"rank": rank, "phase": "step", "steps": len(steps), "mean_ns": sum(durations) / len(steps)}
        ],
        "phase_step": [
            {"rank": rank, "step": step, "phase": "step", "dur_ns": ns} for step, ns in steps
        ],
        "step_value": [
            {"rank": rank, "step": step, "name": name, "value": value}
            for name, value in values.items()
            for step, _ in steps
        ],
    }  # fmt: skip


def test_a_rate_is_the_sum_of_numbers_by_the_sum_of_times(diff):
    rows = phases(1_000_000_000, 3_000_000_000, samples=32, tokens=4000)
    diff("throughput", rows, """
        name,ranks,steps,per_step,step_ns,per_second
        samples,1,2,32.0,2000000000.0,16.0
        tokens,1,2,4000.0,2000000000.0,2000.0
    """)  # fmt: skip


def test_long_steps_that_are_seldom_are_in_every_mean(answer, make_scope):
    """Two steps were timed, of 10 ns each; those between were longer."""
    rows = phases(10, 10, samples=1)
    for row, of in zip(rows["phase_step"], (40, 60), strict=True):
        row.update(weight=50, weight_ns=50 * of)
    rows["phase"] = [{"phase": "step", "steps": 100, "mean_ns": 50.0}]
    (row,) = answer("throughput", rows).rows()
    assert (row["step_ns"], row["per_second"]) == (50.0, 2e7)
    assert answer("phases", rows, steps=(1,)).rows()[0]["mean_ns"] == 40
    whole = phase_means(make_scope(rows))[0][0]
    assert (whole.mean_ns, whole.samples, round(whole.std_ns, 3)) == (50, 2, 14.142)
    beside = {"span": 1, "kind": "iteration", "armed": False, "label": "iteration", "dur_ns": 10}
    assert answer("inline", {**rows, "inline_timing": [beside]}).rows()[0]["mean_ns"] == 50


def test_steps_that_all_take_the_same_have_an_interval_of_nothing_and_one_step_has_none(answer):
    (row,) = answer("throughput", phases(10, 10, 10, samples=1)).rows()
    assert row["ci95_low_per_second"] == row["ci95_high_per_second"] == row["per_second"] == 1e8
    (row,) = answer("throughput", phases(10, samples=1)).rows()
    assert row["ci95_low_per_second"] is None


def test_an_interval_that_reaches_below_zero_is_not_told_as_one(answer, make_scope):
    assert throughput_words(make_scope(phases(10, 10_000, samples=1))) == (
        "Throughput: 199\u202f800 samples/s (1 in a step; too few steps for an interval)."
    )
    (row,) = answer("throughput", phases(10, 10_000, samples=1)).rows()
    assert (row["ci95_low_per_second"], row["ci95_high_per_second"] > 199_800) == (0.0, True)


def test_ranks_add_up_and_so_does_what_is_unsure(answer):
    one, two = phases(10, 12, 14, samples=4), phases(10, 12, 14, rank=1, samples=4)
    rows = {table: one[table] + two[table] for table in one}
    (both,) = answer("throughput", rows).rows()
    (first, second) = answer("throughput", rows, by="rank").rows()
    assert (both["ranks"], both["per_step"]) == (2, 8)
    assert both["per_second"] == first["per_second"] + second["per_second"]
    assert both["ci95_low_per_second"] == pytest.approx(2 * first["ci95_low_per_second"])
    assert "share a batch" in answer("throughput", rows).note
    assert "Throughput of 2 ranks together: " in answer("phases", rows).note


def test_of_inline_measurements_iterations_in_which_nothing_was_measured_count(diff):
    iteration = {"kind": "iteration", "label": "iteration"}
    rows = {
        "inline_timing": [
            {**iteration, "iteration": 1, "armed": True, "dur_ns": 900},
            {**iteration, "iteration": 2, "armed": False, "dur_ns": 500},
        ],
        "step_value": [{"iteration": n, "name": "samples", "value": 8} for n in (1, 2)],
    }
    diff("throughput", rows, "name,steps,step_ns,per_second\nsamples,1,500.0,16000000.0")


def test_values_of_hugectr_have_no_iteration_and_count_for_one_of_the_mean_time(diff):
    iteration = {"kind": "iteration", "label": "iteration"}
    rows = {
        "inline_timing": [{**iteration, "dur_ns": ns} for ns in (400, 600)],
        "step_value": [{"name": "samples", "value": value} for value in (10, 20, 30)],
    }
    diff("throughput", rows, "name,steps,per_step,per_second\nsamples,3,20.0,40000000.0")


def test_steps_of_a_trace_that_were_cut_off_do_not_count(diff):
    rows = {
        "step": [
            {"step": 1, "start_ns": 0, "end_ns": 1000},
            {"step": 2, "start_ns": 1000, "end_ns": 1300, "complete": False},
        ],
        "step_value": [{"step": n, "name": "samples", "value": 4} for n in (1, 2)],
    }
    diff("throughput", rows, "name,steps,per_second\nsamples,1,4000000.0")


def compared(before, after):
    with Trace(literal_store(before)) as one, Trace(literal_store(after)) as other:
        return diff(one, other).note.splitlines()[1:]


def test_recordings_with_other_batches_are_compared_per_sample():
    ms = 1_000_000
    before = phases(*[10 * ms] * 3, samples=16)
    after = phases(*[15 * ms] * 3, samples=32)
    assert compared(before, after) == [
        "samples/s: 1\u202f600 ± 0 → 2\u202f133 ± 0 (+33.3 % ± 0.0 %).",
        "Batches differ (16 and 32 samples of a rank in a step), and so does the work of a step: per "
        "sample a rank's step takes 625.0 µs → 468.8 µs (-25.0 % ± 0.0 %).",
    ]
    assert compared(before, before) == ["samples/s: 1\u202f600 ± 0 → 1\u202f600 ± 0 (0.0 % ± 0.0 %, no clear change)."]


def test_a_rate_of_steps_that_do_not_agree_has_no_interval():
    (words,) = compared(phases(10, 10, 10, samples=16), phases(1, 10, 500, samples=16))
    assert words.endswith(", too few steps for an interval).")
    assert words.count("too few steps for an interval") == 2
    assert "±" not in words.rpartition("→")[2]


def test_settings_that_differ_are_listed_and_a_variable_that_is_not_set_is_one():
    def run(**settings):
        metadata = '{"settings": {"torch": "2.9", "cudnn.benchmark": %s, "environment": {%s}}}'
        flag, variables = (
            settings.pop("benchmark"),
            ", ".join(f'"{name}": "{value}"' for name, value in settings.items()),
        )
        source = [{"path": "a", "tool": "stepscope", "metadata": metadata % (flag, variables)}]
        return {**phases(10, 10), "source": source}

    before = run(benchmark="false", NCCL_ALGO="Ring", NCCL_DEBUG="WARN")
    after = run(benchmark="true", NCCL_ALGO="Tree")
    assert compared(before, after) == [
        "Recorded with other settings: NCCL_ALGO Ring → Tree, NCCL_DEBUG WARN → not set, cudnn.benchmark off → on."
    ]
    assert compared(before, before) == ["Their settings, as far as recorded, are the same."]


def test_how_batches_are_loaded_is_a_setting():
    def run(**loader):
        metadata = json.dumps({"settings": {"torch": "2.9", "threads": 1, **loader}})
        return {**phases(10, 10), "source": [{"path": "a", "metadata": metadata}]}

    before = run(num_workers=0, persistent_workers=False, prefetch_factor=None)
    after = run(num_workers=2, persistent_workers=True, prefetch_factor=4)
    assert compared(before, after) == [
        "Recorded with other settings: num_workers 0 → 2, persistent_workers off → on, prefetch_factor None → 4."
    ]


def test_what_only_one_recorder_states_is_no_difference():
    kineto = {**phases(10, 10), "source": [{"path": "a", "metadata": '{"with_stack": 1, "record_shapes": 1}'}]}
    other = {**phases(10, 10), "source": [{"path": "a", "metadata": '{"with_stack": 0, "x": []}'}]}
    assert compared(kineto, other) == ["Recorded with other settings: with_stack on → off."]
