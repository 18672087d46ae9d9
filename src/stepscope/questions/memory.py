"""`memory`: allocated memory at the peak or at any moment, and its use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stepscope.analysis.memory import CURVE_PARTS, PLACE
from stepscope.base.units import bytes_text
from stepscope.query.declare import Column, Parameter, by_form, question
from stepscope.query.rows import ArrowTable, answer_dicts, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.memory.replay import Memory
    from stepscope.analysis.memory.requested import RequestedMemory

_PLACE = tuple(column.name for column in PLACE)
_FORMS = ("device", "category", "operator", "module", "stack", "step", "pool", "oom", "time", "allocation")
_PARTS = ("category", "operator", "module", "stack")

_COLUMNS = (
    *PLACE[:3],
    Column("device", "int", "index of the device in its process; empty for the host"),
    Column("source", "text", "format of the file it comes from", visible=False),
    Column("at_ns", "int", "the moment: of the peak, or the requested one", moment=True),
    Column("time_ns", "int", "when, since the run's start", moment=True),
    Column("step", "int", "training step"),
    Column("category", "text", "parameters, gradients, optimizer state, activations, temporaries, unknown", sums=True),
    Column("operator", "text", "operator that allocated it", sums=True),
    Column("module", "text", "module in which it was allocated", sums=True),
    Column("stack", "text", "call stack that allocated it, innermost frame first", sums=True),
    Column("pool", "text", "small (blocks below 1 MiB) or large"),
    Column("private_pool", "text", "pool of CUDA graphs; empty for the common one", visible="varying"),
    Column("stream", "int", "stream that the segments are for", visible="varying"),
    Column("segments", "int", "segments of device memory held by the allocator", "count"),
    Column("requested_bytes", "int", "size of the failed allocation"),
    Column("device_free_bytes", "int", "free memory of the device"),
    Column("peak_bytes", "int", "peak of allocated memory", sums=True),
    Column("bytes", "int", "bytes alive at the moment; size of an allocation", sums=True),
    Column("share_ratio", "float", "fraction of all that is alive"),
    Column("allocations", "int", "allocations that are alive at the moment", "count"),
    Column("alloc_ns", "int", "when it was allocated; empty for before the recording", moment=True),
    Column("free_ns", "int", "when it was freed; empty for never", moment=True),
    Column("lifetime_ns", "int", "time between the two"),
    Column("alloc_step", "int", "training step in which it was allocated", visible="varying"),
    Column("free_step", "int", "training step in which it was freed", visible="varying"),
    Column("address", "int", "address", visible=False),
    Column("allocated_bytes", "int", "bytes in use"),
    Column("pending_bytes", "int", "freed, but another stream may still use it"),
    Column("reserved_bytes", "int", "bytes held by the allocator"),
    Column("device_bytes", "int", "memory of the device"),
    Column("free_bytes", "int", "reserved bytes that are not in use"),
    Column("max_free_block_bytes", "int", "largest of these in one piece"),
    Column("rounding_bytes", "int", "bytes of used blocks beyond the requested sizes"),
    Column("unused_ratio", "float", "free_bytes of reserved_bytes"),
    Column("start_bytes", "int", "allocated when it starts"),
    Column("end_bytes", "int", "allocated when it ends"),
    Column("growth_bytes", "int", "end_bytes less those of the step before"),
    Column("allocs", "int", "allocations that were made", "count", visible=False),
    Column("alloc_bytes", "int", "their bytes", visible=False),
    Column("retained_bytes", "int", "bytes of these that are alive at its end"),
    Column("peak_reserved_bytes", "int", "peak of reserved memory", visible=False),
    Column("out_of_memory", "int", "out-of-memory events", "count", visible="varying"),
    *(Column(f"{part}_bytes", "int", f"{part.replace('_', ' ')} in allocated_bytes") for part in CURVE_PARTS),
    Column("unknown_bytes", "int", "remainder of allocated_bytes"),
    Column("events", "int", "allocations and frees that the row represents", "count", visible=False),
)

_OF = {
    "device": (
        *_PLACE, "source", "at_ns", "step", "peak_bytes", "allocations", "reserved_bytes", "device_bytes",
        "free_bytes", "max_free_block_bytes", "unused_ratio", "start_bytes", "end_bytes", "allocs",
        "alloc_bytes", "peak_reserved_bytes", "out_of_memory",
    ),
    "step": (
        *_PLACE, "at_ns", "step", "peak_bytes", "reserved_bytes", "start_bytes", "end_bytes",
        "growth_bytes", "allocs", "alloc_bytes", "retained_bytes",
    ),
    "pool": (
        *_PLACE, "pool", "private_pool", "stream", "segments", "allocated_bytes", "pending_bytes",
        "reserved_bytes", "free_bytes", "max_free_block_bytes", "rounding_bytes", "unused_ratio",
    ),
    "oom": (
        *_PLACE, "at_ns", "step", "stack", "requested_bytes", "device_free_bytes", "allocated_bytes",
        "pending_bytes", "reserved_bytes", "free_bytes", "max_free_block_bytes",
    ),
    "time": (
        *_PLACE, "time_ns", "step", "allocated_bytes", "reserved_bytes",
        *(f"{part}_bytes" for part in CURVE_PARTS), "unknown_bytes", "events",
    ),
    "allocation": (
        *_PLACE, "bytes", "alloc_ns", "free_ns", "lifetime_ns", "category", "operator", "module", "alloc_step",
        "free_step", "stack", "address",
    ),
} | {
    part: (*_PLACE, "at_ns", "step", part, "bytes", "share_ratio", "allocations", "allocs", "alloc_bytes")
    for part in _PARTS
}  # fmt: skip

_POOLS = """
    SELECT rank, span, device_kind AS kind, device, pool, private_pool, stream, count(DISTINCT segment) AS segments,
        coalesce(sum(bytes) FILTER (state = 'allocated'), 0)::BIGINT AS allocated_bytes,
        coalesce(sum(bytes) FILTER (state = 'pending'), 0)::BIGINT AS pending_bytes,
        sum(bytes)::BIGINT AS reserved_bytes,
        coalesce(sum(bytes) FILTER (state = 'free'), 0)::BIGINT AS free_bytes,
        coalesce(max(bytes) FILTER (state = 'free'), 0) AS max_free_block_bytes,
        coalesce(sum(bytes - requested_bytes) FILTER (state = 'allocated'), 0)::BIGINT AS rounding_bytes,
        sum(bytes) FILTER (state = 'free') / sum(bytes) AS unused_ratio
    FROM memory_block GROUP BY ALL ORDER BY rank, span, device, reserved_bytes DESC, pool, private_pool, stream
