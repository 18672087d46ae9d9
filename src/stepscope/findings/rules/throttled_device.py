"""`throttled-device`: a device that is throttled by heat or power while it works."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.quoting import sql_literal
from stepscope.base.units import ratio_text
from stepscope.findings.declare import Finding, Threshold, rule
from stepscope.findings.facts import Facts, Row, first

_SHARE = Threshold(
    "samples with a throttled clock, of those in which the device worked", 0.10, "ratio", "ours: less is start-up"
)
_SAMPLES = Threshold("such moments", 20, "count", "ours: of fewer, a share says little")
_MOMENTS = """
    SELECT rank, pid AS device, max(value) FILTER (kind = 'throttled') AS throttled,
        max(value) FILTER (kind = 'throttled_by_heat') AS heat, max(value) FILTER (kind = 'throttled_by_power') AS power,
        max(value) FILTER (kind = 'compute_active') AS active, max(value) FILTER (kind = 'clock') AS clock_hz,
        max(value) FILTER (kind = 'max_clock') AS max_clock_hz, max(value) FILTER (kind = 'temperature') AS temperature,
        max(value) FILTER (kind = 'power') AS watts
    FROM counter WHERE kind IS NOT NULL GROUP BY rank, span, pid, time_ns
    HAVING throttled IS NOT NULL AND coalesce(active, 100) > 0
"""
_DEVICES = f"""
    SELECT rank, device, count(*) AS samples, avg(throttled / 100) AS throttled_ratio,
        avg(heat / 100) AS heat_ratio, avg(power / 100) AS power_ratio,
        avg(clock_hz) FILTER (throttled > 0) AS throttled_clock_hz, max(max_clock_hz) AS max_clock_hz,
        max(temperature) AS highest_temperature, avg(watts) AS mean_watts
    FROM ({_MOMENTS}) GROUP BY rank, device ORDER BY throttled_ratio DESC, rank, device
"""
_CAUSES = {
    "heat": (
        "heat",
        "`nvidia-smi -q -d TEMPERATURE,PERFORMANCE` (or `amd-smi metric`) has its limits: check the node's cooling and what "
        "else runs on it, and compare other nodes: the slowest rank delays all.",
    ),
    "power": (
        "its power limit",
        "Under full load that is how many devices run. `nvidia-smi -q -d POWER` (or `amd-smi metric`) has the limit: where it is "
        "lower than the device's own, or lower than on other nodes, have it raised.",
    ),
    "": (
        "a cause that its driver does not name",
        "`nvidia-smi -q -d PERFORMANCE` (or `amd-smi metric`) has the reasons that hold now: power supply and cooling first.",
    ),
}


@rule(
    "throttled-device",
    "A device that is throttled by heat or power while it works.",
    _SHARE,
    _SAMPLES,
    trade_off="A higher clock takes more power and gives off more heat.",
)
def throttled_device(facts: Facts) -> Iterator[Finding]:
    """The driver reports once a second why the clock is lower than it could be: heat, power, or the hardware's own
    protection (NVML's reasons, AMD SMI's violations). Only moments at which the device computed count. One finding for
    the most limited device; the others are in its evidence.

    At most the step's slowdown by the lower clock is saved, if all of it scales with the clock and the device could
    keep its highest one; work bound by memory does not scale, and few devices can.
    """
    if facts.scope.has_none("counter"):
        return
    devices = [
        row
        for row in facts.scope.sql(_DEVICES).to_pylist()
        if row["samples"] >= _SAMPLES.value and row["throttled_ratio"] > _SHARE.value
    ]
    if not devices:
        return
    worst = devices[0]
    cause = _cause(worst)
    words, advice = _CAUSES[cause]
    whose = f" of rank {worst['rank']}" if len(facts.scope.ranks) > 1 else ""
    yield Finding(
        title=f"Device {worst['device']}{whose} was throttled by {words} in {ratio_text(worst['throttled_ratio'])} of "
        f"{worst['samples']} samples taken while it worked{_clock(worst)}",
        metric=_SHARE.name,
        value=worst["throttled_ratio"],
        unit="ratio",
        saving_ns=_saving_ns(facts, worst),
        lost_on=worst["rank"],
        confidence="high" if cause else "medium",
        evidence=first(devices, 8),
        rank=worst["rank"],
        ranks=tuple(dict.fromkeys(row["rank"] for row in devices)),
        advice=f"`stepscope counters --by metric` of this recording has power, temperature and clocks. {advice}",
        query=f"SELECT avg(throttled / 100) FROM ({_MOMENTS}) WHERE rank = {worst['rank']} AND device = "
        f"{sql_literal(worst['device'])}",
    )


def _cause(row: Row) -> str:
    heat, power = row["heat_ratio"] or 0.0, row["power_ratio"] or 0.0
    return "" if not heat and not power else "heat" if heat >= power else "power"


def _clock(row: Row) -> str:
    """The device's clock then, and its temperature."""
    words = ""
    if row["throttled_clock_hz"]:
        words = f", at {row['throttled_clock_hz'] / 1e6:.0f} MHz"
        if row["max_clock_hz"]:
            words += f" of {row['max_clock_hz'] / 1e6:.0f}"
    if row["highest_temperature"] is not None:
        words += f"; it reached {row['highest_temperature']:.0f} °C"
    return words


def _saving_ns(facts: Facts, row: Row) -> float | None:
    if not row["throttled_clock_hz"] or not row["max_clock_hz"] or not facts.step_ns:
        return None
    lower = max(0.0, 1 - row["throttled_clock_hz"] / row["max_clock_hz"])
    return float(facts.step_ns * row["throttled_ratio"] * lower)
