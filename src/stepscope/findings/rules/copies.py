"""Rules about copies between host and device."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import bandwidth_text, bytes_text, ratio_text
from stepscope.findings.declare import Finding, Threshold, of_step, of_time, rule, worth
from stepscope.findings.facts import Facts, first

_EXPOSED = worth("exposed copies", 0.05, "TraceLens: a direction of copies above 5 % of the total")

COPYING = "kind = 'runtime' AND role = 'copy'"
"""Calls that copy, which wait for the device if memory is pageable."""


@rule(
    "copy-bound",
    "Copies that no computation hides.",
    _EXPOSED,
    trade_off="Batches copied ahead take device memory, and copies share its bandwidth with kernels.",
    rests_on=("device-times",),
    silent_without=("device-work",),
)
def copy_bound(facts: Facts) -> Iterator[Finding]:
    """The time in which a device copied and computed nothing. For phases it is the time that the host spends copying
    batches to the device.

    At most all of it can be saved, plus the time in which calls that copy block the host; `pageable-copies` and
    `copies-and-casts` name copies that have a cure.
    """
    time_ns, share = facts.time("copy"), facts.share("copy")
    if share <= _EXPOSED.value:
        return
    where, ranks = facts.on_ranks("copy", _EXPOSED.value)
    what = "the device copies and computes nothing"
    advice = "`stepscope copies` for direction, bandwidth and pageable memory"
    if facts.phases_alone is not None:
        what, advice = f"the host copies batches to the device{where}", "Copy less"
        copied = facts.phases_alone.mean("copied_bytes")
        pageable = facts.phases_alone.mean("pageable_bytes")
        if copied:
            what += (
                f": {bytes_text(round(copied))} a step, {ratio_text((pageable or 0) / copied)} of it "
                "from memory that is not pinned"
            )
        if copied is None or pageable:
            advice = "Pin the loader's memory (pin_memory=True)"
    asynchronous = "non_blocking=True" if facts.in_pytorch else "asynchronous calls from pinned memory"
    yield of_step(
        "loss",
        share,
        "exposed copies, of the step",
        title=f"Copy-bound: for {facts.amount(time_ns)} {what}",
        saving_ns=time_ns,
        hidden_ns=facts.hidden_in(COPYING) if facts.has_device else 0.0,
        confidence=facts.confidence,
        evidence=first(facts.by_recording("copy"), 8),
        advice=f"{advice}; overlap copies with computation ({asynchronous}), use smaller types, create on the device what can "
        "be created there.",
        query=facts.parts_query,
        ranks=ranks,
    )


_PAGEABLE_TIME = worth(
    "exposed copies", 0.01, "ours: below it there is little to win; TraceLens flags a direction of copies above 5 %"
)
_PAGEABLE_SIZE = Threshold(
    "size of a copy", 65_536, "bytes", "CUDA runtime API: smaller copies from pageable memory return at once"
)

_PAGEABLE = f"""
    FROM device_event
    WHERE kind = 'copy' AND memory_kind = 'pageable' AND bytes > {_PAGEABLE_SIZE.value:.0f} AND {{counted}}
"""
_COPIES = f"""
    SELECT copy_kind AS direction, count(*) / {{steps}} AS copies_per_step,
        sum(bytes) / {{steps}} AS bytes_per_step, sum(dur_ns) / {{steps}} AS time_ns,
        sum(bytes) * 1e9 / nullif(sum(dur_ns), 0) AS bandwidth_bytes_per_s
    {_PAGEABLE} GROUP BY copy_kind ORDER BY time_ns DESC