"""
_DEVICES = "SELECT rank, device, memory_bytes FROM device"


@question(
    "memory",
    "How much memory was in use, when was the peak, and what used it?",
    _COLUMNS,
    group="memory",
    rests_on=("memory", "steps"),
    about="time",
    parameters=(
        by_form("what a row is; `oom`: a failed allocation; `time`: a moment of the curve", *_FORMS),
        Parameter(
            "at_ns", "int", "moment (ns since the run's start); by default the peak's", picks=("alloc_ns", "free_ns")
        ),
        Parameter("points", "int", "by time: rows of a device at most; 0 for a row an event", default=400),
        Parameter("at_peak", "bool", "by allocation: only what is alive when most is allocated", default=False),
        Parameter("operator", "text", "by allocation: only those that this operator made"),
        Parameter("category", "text", "by allocation: only those of this category"),
    ),
    fills="Record with --memory or --snapshot, or with profile_memory=True.",
)
def memory(
    scope: Scope,
    by: str = "device",
    at_ns: int | None = None,
    points: int = 400,
    at_peak: bool = False,
    operator: str | None = None,
    category: str | None = None,
) -> ArrowTable:
    """Memory of each device, and of the host if allocations of it were recorded: from a memory snapshot of torch, or
    from the memory events of a trace.

    The *peak* is the moment with the most allocated memory, within the requested steps or stretch of time, and its
    parts (`--by category`, `operator`, `module`, `stack`) add up to it; `--at-ns` selects another moment. Memory from
    before the recording is in a row `(before the recording)`, of category unknown, unless a snapshot has its call
    stack.

    The *category* of an allocation follows from what ran when it was made, and how long it lived:

    * **activations**: made in the forward pass and alive when the next backward pass starts;
    * **gradients**: made in the backward pass and alive when the optimizer, or the next forward pass, starts, or when
      the optimizer's step has ended;
    * **optimizer state**: made in the optimizer's step and alive in the next pass, or after the step;
    * **parameters**: made while a module was built or moved, and alive in the next forward pass;
    * **temporaries**: made in one of these and freed before that (in the backward pass, if no optimizer is recorded,
      during the pass);
    * **unknown**: everything else, such as inputs.

    In a trace the operator's direction shows which pass ran, in a snapshot the call stack, or a stack without any
    frame, which autograd's own threads have. torch's memory timeline (`export_memory_timeline`) follows the data
    through operators instead.

    *Allocated* is what the program uses; *reserved* is what torch's allocator holds of the device, and the rest of that
    is *free*, which another allocation can use if it fits in one piece. A trace counts blocks as the allocator rounded
    them, a snapshot the requested sizes, like torch's own viewer; `--by pool` has both for the end of a snapshot.
    `free_bytes` and `max_free_block_bytes` are those of the moment, replayed from the end of the snapshot; for a trace,
    which has no addresses of blocks, only the difference is known.

    A snapshot without a history, or a device without events in it, shows only what is held when it is taken: `end_bytes`,
    the reserved and the free memory, and their parts. There is no peak and no moment, and nothing is said of before.

    With `--by step` a step's memory is that between its start and end on the host. `growth_bytes` compares the ends of
    steps: a training run that neither leaks nor fills a cache has 0 after its first steps.

    **The curve.** With `--by time` a row is a moment of a device: the memory in use from then on until the device's
    next row, what the allocator held, and the categories, which add up to `allocated_bytes`. The first row of a device
    is the memory from before its first event. If there are more events than `--points`, time is cut into windows of
    equal length, and of each the first moment, the lowest, the highest and the last are shown: every row is a recorded
    moment, and the peak is always among them. TensorBoard's plug-in thins the curve by largest triangles (LTTB), which
    may miss the peak.

    **Single allocations.** With `--by allocation` a row is an allocation that is alive at some moment of the requested
    steps or window, or at `--at-ns`, the largest first. If only a trace was recorded, memory from before the recording
    that is not freed in it has no row. An allocation and its free are matched by address; if an event was lost, an
    allocation ends at the latest when its address is used again.
    """
    from stepscope.analysis.memory.requested import requested_memory
    from stepscope.analysis.recording import every_step

    if by == "pool":
        return scope.sql(_POOLS)
    with every_step(scope) as all_steps:
        everything = requested = list(requested_memory(scope, all_steps))
        if at_ns is not None or by == "time":
            requested = [device for device in everything if device.memory.has_history]
        if by in _PARTS:
            rows = [row for memory_of_device in requested for row in _part_rows(memory_of_device, by, at_ns)]
        elif by == "step":
            rows = [row for memory_of_device in requested for row in _step_rows(memory_of_device)]
        elif by == "oom":
            rows = _failures(scope, requested)
        elif by == "time":
            return _curve(requested, points, _no_history(everything))
        elif by == "allocation":
            rows = _allocations(requested, at_ns, operator, category, at_peak=at_peak)
        else:
            rows = list(_device_rows(scope, all_steps, requested, at_ns))
    names = _OF[by]
    answer = answer_dicts(_COLUMNS, rows, names)
    if by == "allocation":
        return answer
    lines = [_no_history(everything)]
    if not rows:
        return noted(answer, lines[0])
    lines.insert(0, _sizes(requested))
    if by == "category":
        lines.append(_before(requested, at_ns))
    if by in ("category", "device"):
        lines.append(_from_0(requested))
    return noted(answer, "\n".join(filter(None, lines)))


def _curve(requested: list[RequestedMemory], points: int, no_history: str) -> ArrowTable:
    from stepscope.analysis.memory.curve import curve_rows

    rows = [row for memory in requested for row in curve_rows(memory, points)]
    answer = answer_dicts(_COLUMNS, rows, _OF["time"])
    thinned = sum(row["events"] for row in rows) > len(rows)
    note = "Thinned out: of each stretch of time the first, lowest, highest and last moment." if thinned else ""
    return noted(answer, "\n".join(filter(None, (note, no_history))))


def _allocations(
    requested: list[RequestedMemory], at_ns: int | None, operator: str | None, category: str | None, *, at_peak: bool
) -> list[dict[str, Any]]:
    from stepscope.analysis.memory.allocations import allocation_rows

    rows = [
        row
        for memory in requested
        for row in allocation_rows(memory, at_ns, at_peak=at_peak)
        if (operator is None or row["operator"] == operator) and (category is None or row["category"] == category)
    ]
    return sorted(rows, key=lambda row: -row["bytes"])


def _sizes(requested: list[RequestedMemory]) -> str:
    if all(device.memory.source != "memory-snapshot" for device in requested):
        return ""
    return "Sizes of a snapshot are those asked for, before the allocator rounds them up."


def _no_history(requested: list[RequestedMemory]) -> str:
    if not any(device.memory.reserved is not None and not device.memory.has_history for device in requested):
        return ""
    return (
        "Without a history only what is held when the snapshot is taken is known: no peak, and nothing of before. "
        "torch.cuda.memory._record_memory_history() at the start of the job records it."
    )


def _from_0(requested: list[RequestedMemory]) -> str:
    """Names the memories whose totals are counted from the recording's start, because it does not contain them."""
    from_0 = [device.memory for device in requested if device.memory.counted and not device.memory.allocated[0]]
    of_host = any(memory.kind == "cpu" for memory in from_0)
    of_device = any(memory.kind != "cpu" for memory in from_0)
    whose = " and ".join(["the device"] * of_device + ["the host"] * of_host)
    start = f"The totals of {whose} start at 0 with the recording: what was there before, such as the parameters of a "
    return f"{start}model that was made earlier, is in no row." if whose else ""


