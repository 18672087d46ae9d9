"""`slow-pinned-copies`: pinned memory is copied to the device much slower than the link allows."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import bandwidth_text, bytes_text, ratio_text
from stepscope.findings.declare import Finding, Threshold, rule, worth
from stepscope.findings.facts import Facts, first

_SHARE = worth("what copies at the link's bandwidth would save", 0.02)
_SPEED = Threshold(
    "bandwidth of large copies, of the link's",
    0.5,
    "ratio",
    "ours: large pinned copies that have the link to themselves reach three quarters of it and more",
)
_SIZE = Threshold(
    "size of a copy", 1_000_000, "bytes", "ours: what starting a smaller one costs shows in its bandwidth"
)

_WHERE = f"""
    FROM device_event WHERE kind = 'copy' AND copy_kind = 'HtoD' AND memory_kind = 'pinned'
        AND bytes >= {_SIZE.value:.0f} AND {{counted}}
"""


@rule(
    "slow-pinned-copies",
    "Large copies from pinned memory to the device that are slow for the link.",
    _SHARE,
    _SPEED,
    _SIZE,
    trade_off="Ranks that are bound to one processor share its cores and its memory.",
    rests_on=("device-times", "stream-order"),
    shortens_device=True,
)
def slow_pinned_copies(facts: Facts) -> Iterator[Finding]:
    """Large copies from pinned memory whose summed bytes over summed time are less than half of what
    the link to the host can carry, if the device and its link are known. The recording does not show
    the reason: other devices that copy through the same switch, memory of another processor, or a link
    that runs below its speed.

    At most the difference to copies at the link's full bandwidth can be saved, and no more than the time of copies
    with nothing else running; nothing is certain.
    """
    speed = None if facts.limits is None else facts.limits.host_bytes_per_s
    if not speed:
        return
    rows = facts.host(
        f"""
        SELECT rank, count(*) / {facts.steps} AS copies_per_step, sum(bytes) / {facts.steps} AS
            bytes_per_step, sum(dur_ns) / {facts.steps} AS time_ns,
            sum(bytes) * 1e9 / nullif(sum(dur_ns), 0) AS bandwidth_bytes_per_s
        {_WHERE} GROUP BY rank ORDER BY time_ns DESC, rank
        """
    )
    time_ns, size = (sum(row[name] for row in rows) for name in ("time_ns", "bytes_per_step"))
    if not time_ns or size * 1e9 / time_ns >= _SPEED.value * speed:
        return
    saved_ns = min(time_ns - size * 1e9 / speed, facts.time("copy"))
    if facts.part_of_step(saved_ns) <= _SHARE.value:
        return
    reached = size * 1e9 / time_ns
    yield Finding(
        title=f"Pinned copies of {bytes_text(size)} a {facts.per} to the device reach "
        f"{bandwidth_text(reached)}, {ratio_text(reached / speed)} of the link's {bandwidth_text(speed)}",
        metric="bandwidth of large pinned copies to the device, of the link's",
        value=reached / speed,
        unit="ratio",
        saving_ns=saved_ns,
        evidence=first(rows),
        advice="Compare with one rank alone: devices may share the link. Bind each rank to the processor "
        "its device is at (numactl), and look at the link with "
        f"{'amd-smi static' if facts.platform == 'rocm' else 'nvidia-smi -q'} or lspci -vv.",
        query=" ".join(
            f"SELECT sum(bytes) * 1e9 / sum(dur_ns) / {speed} {_WHERE}".replace("{counted}", facts.counted).split()
        ),
    )