"""


@rule(
    "pageable-copies",
    "Large copies between the device and host memory that is not pinned.",
    _PAGEABLE_TIME,
    _PAGEABLE_SIZE,
    trade_off="Pinning copies the batch in host memory once more, and pinned memory cannot be swapped out.",
    rests_on=("device-times",),
)
def pageable_copies(facts: Facts) -> Iterator[Finding]:
    """A copy from pageable memory goes through a buffer and blocks the host, so nothing hides it. At most the time of
    copies with nothing else running can be saved, if pinned copies overlap computation, plus the time in which calls
    that copy block the host; pinned copies may be slower than the link, too.
    """
    rows = facts.host(_COPIES.replace("{steps}", str(facts.steps)))
    if not rows:
        return
    time_ns = sum(row["time_ns"] for row in rows)
    exposed_ns = min(time_ns, facts.time("copy"))
    if facts.part_of_step(exposed_ns) <= _PAGEABLE_TIME.value:
        return
    size = sum(row["bytes_per_step"] for row in rows)
    yield of_time(
        title=f"Pageable memory: copies of {bytes_text(size)} a {facts.per} take "
        f"{facts.amount(time_ns)}, at {bandwidth_text(size * 1e9 / time_ns)}",
        metric="time of large copies through pageable memory, per step",
        time_ns=time_ns,
        saving_ns=exposed_ns,
        hidden_ns=facts.hidden_in(COPYING),
        confidence="high",
        evidence=first(rows),
        advice=_pin(facts, {row["direction"] for row in rows}),
        query=facts.to_repeat(f"SELECT sum(dur_ns) / {facts.steps} {_PAGEABLE}"),
    )


def _pin(facts: Facts, directions: set[str]) -> str:
    """How to copy through pinned memory, in each direction that occurs."""
    if not facts.in_pytorch:
        api = "hip" if facts.platform == "rocm" else "cuda"
        allocate = "hipHostMalloc" if api == "hip" else "cudaMallocHost"
        return (
            f"Pin the host's buffers once ({allocate}, {api}HostRegister) and copy with {api}MemcpyAsync on a stream "
            "of its own, overlapping computation."
        )
    cures = []
    if directions != {"DtoH"}:
        pinned = "DataLoader(pin_memory=True)" if facts.has_loader else "tensor.pin_memory()"
        cures.append(
            f"{pinned} and tensor.to(device, non_blocking=True); copy the next batch on a stream of its own "
            "while this one computes."
        )
    if "DtoH" in directions:
        cures.append(
            "To the host, copy into a pinned tensor (torch.empty(..., pin_memory=True)) with "
            "copy_(..., non_blocking=True), and wait once before it is read."
        )
    return " ".join(cures)


_PINNED_SAVING = worth("what copies at the link's bandwidth would save", 0.02)
_SPEED = Threshold(
    "bandwidth of large copies, of the link's", 0.5, "ratio", "ours: alone on the link, such copies reach 75 % of it"
)
_PINNED_SIZE = Threshold(
    "size of a copy", 1_000_000, "bytes", "ours: what starting a smaller one costs shows in its bandwidth"
)

_WHERE = f"""
    FROM device_event WHERE kind = 'copy' AND copy_kind = 'HtoD' AND memory_kind = 'pinned'
        AND bytes >= {_PINNED_SIZE.value:.0f} AND {{counted}}
"""


@rule(
    "slow-pinned-copies",
    "Large copies from pinned memory to the device that are slow for the link.",
    _PINNED_SAVING,
    _SPEED,
    _PINNED_SIZE,
    trade_off="Ranks that are bound to one processor share its cores and its memory.",
    rests_on=("device-times", "stream-order"),
    shortens_device=True,
)
def slow_pinned_copies(facts: Facts) -> Iterator[Finding]:
    """Large copies from pinned memory whose summed bytes over summed time are less than half of what the link to the
    host can carry, if the device and its link are known. The recording does not show the reason: other devices that
    copy through the same switch, memory of another processor, or a link that runs below its speed.

    At most the difference to copies at the link's full bandwidth can be saved, and no more than the time of copies with
    nothing else running.
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
    if facts.part_of_step(saved_ns) <= _PINNED_SAVING.value:
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
