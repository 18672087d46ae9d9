"""`small-kernels`: a device that is busy starting many short kernels."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.base.units import count_text
from stepscope.findings.cures import compile_it, graphs, joined
from stepscope.findings.declare import LEADING, Finding, Threshold, of_time, rule, worth
from stepscope.findings.facts import Facts, Row, first
from stepscope.findings.merged_rows import merge_rows
from stepscope.findings.sequence import host_ns

_SHORT = Threshold("duration of a kernel", 10_000, "ns", "TraceLens: a kernel below 10 µs is short")
_COUNT = Threshold("short kernels per step", 100, "count", "ours: fewer cannot add up")
_SHARE = worth("short kernels with the gaps after them", 0.10)
_GAP = Threshold(
    "a gap between two kernels that is the device's own",
    30_000,
    "ns",
    "Holistic Trace Analysis: consecutive_kernel_delay",
)


@rule(
    "small-kernels",
    "Many kernels below 10 µs that keep a device busy with starting them.",
    _SHORT,
    _COUNT,
    _SHARE,
    _GAP,
    LEADING,
    trade_off="torch.compile takes its time at the start and for each new shape.",
    rests_on=("clocks",),
    silent_without=("device-work",),
)
def small_kernels(facts: Facts) -> Iterator[Finding]:
    """Kernels below 10 µs in a typical step, and the gaps from each to the next kernel of its stream
    if that had been launched in time and the gap is below 30 µs. It is silent if the
    device mostly waits for the host: `host-bound` covers that.

    At most all of it can be saved, by running fewer of them, plus the host's time to launch them; nothing is certain.
    """
    sequence = facts.sequence
    if sequence is None or facts.waiting_share > LEADING.value:
        return
    short: list[Row] = []
    launching_ns = 0
    for pieces in sequence.streams():
        for piece, after in zip(pieces, [*pieces[1:], None], strict=True):
            if piece.kind != "computation" or piece.dur_ns >= _SHORT.value:
                continue
            gap = 0 if after is None else max(0, after.start_ns - piece.end_ns)
            gap = gap if gap < _GAP.value else 0
            launching_ns += host_ns([piece])
            short.append({"kernel": piece.name, "count": 1, "time_ns": piece.dur_ns, "gaps_ns": gap})
    count = len(short)
    short_ns, gaps_ns = (sum(row[name] for row in short) for name in ("time_ns", "gaps_ns"))
    if count < _COUNT.value or facts.part_of_step(short_ns + gaps_ns) <= _SHARE.value:
        return
    rows = merge_rows(short, "kernel", adding=("count", "time_ns", "gaps_ns"))
    replayed = any(piece.replayed for piece in sequence.pieces)
    yield of_time(
        title=f"{count_text(count)} kernels below 10 µs and the gaps after them take "
        f"{facts.amount(short_ns + gaps_ns)}",
        metric="time of short kernels and the gaps after them, in a typical step",
        time_ns=short_ns + gaps_ns,
        saving_ns=gaps_ns + short_ns,
        hidden_ns=facts.hidden(launching_ns, gaps_ns),
        evidence=first(sorted(rows, key=lambda row: -row["time_ns"] - row["gaps_ns"])),
        **sequence.place,
        advice="Fuse them: "
        + joined(
            compile_it(facts),
            "fused normalisations" + " and optimizers" * facts.loops_over_parameters,
            "larger batches",
        )
        + (f"; {graphs(facts)} shorten the gaps." if graphs(facts) and not replayed else "."),
    )
