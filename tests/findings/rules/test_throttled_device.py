"""A device whose clock is held down while it works."""

from typing import Any

import pytest

MS = 1_000_000


def looks(count: int, *, of: int = 50, device: str = "0", rank: int = 0, **values: Any) -> Any:
    """So many looks at a device, in `count` of which its clock is held down, as `values` say."""
    told = {"compute_active": 95, "clock": 1400e6, "max_clock": 1400e6, "throttled": 0,
            "throttled_by_heat": 0, "throttled_by_power": 0}  # fmt: skip
    held = told | {"clock": 700e6, "throttled": 100, "temperature": 91} | values
    return [
        {"rank": rank, "track": "NVML", "series": kind, "kind": kind, "pid": device,
         "time_ns": at * 10**9, "value": float(value)}
        for at in range(of)
        for kind, value in (held if at < count else told).items()
    ]  # fmt: skip


def recording(*counters: Any, ranks: int = 1) -> Any:
    phases = [
        {"rank": rank, "phase": name, "steps": 100, "mean_ns": ns}
        for rank in range(ranks)
        for name, ns in (("step", 100.0 * MS), ("forward", 100.0 * MS))
    ]
    return {"phase": phases, "counter": [row for rows in counters for row in rows]}


def test_a_device_that_is_too_hot_is_found_with_its_clock(findings: Any) -> None:
    (row,) = findings(recording(looks(20, throttled_by_heat=100)), "throttled-device")
    assert "throttled by heat in 40.0 % of 50 samples" in row["title"]
    assert row["title"].endswith("at 700 MHz of 1400; it reached 91 °C")
    # At most: 40 % of the time half the clock.
    assert (row["value"], row["saving_high_ns"]) == (0.4, 20 * MS)
    assert "cooling" in row["advice"]


@pytest.mark.parametrize(
    ("held", "words"), [({"throttled_by_power": 100}, "its power limit"), ({}, "a cause that its driver does not name")]
)
def test_a_limit_of_power_and_one_without_a_name_are_said_so(findings: Any, held: dict[str, int], words: str) -> None:
    (row,) = findings(recording(looks(50, **held)), "throttled-device")
    assert f"throttled by {words} in 100.0 %" in row["title"]


def test_a_tenth_of_the_moments_is_no_finding_nor_are_few_moments(findings: Any) -> None:
    for rows in (looks(5, throttled_by_heat=100), looks(10, of=19, throttled_by_heat=100)):
        assert findings(recording(rows), "throttled-device") == []


def test_moments_at_which_the_device_did_nothing_do_not_count(findings: Any) -> None:
    rows = looks(30, throttled_by_power=100, compute_active=0)
    assert findings(recording(rows), "throttled-device") == []


def test_of_several_devices_the_worst_leads(findings: Any) -> None:
    rows = recording(looks(10), looks(40, rank=1, device="1", throttled_by_heat=100), ranks=2)
    (row,) = findings(rows, "throttled-device")
    assert row["title"].startswith("Device 1 of rank 1 was throttled by heat in 80.0 %")
    assert [(one["rank"], one["device"]) for one in row["evidence"]] == [(1, "1"), (0, "0")]
    assert row["rank"] == 1