def _before(requested: list[RequestedMemory], at_ns: int | None) -> str:
    from stepscope.analysis.memory.categories import CATEGORIES, UNKNOWN
    from stepscope.analysis.memory.replay import BEFORE

    older = 0
    for device in requested:
        memory, state = device.memory, _state(device, at_ns)
        if not memory.has_history:
            continue
        alive = memory.alive(state)
        unknown = memory.category[alive] == CATEGORIES.index(UNKNOWN)
        older += int(memory.bytes[alive][unknown & (memory.taken[alive] < 0)].sum())
        if memory.unexplained[state] and memory.unexplained_name(state) == BEFORE:
            older += int(memory.unexplained[state])
    if not older:
        return ""
    return (
        f"Of what is unknown, {bytes_text(older)} was there before the recording started; one that starts before "
        "the model is made knows what it is for."
    )


def _state(requested: RequestedMemory, at_ns: int | None) -> int:
    return requested.memory.peak(requested.states) if at_ns is None else requested.memory.state_at(at_ns)


def _moment(memory: Memory, state: int, at_ns: int | None = None) -> dict[str, Any]:
    if at_ns is None and len(memory.time_ns):
        at_ns = int(memory.at_ns[state])
    return {"at_ns": at_ns, "step": None if at_ns is None else memory.step_of(at_ns)}


