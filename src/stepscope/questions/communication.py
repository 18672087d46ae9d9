"""What ranks communicated, how long it took and waited, and how fast it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.base.grouping import grouped
from stepscope.base.units import time_text
from stepscope.query.declare import RANK, Column, by_form, question
from stepscope.query.rows import ArrowTable, answer_dicts, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.ranks.collectives import CollectiveGroup

_KEYS = (
    Column("module", "text", "innermost module that launched it; none for gradients"),
    RANK,
    Column("step", "int", "number of the step that launched it, as the program counts"),
    Column("operation", "text", "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, ..."),
    Column("parallelism", "text", "data, tensor, pipeline, expert or context; empty if unknown"),
    Column("source", "text", "where that is known from: description, gradients, FSDP, DDP, module class or neighbours", visible=False),
    Column("group", "text", "name of the process group"),
    Column("description", "text", "its description"),
    Column("ranks", "text", "its ranks"),
    Column("group_size", "int", "ranks in the group", "count"),
    Column("dtype", "text", "element type"),
    Column("message_bytes", "int", "size of a message, as nccl-tests counts it"),
    Column("library", "text", "nccl, rccl, gloo, mpi, symmetric_memory, custom, ...", visible="varying"),
    Column("extent", "text", "intra_node or inter_node, where the nodes of its ranks are known", visible="varying"),
)  # fmt: skip
_SUMS = (
    Column("calls", "int", "collectives, each counted on every rank", "count"),
    Column("measured", "int", "calls with a measured wait", "count", visible=False),
    Column("total_ns", "int", "summed duration, including waits", sums=True),
    Column("mean_ns", "float", "mean duration", visible=False),
    Column("exposed_ns", "int", "time in which the device computed nothing"),
    Column("exposed_ratio", "float", "fraction of the duration"),
    Column("wait_ns", "int", "time until the last rank arrived, of the measured calls"),
    Column("transfer_ns", "int", "remaining duration of the measured calls"),
    Column("moved_bytes", "int", "bytes of all messages", visible=False),
    Column("algorithm_bytes_per_s", "float", "size over time", visible=False),
    Column("bus_bytes_per_s", "float", "bytes on the busiest link over time"),
    Column("bandwidth_over", "text", "divisor of the bandwidths: transfer; or duration, so that they are lower bounds"),
)  # fmt: skip
_EXCHANGED = (
    Column("source_rank", "int", "rank that sent"),
    Column("destination_rank", "int", "rank that received"),
    Column("bytes", "int", "bytes sent to it", sums=True),
    Column("share_ratio", "float", "fraction of all listed bytes of the group"),
    Column("sent_bytes", "int", "bytes sent, to itself too", sums=True),
    Column("sent_over_mean", "float", "these over the mean of the group's ranks"),
    Column("received_bytes", "int", "bytes received, from itself too", sums=True),
    Column("received_over_mean", "float", "these over the mean of the group's ranks"),
    Column("start_ns", "int", "when its first rank started, since the run's start", moment=True),
    Column("matched_ranks", "int", "ranks that took part", "count"),
    Column("total_bytes", "int", "bytes that all of them received", sums=True),
    Column("max_over_mean", "float", "most that a rank received, over the mean"),
    Column("max_rank", "int", "that rank; empty if all received the same"),
)
_COLUMNS = (*_KEYS, *_SUMS, *_EXCHANGED)
_FORMS = {
    "operation": ("operation", "parallelism", "source", "group_size", "library", "extent"),
    "size": ("operation", "group_size", "dtype", "message_bytes", "library", "extent"),
    "group": ("group", "description", "ranks", "group_size", "parallelism", "source", "operation"),
    "parallelism": ("parallelism", "source", "extent"),
    "module": ("module", "operation", "parallelism", "source"),
    "rank": ("rank", "operation", "library"),
    "step": ("rank", "step", "operation", "parallelism", "source"),
}
_ALL_TO_ALL = {
    "pair": ("group", "calls", "source_rank", "destination_rank", "bytes", "share_ratio"),
    "load": ("rank", "group", "calls", "sent_bytes", "sent_over_mean", "received_bytes", "received_over_mean"),
    "exchange": ("group", "start_ns", "matched_ranks", "total_bytes", "max_over_mean", "max_rank"),
}
_EXCHANGE_EVIDENCE = ("device-work", "kernel-names")


@question(
    "communication",
    "What do the ranks communicate, how long do they wait for it, and how fast is it?",
    _COLUMNS,
    group="ranks",
    rests_on=("devices", "device-work", "device-times", "kernel-names", "clocks", "across-ranks"),
    about="events",
    parameters=(
        by_form(
            "group collectives by this; `pair`, `load` and `exchange`: all-to-all exchanges", *_FORMS, *_ALL_TO_ALL
        ),
    ),
    fills="Record a job of several ranks, with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
)
def communication(scope: Scope, by: str = "operation") -> ArrowTable:
    """Every collective and point-to-point transfer, on all requested ranks: communication kernels (of NCCL and similar
    libraries, of symmetric memory, of a framework's own), and the ranges of libraries that communicate on the host
    (gloo, MPI). Host time in NCCL's calls only enqueues kernels and is not counted. Durations are sums over ranks;
    those of kernels add up to theirs in `kernels`.

    **Exposed** is the time during which the rank's device computed nothing. If several collectives of a device run at
    once, it belongs to the one that started first, so that exposed times of kernels add up to the exposed communication
    of `device-time`. For a rank without a device it is unknown.

    **Wait** lasts from a rank's arrival until the last rank's, **transfer** is the rest. Both need the collective to be
    matched over all ranks of its group and the clocks to be aligned; otherwise a duration includes both. `measured`
    counts the calls for which they are known.

    **Bandwidth** is defined as by nccl-tests (PERFORMANCE.md), in decimal GB/s. The size of a message is the buffer of
    a rank for all-reduce, broadcast, reduce and point-to-point, the entire output for all-gather, the entire input for
    reduce-scatter and all-to-all. Algorithm bandwidth is size over time; bus bandwidth multiplies it with 2(n-1)/n for
    all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for the others, and can be compared with the
    speed of a link. The time is that of the transfer; if that is unknown it is the duration, and bandwidths are lower
    bounds (`bandwidth_over`). TraceLens divides by 2^30 and calls it GB.

    **Parallelism** is what the description of the process group names (Megatron's groups, DeviceMesh, torchtitan).
    Without one: data, for collectives launched by the hook of a gradient's accumulation (DDP's, DeepSpeed's), by FSDP
    in one of its ranges, and for the buffers that DDP's forward broadcasts; tensor, in a module whose class is parallel
    over columns, rows or the vocabulary; expert, for an all-to-all in a mixture of experts; pipeline, for sends and
    receives of ranks that send to the same ranks that they receive from, to two at most of a larger group. Otherwise it
    is empty.

    `--by module` is the module in which it was launched; FSDP gathers ahead, so parameters of the next module are
    gathered in the one before it. What a window cuts counts in proportion to the remaining time.

    **All-to-all.** `--by pair` is the volume matrix: for each group what its ranks sent to each other, the largest
    exchanges first. It is known if the recording has the sizes of the parts (`In split size`, which torch records with
    a collective's arguments from 2.3 on, or the values of `c10d::alltoall_base_`) and the recorder did not cut the list
    short. Parts are recorded in rows or elements; the bytes are the message's, divided in that proportion. Destinations
    are ranks of the job, by the ranks of the group. What unrecorded ranks sent is taken from the ranks that received
    it.

    `--by load` shows how evenly the ranks are loaded: what each sent and received, over the mean of its group's
    recorded ranks. For experts, that is the imbalance of tokens if tokens have one size. `--by exchange` lists the
    exchanges that are matched over all ranks of their group, the most uneven first: data that is evenly spread over a
    run may be uneven in each exchange, and every exchange lasts as long as its rank with most data.
    """
    if by in _ALL_TO_ALL:
        return _all_to_all(scope, by)
    from stepscope.analysis.ranks.collectives import group_collectives, summed

    keys = _FORMS[by]
    collectives = group_collectives(scope)
    rows = []
    for key, members in grouped(collectives, lambda member: tuple(_value(member, name) for name in keys)).items():
        sums = summed(members)
        figures = {"mean_ns": sums.total_ns / sums.calls, "exposed_ratio": _ratio(sums.exposed_ns, members)}
        rows.append(dict(zip(keys, key, strict=True)) | sums._asdict() | figures)
    rows.sort(key=lambda row: (-row["total_ns"], *(str(row[name]) for name in keys)))
    if by == "step":
        rows.sort(key=lambda row: (row["rank"], row["step"] is None, row["step"] or 0))
    names = [*keys, *(column.name for column in _SUMS)]
    return noted(answer_dicts(_COLUMNS, rows, names), _note(scope, collectives))


_COLUMN_OF = {
    name: f"group_{of}" for name, of in (("group", "name"), ("description", "description"), ("ranks", "ranks"))
}
_COLUMN_OF["message_bytes"] = "bytes"


def _value(member: CollectiveGroup, name: str) -> Any:
    if name == "parallelism":
        return member.serves.kind
    return member.serves.rule if name == "source" else member.row[_COLUMN_OF.get(name, name)]


def _ratio(exposed_ns: int | None, members: list[CollectiveGroup]) -> float | None:
    known_ns = sum(member.row["total_ns"] for member in members if member.row["exposed_ns"] is not None)
    return exposed_ns / known_ns if exposed_ns is not None and known_ns else None


def _note(scope: Scope, collectives: list[CollectiveGroup]) -> str:
    from stepscope.formats.communication import communicating

    lines = []
    calls = sum(member.row["calls"] for member in collectives)
    measured = sum(member.row["calls"] for member in collectives if member.row["measured"])
    if calls and not measured:
        why = "one rank" if len(scope.ranks) == 1 else "no collective is matched over all ranks of its group"
        lines.append(
            f"Wait and transfer are not measured ({why}): durations hold both, and bandwidths over them are lower bounds."
        )
    elif measured < calls:
        lines.append(f"Wait and transfer are measured of {measured} of {calls} calls.")
    off = scope.value("SELECT max(clock_uncertainty_ns) FROM rank")
    if measured and off:
        lines.append(
            f"Clocks are known to {time_text(off)}: arrivals no farther apart count as no wait, and as transfer."
        )
    kernels = scope.sql("SELECT name, count(*) AS n FROM device_event WHERE kind = 'computation' GROUP BY name")
    exchanges = ((communicating(row["name"]), row["n"]) for row in kernels.to_pylist())
    if fused := sum(count for exchange, count in exchanges if exchange is not None and exchange.fused):
        words = "kernels multiply and communicate in one; they count as computation"
        lines.append(f"{fused} {words} (column fused_communication of kernels).")
    return "\n".join(lines)


def _all_to_all(scope: Scope, by: str) -> ArrowTable:
    from stepscope.analysis.ranks.exchanges import exchange_rows, exchanges, load_rows, pair_rows

    if by == "exchange":
        return noted(answer_dicts(_COLUMNS, exchange_rows(scope), _ALL_TO_ALL[by]), "", rests_on=_EXCHANGE_EVIDENCE)
    totals = exchanges(scope)
    rows = load_rows(totals) if by == "load" else pair_rows(totals)
    note = ""
    if not totals.calls:
        note = "The recording has no all-to-all exchange."
    elif by == "load" and None in totals.sent.values():
        note = "Of some exchanges no size is recorded; ranks that had one have no sum."
    elif by == "pair" and totals.split < totals.calls:
        note = (
            f"{totals.calls - totals.split} of {totals.calls} exchanges do not say how much went to whom: sizes of the "
            "parts or the ranks of the group are missing. `stepscope communication SRC --by load` has their sums."
        )
    return noted(answer_dicts(_COLUMNS, rows, _ALL_TO_ALL[by]), note, rests_on=_EXCHANGE_EVIDENCE)
