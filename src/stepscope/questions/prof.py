"""`prof`: PyProf's table, one row per kernel: what launched it, with which inputs, and its work."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepscope.formats.vocabulary import is_program_frame
from stepscope.query.declare import Column, question
from stepscope.query.rows import ArrowTable
from stepscope.query.scope import Scope
from stepscope.schema.device_work import KERNELS

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.analysis.operators.charging import Charges, WorkInPart
    from stepscope.analysis.operators.prof_origin import Origins
    from stepscope.analysis.recording import Array
    from stepscope.costs import Row

_COLUMNS = (
    Column("rank", "int", "rank of the process", visible=False),
    Column("idx", "int", "number of the kernel, from 1, in the order they start"),
    Column("seq", "int", "autograd's number of the nearest operator that has one", visible=False),
    Column("altseq", "int", "that of the outermost operator around it, where another", visible=False),
    Column("tid", "text", "host thread that launched it", visible=False),
    Column("layer", "text", "module, or else the program's own ranges, outermost first", visible=False),
    Column("trace", "text", "call stack of the operator, outermost first", visible=False),
    Column("dir", "text", "fprop, bprop or optim; empty where it is not known"),
    Column("sub", "int", "which kernel of its number and direction it is, from 0", visible=False),
    Column("mod", "text", "where the operation comes from", visible=False),
    Column("op", "text", "operation as the program called it; in backward, that of the forward"),
    Column("kernel", "text", "name of the kernel, without namespaces and parameters"),
    Column("params", "text", "shapes, types and values that the innermost operator was given"),
    Column("sil", "int", "duration of the kernel (ns)"),
    Column("tc", "text", "tensor cores: 1 used, 0 not used, - not eligible, na not known"),
    Column("device", "int", "index of the device", visible=False),
    Column("stream", "int", "stream id", visible=False),
    Column("grid", "text", "blocks of the grid: x,y,z", visible=False),
    Column("block", "text", "threads of a block: x,y,z", visible=False),
    Column("flops", "int", "floating-point operations; 0 where other kernels did them", "flop"),
    Column("bytes", "int", "least bytes to read and write; 0 where other kernels did"),
)

_KERNELS = f"""
    SELECT work.id, work.dur_ns, work.device, work.stream, coalesce(work.operator_id, launch.parent_id, -1) AS base_id,
    work.span, thread.tid, module.path AS module,
    CASE work.direction WHEN 'forward' THEN 'fprop' WHEN 'backward' THEN 'bprop' WHEN 'optimizer' THEN 'optim' END AS dir,
    grid_x || coalesce(',' || grid_y, '') || coalesce(',' || grid_z, '') AS grid,
    block_x || coalesce(',' || block_y, '') || coalesce(',' || block_z, '') AS block
    FROM (SELECT * FROM device_event WHERE rank = $rank AND {KERNELS}) AS work
    LEFT JOIN (SELECT * FROM module WHERE rank = $rank) AS module
        ON (module.span, module.module_id) = (work.span, work.module_id)
    LEFT JOIN (SELECT id, parent_id, thread FROM host_event WHERE rank = $rank AND kind = 'runtime') AS launch
        ON launch.id = work.launch_id
    LEFT JOIN (SELECT * FROM thread WHERE rank = $rank) AS thread
        ON (thread.span, thread.thread) = (work.span, launch.thread)
    ORDER BY work.start_ns, work.id