def _allocated_in(requested: RequestedMemory) -> Any:
    """The allocations made in the requested states except the first, which existed before."""
    import numpy as np

    memory, states = requested
    allocated = memory.taken >= 0
    if len(states) < len(memory.allocated):
        allocated &= np.isin(memory.start, states)
    return np.flatnonzero(allocated)


def _device_rows(
    scope: Scope, all_steps: Scope, requested: list[RequestedMemory], at_ns: int | None
) -> Iterator[dict[str, Any]]:
    from stepscope.analysis.memory.free_ranges import free_ranges
    from stepscope.analysis.memory.out_of_memory import failures

    sizes = {(device["rank"], device["device"]): device["memory_bytes"] for device in scope.sql(_DEVICES).to_pylist()}
    failed = Counter(device[:4] for device in failures(scope, [device.memory for device in requested]))
    for device in requested:
        memory, states = device
        state = _state(device, at_ns)
        row = memory.place | _moment(memory, state, at_ns)
        row |= {
            "device_bytes": sizes.get((memory.rank, memory.device)),
            "out_of_memory": failed[tuple(row[name] for name in _PLACE)],
        }
        if memory.has_history or memory.reserved is not None:
            row["end_bytes"] = int(memory.allocated[states[-1]])
            row["allocations"] = len(memory.alive(state)) if memory.addressed else None
        if memory.has_history:
            row["peak_bytes"] = int(memory.allocated[state])
            row["start_bytes"] = int(memory.allocated[states[0]])
            row |= _number_made(memory, _allocated_in(device))
        if memory.reserved is not None:
            reserved = int(memory.reserved[state])
            free = free_ranges(all_steps, memory, state)
            unused = reserved - int(memory.allocated[state]) if free is None else free.total
            row |= {
                "reserved_bytes": reserved,
                "free_bytes": unused,
                "max_free_block_bytes": None if free is None else free.largest,
                "unused_ratio": unused / reserved if reserved else None,
                "peak_reserved_bytes": int(memory.reserved[states].max()) if memory.has_history else None,
            }
        yield row


