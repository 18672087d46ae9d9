"""`onednn`: times of oneDNN primitives, by implementation and shape."""

from __future__ import annotations

from stepscope.analysis.operators.attainable import LIMITS
from stepscope.base.grouping import grouped
from stepscope.costs import known_devices
from stepscope.costs.primitive import DTYPES, primitive_flops
from stepscope.query.declare import Column, Parameter, by_form, question
from stepscope.query.rows import ArrowTable, Row, answer_dicts
from stepscope.query.scope import Scope

_SHAPE = "primitive, propagation, implementation, engine, types, attributes, auxiliary, shape"
_KEYS = {
    "primitive": ("primitive", "propagation"),
    "implementation": ("primitive", "implementation"),
    "shape": tuple(_SHAPE.split(", ")),
}
_ROWS = f"""
    SELECT {_SHAPE},
        sum(executions)::BIGINT AS executions, sum(total_ns)::BIGINT AS total_ns, min(min_ns) AS min_ns,
        max(max_ns) AS max_ns, sum(creations)::BIGINT AS creations, sum(created_ns)::BIGINT AS created_ns
    FROM primitive GROUP BY ALL ORDER BY ALL
"""


@question(
    "onednn",
    "Which oneDNN primitives took how long, in which implementation, how fast?",
    (
        Column("primitive", "text", "convolution, matmul, reorder, ..."),
        Column("propagation", "text", "forward_training, backward_data, ...; empty where it has none"),
        Column("implementation", "text", "code that ran: jit:avx512_core, brgemm, ref:any, ..."),
        Column("engine", "text", "cpu or gpu, where the log says so", visible="varying"),
        Column("types", "text", "element types of its tensors"),
        Column("attributes", "text", "attributes: post-operations, scales, ...", visible=False),
        Column("auxiliary", "text", "algorithm and the like", visible=False),
        Column("shape", "text", "the problem in benchdnn's words, or the sizes of its tensors"),
        Column("executions", "int", "number of executions", "count"),
        Column("total_ns", "int", "time of all executions", sums=True),
        Column("share_ratio", "float", "fraction of the time of all executions"),
        Column("mean_ns", "float", "mean time of an execution"),
        Column("min_ns", "int", "shortest execution", visible=False),
        Column("max_ns", "int", "longest execution", visible=False),
        Column("flops", "int", "operations of all executions (a multiply-add is 2), where a formula is known", "flop"),
        Column("flop_per_s", "float", "operations a second of their time"),
        Column("peak_flop_per_s", "float", "the processor's peak for the type", visible="varying"),
        Column("peak_ratio", "float", "fraction of that peak", visible="varying"),
        Column("creations", "int", "number of creations, where the log says so", "count", visible="varying"),
        Column("created_ns", "int", "time of all creations", visible="varying"),
    ),
    group="host",
    rests_on=(),
    parameters=(
        by_form("what a row is: a `primitive` and direction, its `implementation`, or each `shape` that ran", *_KEYS),
        LIMITS,
        Parameter("processor", "text", "name of the processor, whose peak is compared with; the log does not say it"),
    ),
    fills="Record it: stepscope launch --tool onednn -- python train.py (ONEDNN_VERBOSE=1).",
)  # fmt: skip
def onednn(scope: Scope, by: str = "primitive", limits: str = "datasheet", processor: str | None = None) -> ArrowTable:
    """Contents of the verbose log of oneDNN, DNNL or MKL-DNN, of all requested ranks and files together, the longest
    first. Times are the library's own, of each execution; `total_ns` is their plain sum. With `ONEDNN_VERBOSE=2` the
    log also has creations (`creations`, `created_ns`), which are not part of it.

    A time is that of the complete primitive on all threads, so a job that runs primitives one after the other, as
    PyTorch does, spends that much elapsed time. Work outside of primitives (Python, torch's own operators) is in no log
    of oneDNN. Printing a line costs some microseconds, so shorter primitives look cheaper than the logged job was. What
    `graph` partitions print for themselves is left out, because the primitives within them print, too.

    `flops` counts convolutions, deconvolutions, inner products and matmuls, from the problem alone: padding counts, and
    Winograd runs fewer. `flop_per_s` covers a row's counted executions. A peak is shown if the processor is known: by
    `--processor NAME` with its name in `stepscope calibrate --device cpu` or your hardware file, or from a recording of
    StepScope given with the log. Primitives of several types, and those whose arithmetic an attribute changes
    (`attr-fpmath`), have no peak.

    `ref:` implementations are plain loops, for which oneDNN has nothing faster in this type, shape or layout.
    """
    primitives = scope.sql(_ROWS).to_pylist()
    peak = _peaks(scope, limits, processor) if primitives else {}
    everything = sum(row["total_ns"] for row in primitives)
    groups = grouped(primitives, lambda row: tuple(row[key] for key in _KEYS[by]))
    rows = [
        dict(zip(_KEYS[by], key, strict=True)) | _summed(members, peak, everything) for key, members in groups.items()
    ]
    rows.sort(key=lambda row: (-row["total_ns"], *(str(row[key]) for key in _KEYS[by])))
    left_out = set(_KEYS["shape"]) - set(_KEYS[by])
    names = [column.name for column in onednn.columns if column.name not in left_out]
    return answer_dicts(onednn.columns, rows, names)


def _summed(members: list[Row], peak: dict[str, int], everything: int) -> Row:
    total_ns = sum(row["total_ns"] for row in members)
    executions = sum(row["executions"] for row in members)
    ran = [row for row in members if row["executions"]]
    row: Row = {
        "executions": executions,
        "total_ns": total_ns,
        "share_ratio": total_ns / everything if everything else None,
        "mean_ns": total_ns / executions if executions else None,
        "min_ns": min((member["min_ns"] for member in ran), default=None),
        "max_ns": max((member["max_ns"] for member in ran), default=None),
    }
    if times := sum(member["creations"] for member in members):
        row |= {"creations": times, "created_ns": sum(member["created_ns"] for member in members)}
    counted = [
        (flops * member["executions"], member)
        for member in ran
        if (flops := primitive_flops(member["primitive"], member["shape"])) is not None
    ]
    counted_ns = sum(member["total_ns"] for _, member in counted)
    if counted and counted_ns:
        flops = sum(member for member, _ in counted)
        row |= {"flops": min(flops, (1 << 63) - 1), "flop_per_s": flops / counted_ns * 1e9}
        of = {_peak(member, peak) for _, member in counted}
        peak_of_all = of.pop() if len(of) == 1 else None
        if peak_of_all:
            row |= {"peak_flop_per_s": float(peak_of_all), "peak_ratio": row["flop_per_s"] / peak_of_all}
    return row


def _peak(row: Row, peak: dict[str, int]) -> int | None:
    if row["engine"] not in (None, "cpu") or "fpmath" in (row["attributes"] or ""):
        return None
    return peak.get(DTYPES.get(row["types"] or "", ""))


def _peaks(scope: Scope, limits: str, processor: str | None) -> dict[str, int]:
    if processor is None:
        named = scope.sql("SELECT DISTINCT text FROM host_metric WHERE kind = 'processor'").to_pylist()
        if len(named) != 1:
            return {}
        processor = named[0]["text"]
    device = known_devices(limits).find(processor)
    if device is None:
        return {}
    types = {dtype: device.peak(dtype, "matrix") for dtype in DTYPES.values()}
    return {name: peak for name, peak in types.items() if peak is not None}
