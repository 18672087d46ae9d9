"""`allocation-in-steps`: device memory is requested and returned in every step."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import mean_count_text
from stepscope.findings.declare import Finding, Threshold, of_time, rule, worth
from stepscope.findings.facts import Facts, first

_COUNT = Threshold("such calls per step", 1, "count", "ours: a caching allocator needs none")
_SHARE = worth("their time on the host", 0.01)

_CALLS = """
    FROM host_event WHERE kind = 'runtime' AND role = 'allocate' AND name NOT LIKE '%Async%'
        AND {counted}
        AND (rank, span, step) NOT IN (SELECT (rank, span, arg_min(step, start_ns)) FROM step GROUP BY rank, span)
"""


@rule(
    "allocation-in-steps",
    "Calls of cudaMalloc, cudaFree, hipMalloc and their likes in steps after the first.",
    _COUNT,
    _SHARE,
    trade_off="A cache that is not emptied, and sizes that are padded, hold more device memory.",
)
def allocation_in_steps(facts: Facts) -> Iterator[Finding]:
    """PyTorch keeps device memory and requests more only in the first steps. Calls in later steps
    mean that the cache is emptied, is too small for changing sizes, or that something else allocates;
    `cudaFree` also waits for the device. The first recorded step does not count.

    At most the calls' time on the host can be saved, and no more than the time in which no kernel computes; nothing is
    certain, because the time may be hidden behind device work.
    """
    later = sum(int(broken.counted[1:].sum()) for broken in facts.times.broken)
    if not facts.has_steps or not later:
        return
    rows = facts.host(
        f"SELECT name AS call, count(*) / {later} AS calls_per_step, sum(dur_ns) / {later} AS time_ns "
        f"{_CALLS} GROUP BY name ORDER BY time_ns DESC, call"
    )
    count, time_ns = sum(r["calls_per_step"] for r in rows), sum(r["time_ns"] for r in rows)
    if count < _COUNT.value or facts.part_of_step(time_ns) <= _SHARE.value:
        return
    yield of_time(
        title=f"{mean_count_text(count)} allocating calls a step take {facts.amount(time_ns)} on the host",
        metric="time of allocating calls, per step after the first",
        time_ns=time_ns,
        saving_ns=facts.hidden(time_ns),
        confidence="high",
        evidence=first(rows),
        advice="Take torch.cuda.empty_cache() out of the step; pad changing sizes to a few; " * facts.in_pytorch
        + "Allocate before the steps, or from a pool (cudaMallocAsync); " * (not facts.in_pytorch)
        + (
            "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; "
            if facts.platform == "cuda" and facts.in_pytorch
            else ""
        )
        + "pin host buffers once.",
        query=facts.to_repeat(f"SELECT sum(dur_ns) / {later} {_CALLS}"),
    )