def _number_made(memory: Memory, allocated: Any) -> dict[str, int | None]:
    """How many allocations were made, and their bytes; None if they cannot be distinguished without addresses."""
    if not memory.addressed or not memory.has_history:
        return {"allocs": None, "alloc_bytes": None}
    return {"allocs": len(allocated), "alloc_bytes": int(memory.bytes[allocated].sum())}


def _part_rows(requested: RequestedMemory, by: str, at_ns: int | None) -> Iterator[dict[str, Any]]:
    import numpy as np

    from stepscope.analysis.memory.categories import CATEGORIES, UNKNOWN
    from stepscope.analysis.memory.replay import BEFORE, Texts

    memory = requested.memory
    state = _state(requested, at_ns)
    alive, allocated = memory.alive(state), _allocated_in(requested)
    named: Texts = (
        Texts(memory.category.astype(np.int32), list(CATEGORIES)) if by == "category" else getattr(memory, by)
    )
    # What made an earlier allocation is unknown, unless a snapshot's block says so.
    numbers = np.where((named.number < 0) & (memory.taken < 0), len(named.words), named.number)
    words = [*named.words, BEFORE]
    total = int(memory.allocated[state])
    unexplained = int(memory.unexplained[state])
    sums = np.zeros((len(words) + 1, 4), np.int64)
    for column, group in ((0, alive), (2, allocated)):
        np.add.at(sums[:, column], numbers[group], memory.bytes[group])
        np.add.at(sums[:, column + 1], numbers[group], 1)
    rows: dict[str | None, dict[str, Any]] = {}
    # Number -1, of no word, is the last row.
    for name, (here, count, new, allocs) in zip([*words, None], sums.tolist(), strict=True):
        if count or allocs:
            rows[name] = {by: name, "bytes": here, "allocations": count, "allocs": allocs, "alloc_bytes": new}
            if not memory.has_history:
                rows[name] |= {"allocs": None, "alloc_bytes": None}
    if unexplained:
        name = UNKNOWN if by == "category" else memory.unexplained_name(state)
        made_here = {"allocs": 0, "alloc_bytes": 0} if memory.addressed else {}
        row = rows.setdefault(name, {by: name, "bytes": 0, **made_here})
        row["bytes"] += unexplained
    shared = memory.place | _moment(memory, state, at_ns)
    for row in sorted(rows.values(), key=lambda row: (-row["bytes"], -(row.get("alloc_bytes") or 0), row[by] or "")):
        yield shared | row | {"share_ratio": row["bytes"] / total if total else None}


def _step_rows(requested: RequestedMemory) -> Iterator[dict[str, Any]]:
    import numpy as np

    memory = requested.memory
    allocs = np.flatnonzero(memory.taken >= 0)
    allocs = allocs[np.argsort(memory.start[allocs], kind="stable")]
    starts = memory.start[allocs]
    before: int | None = None
    for step in memory.steps:
        states = memory.states_in([(step.start_ns, step.end_ns)])
        if len(states):
            low, high = np.searchsorted(requested.states, (states[0], states[-1] + 1))
            states = requested.states[low:high]
        if not len(states):
            continue
        state, last = memory.peak(states), int(states[-1])
        low, high = np.searchsorted(starts, (states[0] + 1, last + 1))
        allocated = allocs[low:high]
        end = int(memory.allocated[last])
        row = memory.place | {
            "at_ns": int(memory.at_ns[state]),
            "step": step.number,
            "peak_bytes": int(memory.allocated[state]),
            "reserved_bytes": None if memory.reserved is None else int(memory.reserved[states].max()),
            "start_bytes": int(memory.allocated[states[0]]),
            "end_bytes": end,
            "growth_bytes": None if before is None else end - before,
            **_number_made(memory, allocated),
        }
        if memory.addressed:
            row["retained_bytes"] = int(memory.bytes[allocated][memory.end[allocated] > last].sum())
        yield row
        before = end


def _failures(scope: Scope, requested: list[RequestedMemory]) -> list[dict[str, Any]]:
    from stepscope.analysis.memory.out_of_memory import failures

    return [failure._asdict() for failure in failures(scope, [failure.memory for failure in requested])]
