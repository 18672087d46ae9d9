"""`pageable-copies`: copies between host and device through memory that is not pinned."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import bandwidth_text, bytes_text
from stepscope.findings.declare import Finding, Threshold, of_time, rule, worth
from stepscope.findings.facts import Facts, first
from stepscope.findings.rules.copy_bound import COPYING

_SHARE = worth(
    "exposed copies", 0.01, "ours: below it there is little to win; TraceLens flags a direction of copies above 5 %"
)
_SIZE = Threshold(
    "size of a copy",
    65_536,
    "bytes",
    "CUDA runtime API, API synchronization behavior: smaller copies from pageable memory return at once",
)

_PAGEABLE = f"""
    FROM device_event
    WHERE kind = 'copy' AND memory_kind = 'pageable' AND bytes > {_SIZE.value:.0f} AND {{counted}}
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
    _SHARE,
    _SIZE,
    trade_off="Pinning a batch is a copy in the host's memory on a thread of its own, and pinned memory cannot be "
    "swapped out.",
    rests_on=("device-times",),
)
def pageable_copies(facts: Facts) -> Iterator[Finding]:
    """A copy from pageable memory goes through a buffer and blocks the host, so nothing hides it.
    At most the time of copies with nothing else running can be saved, if pinned copies run
    beside computation, plus the time in which calls that copy block the host; nothing is certain, because pinned copies
    may be slower than the link, too.
    """
    rows = facts.host(_COPIES.replace("{steps}", str(facts.steps)))
    if not rows:
        return
    time_ns = sum(row["time_ns"] for row in rows)
    exposed_ns = min(time_ns, facts.time("copy"))
    if facts.part_of_step(exposed_ns) <= _SHARE.value:
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
            "of its own, beside computation."
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