"""

_STACKS = "SELECT span, stack_id, frames FROM call_stack WHERE rank = $rank"

_NAMESPACES = re.compile(r"\(anonymous namespace\)::|\b(?:at|native|cuda|c10)::")
_ENDS = re.compile(r"[<(]")


@question(
    "prof",
    "What launched each kernel, with what shapes, and how much work did it do?",
    _COLUMNS,
    group="operators and kernels",
    rests_on=("devices", "device-work", "device-times", "launches", "replayed-operators"),
    about="events",
    needs="device",
    fills="Record with ProfilerActivity.CPU and CUDA and record_shapes=True, or under nvprof with PyProf and emit_nvtx().",
)
def prof(scope: Scope) -> ArrowTable:
    """The table of NVIDIA's PyProf, from traces of torch.profiler as well as from nvprof databases that PyProf
    annotated: one row for each kernel, in order of start, without copies and fills. Choose and order columns with `-c`,
    set the width with `-w`; `--csv` and `--spaces` are for other programs.

    **op** and **mod** are the outermost function that PyProf wrapped around the launch (`linear` of
    `torch.nn.functional`), else the outermost operator (`linear` of `aten`); a kernel of the backward has those of its
    forward operator. **params** are the inputs of the innermost operator.

    **flops** and **bytes** are counted by the formulas of StepScope's work models: a multiply-add is 2 operations,
    bytes are the minimum that must be moved. The work of a call is shared by duration among the kernels that did it, as
    in `roofline`, and is 0 at the call's other kernels (those that only prepare a product), so that the columns add up;
    it is empty if it cannot be counted. Kernels named dgrad and wgrad have a convolution's gradient of input and
    weight. Inputs of backward calls in nvprof databases, which PyProf could not record, follow from those of the
    forward call.

    **dir** is empty if unknown; PyProf called everything `fprop` that it did not find to be backward. **altseq** is the
    outermost operator's number if an operator within it has its own. **tc** is 1 if the kernel's name shows that it
    uses tensor cores, 0 if it does not and the operation could, `-` if it could not, `na` if the name or the operation
    is unknown.
    """
    import pyarrow as pa

    from stepscope.analysis.operators.charging import work_in_part
    from stepscope.analysis.recording import every_event

    with every_event(scope) as everything:
        tables = [_of_rank(everything, rank, work_in_part(scope, rank)) for rank in scope.ranks]
    kernels = pa.concat_tables(tables)
    numbers = pa.array(range(1, kernels.num_rows + 1), pa.int64())
    return kernels.append_column("idx", numbers)


def _of_rank(scope: Scope, rank: int, in_part: WorkInPart | None) -> ArrowTable:
    import numpy as np
    import pyarrow as pa

    from stepscope.analysis.operators.charging import charges_of
    from stepscope.analysis.operators.prof_origin import origins
    from stepscope.costs import Conventions

    work = charges_of(scope, rank, Conventions())
    chosen = np.flatnonzero(~work.moving)
    kernels = scope.sql(_KERNELS, {"rank": rank})
    count = kernels.num_rows
    origin = origins(scope, rank, kernels.column("base_id").to_numpy())
    module, operation = _operations(origin)
    columns = {
        "rank": pa.array(np.full(count, rank, np.int64)),
        "seq": _numbers(origin.sequence),
        "altseq": _numbers(origin.other_sequence),
        "tid": kernels.column("tid"),
        "layer": _layers(kernels.column("module"), origin),
        "trace": _traces(scope, rank, kernels.column("span").to_numpy(), origin.stack),
        "dir": kernels.column("dir"),
        "sub": _sub(origin.sequence, kernels.column("dir")),
        "mod": module,
        "op": operation,
        "kernel": _taken([short_name(name) for name in work.kernels], work.kernel[chosen]),
        "params": _taken([_params(row) for row in work.rows], work.innermost[chosen]),
        "sil": kernels.column("dur_ns"),
        "tc": _flags(work, chosen),
        "device": kernels.column("device"),
        "stream": kernels.column("stream"),
        "grid": kernels.column("grid"),
        "block": kernels.column("block"),
        "flops": _numbers(work.parts(lambda work_of_kernel: work_of_kernel.flops)[chosen]),
        "bytes": _numbers(work.parts(lambda work_of_kernel: work_of_kernel.bytes)[chosen]),
    }
    table = pa.table(columns)
    if in_part is None:
        return table
    rows, ns = in_part.of(kernels.column("id").to_numpy())
    full_ns = kernels.column("dur_ns").to_numpy()[rows]
    table = table.take(rows)
    for name in ("sil", "flops", "bytes"):
        values = ns if name == "sil" else _cut(table.column(name), ns, full_ns)
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table


def _cut(amounts: Any, ns: Array, full_ns: Array) -> list[int | None]:
    """The part of each amount that falls into the part of the time, as integers."""
    listed = zip(amounts.to_pylist(), ns.tolist(), full_ns.tolist(), strict=True)
    return [amount if amount is None or part == full else amount * part // full for amount, part, full in listed]


def _flags(work: Charges, chosen: Array) -> pa.Array:
    """PyProf's flag for each kernel: 1 used tensor cores, 0 could have, - could not, na unknown."""
    from stepscope.analysis.operators.calls import distinct_rows
    from stepscope.costs import model_of, tensor_core_use

    pairs, which = distinct_rows(work.kernel[chosen], work.thing[chosen])
    flags = []
    for kernel, thing in pairs:
        used, charged = tensor_core_use(work.kernels[kernel]).used, work.things[thing]
        model = model_of(charged.name)
        if used:
            flags.append("1")
        elif charged.work is None:
            flags.append("na")
        elif model is None or not model.is_eligible:
            flags.append("-")
        else:
            flags.append("na" if used is None else "0")
    return _taken(flags, which)


