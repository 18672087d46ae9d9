"""How runs scale, by hand: efficiency, serial part, what is beyond ideal, the next doubling."""

import math

import pytest

from stepscope.base.statistics import student_t
from stepscope.compare.runs import compare, run_of

N = 2000


def run(ranks, half=None, **labels):
    """A run whose means have a 95 % interval of twice `half`."""
    std = None if half is None else half * math.sqrt(N) / student_t(N - 1)
    rows = [
        {"kind": "iteration" if label == "iteration" else "event", "label": label, "occurrence": 0, "rank": rank,
         "mean_ns": mean, "n": N, "std_ns": std, "start_index": place, "inside": None}
        for place, (label, mean) in enumerate(labels.items())
        for rank in range(ranks)
    ]  # fmt: skip
    return run_of(f"{ranks} ranks", ranks, rows)


def of(rows, label, ranks):
    (row,) = (row for row in rows if (row["label"], row["ranks"]) == (label, ranks))
    return row


def test_karp_and_flatts_serial_fraction_of_amdahls_law_is_its_serial_part():
    """A tenth of 1000 is serial: 100 + 900 / ranks."""
    runs = [run(ranks, iteration=100 + 900 / ranks) for ranks in (1, 2, 4, 8)]
    rows = compare(runs, mode="strong", below=0.8)
    for ranks in (2, 4, 8):
        assert of(rows, "iteration", ranks)["serial_ratio"] == pytest.approx(0.1)
    assert of(rows, "iteration", 8)["efficiency_ratio"] == pytest.approx(1000 / 212.5 / 8)
    assert of(rows, "iteration", 8)["over_ideal_ns"] == pytest.approx(212.5 - 125)
    assert "serial_ratio" not in of(rows, "iteration", 1)


def test_gustafsons_serial_part_of_weak_scaling():
    """Of an iteration of 100 a fifth takes twice as long on two ranks, as if it had to be done one after the other."""
    rows = compare([run(1, iteration=100), run(2, iteration=120)], mode="weak", below=0.8)
    speedup = 2 * 100 / 120
    assert of(rows, "iteration", 2)["serial_ratio"] == pytest.approx(2 - speedup)


def test_a_serial_part_beyond_all_of_the_work_is_none():
    rows = compare([run(1, a=100, b=100), run(2, a=300, b=40)], mode="weak", below=0.8)
    assert "serial_ratio" not in of(rows, "a", 2)
    assert "serial_ratio" not in of(rows, "b", 2)


def test_what_is_all_serial_but_for_noise_is():
    rows = compare([run(1, half=2, a=100), run(2, half=2, a=101)], mode="strong", below=0.8)
    row = of(rows, "a", 2)
    assert (row["serial_ratio"], row["serial_high_ratio"]) == (1.0, 1.0)
    assert row["serial_low_ratio"] < 1


def test_the_interval_of_an_efficiency_is_that_of_the_change_as_diff_has_it():
    """100 ± 3 and 125 ± 4 differ by 25 ± 5, so that it is 100 / 130 to 100 / 120; with the ranks shared, half."""
    runs = [run(1, half=3, fc=100), run(2, half=4, fc=125)]
    row = of(compare(runs, mode="weak", below=0.8), "fc", 2)
    assert row["efficiency_ratio"] == 0.8
    assert row["efficiency_low_ratio"] == pytest.approx(100 / 130, rel=1e-3)
    assert row["efficiency_high_ratio"] == pytest.approx(100 / 120, rel=1e-3)
    shared = of(compare(runs, mode="strong", below=0.8), "fc", 2)
    assert shared["efficiency_low_ratio"] == pytest.approx(50 / 130, rel=1e-3)
    assert row["serial_low_ratio"] < row["serial_ratio"] < row["serial_high_ratio"]


def test_an_average_that_may_be_nothing_bounds_no_efficiency_from_above():
    row = of(compare([run(1, half=1, fc=100), run(2, half=200, fc=150)], mode="weak", below=0.8), "fc", 2)
    assert row["efficiency_high_ratio"] == math.inf
    assert row["stops_at_ranks"] is None


def test_what_is_never_a_hundredth_of_the_iteration_stops_nowhere():
    runs = [run(1, iteration=1000, tiny=1, small=11), run(2, iteration=1000, tiny=9, small=22)]
    rows = compare(runs, mode="weak", below=0.8)
    assert {row["label"]: row["stops_at_ranks"] for row in rows} == {"iteration": None, "tiny": None, "small": 2}


def test_parts_beyond_ideal_add_up_to_the_iterations():
    runs = [
        run(1, iteration=100, computation=90, communication=0, idle=10),
        run(4, iteration=45, computation=23, communication=12, idle=10),
    ]
    rows = compare(runs, mode="strong", below=0.8)
    parts = [of(rows, label, 4)["over_ideal_ns"] for label in ("computation", "communication", "idle")]
    assert sum(parts) == of(rows, "iteration", 4)["over_ideal_ns"] == 20


def test_what_only_comes_with_more_ranks_has_no_efficiency_and_stops_nowhere():
    runs = [run(1, communication=0), run(2, communication=50)]
    row = of(compare(runs, mode="weak", below=0.8), "communication", 2)
    assert row["weak_efficiency_ratio"] is row["stops_at_ranks"] is None


@pytest.mark.parametrize(
    ("mode", "time", "model"),
    [
        ("strong", lambda ranks: 100 + 900 / ranks, "t = a + b / ranks"),
        ("weak", lambda ranks: 100 + 10 * math.log2(ranks), "t = a + b log2(ranks)"),
        ("weak", lambda ranks: 100 + 50 * (1 - 1 / ranks), "t = a + b (1 - 1/ranks)"),
    ],
)
def test_the_next_doubling_of_what_a_model_describes_is_exact(mode, time, model):
    runs = [run(ranks, iteration=time(ranks)) for ranks in (1, 2, 4)]
    for row in compare(runs, mode=mode, below=0.8):
        assert (row["model"], row["next_ranks"]) == (model, 8)
        assert row["next_ns"] == pytest.approx(time(8))
        assert row["next_low_ns"] == pytest.approx(row["next_high_ns"])


def test_the_interval_of_the_next_doubling_by_hand():
    """Through (1, 10), (2, 14), (4, 15): the line of 1/ranks, and t(12.7) for the one degree of freedom."""
    rows = compare([run(n, fc=y) for n, y in ((1, 10), (2, 14), (4, 15))], mode="strong", below=0)
    x, y = [1, 0.5, 0.25], [10, 14, 15]
    middle, mean = sum(x) / 3, sum(y) / 3
    spread = sum((a - middle) ** 2 for a in x)
    slope = sum((a - middle) * (b - mean) for a, b in zip(x, y, strict=True)) / spread
    off = sum((b - mean - slope * (a - middle)) ** 2 for a, b in zip(x, y, strict=True))
    value = mean + slope * (0.125 - middle)
    half = student_t(1) * math.sqrt(off * (1 + 1 / 3 + (0.125 - middle) ** 2 / spread))
    assert rows[0]["next_ns"] == pytest.approx(value)
    assert rows[0]["next_low_ns"] == pytest.approx(max(value - half, 0))
    assert rows[0]["next_high_ns"] == pytest.approx(value + half)


def test_two_sizes_are_too_few_for_a_next_doubling():
    assert "next_ns" not in compare([run(1, fc=10), run(2, fc=12)], mode="weak", below=0.8)[0]
    twice = [run(1, fc=10), run(2, fc=12), run(2, fc=13)]
    assert "next_ns" not in compare(twice, mode="weak", below=0.8)[0]
