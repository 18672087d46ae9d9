"""Which steps a trace records."""

import pytest

from stepscope.record.traces.tracing import Cycles


def test_two_cycles_of_wait_warmup_and_record() -> None:
    cycles = Cycles(wait=1, warmup=1, active=2, repeat=2)
    assert [cycles.action(index) for index in range(9)] == [
        *("off", "warmup", "record", "record"),
        *("off", "warmup", "record", "record"),
        "off",
    ]
    assert [cycles.over(index) for index in (7, 8)] == [False, True]


def test_by_default_five_steps_at_most_are_recorded() -> None:
    cycles = Cycles()
    assert sum(cycles.action(index) == "record" for index in range(10_000)) == 5


@pytest.mark.parametrize("wrong", [{"active": 0}, {"wait": -1}, {"repeat": 0}])
def test_numbers_without_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        Cycles(**wrong)