def _params(row: Row) -> str | None:
    """Shapes and types of a call's inputs without spaces: `(8,128)float32,(128,256)float32,1`."""
    if row.dims is None:
        return None
    try:
        shapes = json.loads(row.dims)
        kinds = json.loads(row.types) if row.types else [""] * len(shapes)
        values = json.loads(row.values) if row.values else [""] * len(shapes)
        texts = [_param(*parameter) for parameter in zip(shapes, kinds, values, strict=True)]
    except (TypeError, ValueError, RecursionError):
        return None
    return ",".join(texts)


def _param(shape: Any, kind: Any, value: Any) -> str:
    if isinstance(shape, list) and any(isinstance(size, list) for size in shape):
        return "[" + ",".join(_param(size, "", "") for size in shape[:8]) + "]"
    if isinstance(shape, list) and shape:
        return f"({','.join(map(str, shape))}){str(kind).replace('c10::', '').replace(' ', '_')}"
    return "".join(str(value or kind or "-").split())


def short_name(kernel: str) -> str:
    """A kernel's name as in PyProf: without result type, namespaces of torch, and parameters.

    >>> short_name("void at::native::(anonymous namespace)::softmax<float>(float*, int)")
    'softmax'
    """
    plain = _NAMESPACES.sub("", kernel.removeprefix("void "))
    return _ENDS.split(plain, maxsplit=1)[0].strip() or kernel


def _numbers(values: Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, pa.int64(), mask=values < 0)


def _taken(texts: Sequence[str | None], place: Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(texts, pa.string()).take(pa.array(place, pa.int64(), mask=place < 0))


def _operations(origin: Origins) -> tuple[pa.Array, pa.Array]:
    import numpy as np

    place = np.where(origin.function >= 0, origin.function, origin.outer)
    place = np.where(place >= 0, place, origin.inner)
    split = [_split(name) for name in origin.names]
    return _taken([m for m, _ in split], place), _taken([o for _, o in split], place)


def _split(name: str) -> tuple[str | None, str]:
    """Splits `aten::linear` or `torch.nn.functional.linear` into namespace and name."""
    for separator in ("::", "."):
        module, separated, operation = name.rpartition(separator)
        if separated and module and operation:
            return module, operation
    return None, name


def _layers(modules: Any, origin: Origins) -> pa.Array:
    import pyarrow.compute as pc

    return pc.coalesce(modules.combine_chunks(), _taken(list(origin.paths), origin.ranges))


def _sub(sequence: Array, direction: Any) -> pa.Array:
    import numpy as np
    import pyarrow.compute as pc

    from stepscope.analysis.operators.calls import coded, distinct_rows
    from stepscope.formats.consecutive import place_in_run

    way, _ = coded(pc.fill_null(direction, ""))
    _, group = distinct_rows(sequence, way)
    order = np.argsort(group, kind="stable")
    within = np.empty(len(group), dtype=np.int64)
    within[order] = place_in_run(group[order])
    return _numbers(np.where(sequence >= 0, within, -1))


def _traces(scope: Scope, rank: int, span: Array, stack: Array) -> pa.Array:
    import numpy as np

    from stepscope.analysis.operators.calls import distinct_rows

    rows = scope.sql(_STACKS, {"rank": rank}).to_pylist()
    if not rows:
        return _taken([None], np.full(len(stack), -1))
    frames = {(row["span"], row["stack_id"]): _program(row["frames"]) for row in rows}
    pairs, which = distinct_rows(span.astype(np.int64), stack)
    return _taken([frames.get((span_of, number)) for span_of, number in pairs], which)


def _program(frames: str) -> str | None:
    program_frames = [frame for frame in frames.split(";")[::-1] if is_program_frame(frame)]
    return ",".join(program_frames) or None
