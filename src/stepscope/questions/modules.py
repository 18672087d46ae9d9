"""`modules`: the parts of the model by time, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.analysis.attribution import NO_MODULE
from stepscope.analysis.recording import Array
from stepscope.analysis.tree import parents_first
from stepscope.query.declare import Column, Parameter, question
from stepscope.query.rows import ArrowTable
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

_IN_FORWARD = "direction IS NULL OR direction NOT IN ('backward', 'optimizer')"
"""Without gradients no direction is known: all work of a module is then forward."""


def _parts(value: str, name: str) -> str:
    return f"""
        sum({value})::BIGINT AS {name}_self_ns,
        coalesce(sum({value}) FILTER (WHERE {_IN_FORWARD}), 0)::BIGINT AS forward_{name}_ns,
        coalesce(sum({value}) FILTER (WHERE direction = 'backward'), 0)::BIGINT AS backward_{name}_ns
    """


_DEVICE = f"SELECT count(*) AS device_events, {_parts('dur_ns', 'device')}"
_SUMMED = (
    *("host_self_ns", "forward_host_ns", "backward_host_ns"),
    *("device_self_ns", "forward_device_ns", "backward_device_ns", "device_events"),
)
"""Modules' own values, which are added to those of their parents."""

_TREE = f"""
    WITH
    host AS (
        SELECT rank, span, module_id, {_parts("self_ns", "host")}
        FROM host_event WHERE module_id IS NOT NULL GROUP BY ALL
    ),
    device AS (
        {_DEVICE}, rank, span, module_id
        FROM device_event WHERE {WORK} AND module_id IS NOT NULL GROUP BY ALL
    ),
    called AS (
        SELECT rank, span, module_id, count(*) AS calls_in_steps
        FROM host_event WHERE role = 'module' AND $narrowed GROUP BY ALL
    )
    SELECT
        min(module.name) AS name, module.path AS path, min(module.class) AS class, bool_or(module.compiled) AS compiled,
        min(module.depth) AS depth, min(parent_path) AS parent_path,
        sum(CASE
            WHEN $named THEN NULL
            WHEN NOT $narrowed THEN module.calls
            -- only Python frames show each call of a module, so that calls of a step can be counted
            WHEN module.rule = 'python' THEN coalesce(calls_in_steps, CASE WHEN NOT $under THEN 0 END)
        END)::BIGINT AS calls,
        {", ".join(f"coalesce(sum({column}), 0)::BIGINT AS {column}" for column in _SUMMED)}
    FROM module
    LEFT JOIN (SELECT rank, span, module_id AS parent_id, path AS parent_path FROM module) USING (rank, span, parent_id)
    LEFT JOIN host USING (rank, span, module_id)
    LEFT JOIN device USING (rank, span, module_id)
    LEFT JOIN called USING (rank, span, module_id)
    GROUP BY module.path ORDER BY min(module.module_id), module.path
"""


@question(
    "modules",
    "Which parts of the model take the time, forward and backward?",
    (
        Column("name", "text", "last part of the module's path"),
        Column("path", "text", "path of the module from the root of the model", visible=False),
        Column("class", "text", "class of the module"),
        Column("compiled", "bool", "whether it is code of torch.compile, not a layer", visible=False),
        Column("depth", "int", "number of modules above it", visible=False),
        Column("parent_path", "text", "enclosing module", visible=False),
        Column("calls", "int", "forward calls", "count"),
        Column("device_total_ns", "int", "device time of the module and all modules below it", sums=True),
        Column("share_ratio", "float", "fraction of all device work"),
        Column("device_self_ns", "int", "device time of the module without those below it"),
        Column("forward_device_ns", "int", "device total of the forward"),
        Column("backward_device_ns", "int", "device total of the backward"),
        Column("host_total_ns", "int", "host time of the module and all modules below it"),
        Column("host_self_ns", "int", "host time of the module without those below it"),
        Column("forward_host_ns", "int", "host total of the forward", visible=False),
        Column("backward_host_ns", "int", "host total of the backward", visible=False),
    ),
    group="operators and kernels",
    rests_on=("host-times", "device-work", "device-times", "stream-order", "launches", "replayed-operators"),
    about="events",
    parameters=(Parameter("depth", "int", "deepest level to list: 0 lists only the model"),),
    drawing="tree",
    fills="Record with stepscope record, or with torch.profiler.profile(with_stack=True, with_modules=True).",
)
def modules(scope: Scope, depth: int | None = None) -> ArrowTable:
    """The model as a tree, parents before their parts; modules of one path on all requested ranks are one row.
    `--depth` hides deeper modules, whose time stays in the totals above them.

    **Device total** is the summed duration of the kernels, copies and fills that the module and the modules below it
    launched, in forward and in backward; **device self** is the part that no module below it accounts for. A last row,
    `(no module)`, has the work that belongs to no module (the optimizer, the loss, copies of input), so that the self
    times add up to all device work.

    Backward work is launched by autograd's threads, outside of any module: it belongs to the module of its forward,
    matched by sequence number and forward thread or by the recorder's `fwdbwd` arrows. What activation checkpointing
    recomputes in backward is backward work of the same module, and not a further call of it. Accumulating a gradient
    (`AccumulateGrad`) has no number: autograd does it right after the node that computed the gradient, and it belongs
    to that node's module; for a parameter that several modules share, to the module whose backward comes last.

    In recordings of `stepscope record` and `stepscope.trace` the model itself is the row with its class for a path, and
    its parts have their paths of `named_modules()`, without the wrappers of DDP, FSDP and torch.compile. Code that
    torch.compile made of modules is listed as `(compiled code)` below the module that runs it, one row for all its
    pieces, and is not a layer: the frames do not show to which layers its work belongs.

    **Host times** are sums over threads of what ran in the module, each moment of a thread counted once, for the
    innermost module. Host time outside of modules is not given: most of it is waiting.

    With `--name` the times are those of the matching events, and calls are not counted. With `--under` modules without
    any of the requested work are left out.

    The TensorBoard plugin's module view has no backward, and its device self time is that of the module's direct
    operators with everything below these.
    """
    import pyarrow as pa

    part = scope.part
    under, window = part.under is not None, part.window is not None
    narrowed = scope.steps is not None or window or under
    tree = scope.sql(_TREE, {"narrowed": narrowed, "under": under, "named": part.name is not None})
    if tree.num_rows == 0:
        return tree.select(["name", "path", "class"])
    parents = _parents(tree)
    order = parents_first(parents)
    self_values = np.stack([tree.column(name).to_numpy() for name in _SUMMED], axis=1)
    total = self_values.copy()
    for row in reversed(order):
        if parents[row] >= 0:
            total[parents[row]] += total[row]
    everything = scope.sql(f"{_DEVICE} FROM device_event WHERE {WORK}").to_pylist()[0]
    columns = _columns(tree, self_values, total, everything["device_self_ns"])
    listed = [row for row in order if depth is None or columns["depth"][row] <= depth]
    columns = {name: [values[row] for row in listed] for name, values in columns.items()}
    left_over = _left_over(everything, self_values.sum(axis=0))
    if left_over:
        for name, values in columns.items():
            values.append(left_over.get(name))
    return pa.table(columns)


def _parents(tree: ArrowTable) -> list[int]:
    """Row of each row's parent, -1 at a root; only a row nearer to the root is one, so that no row is above itself."""
    paths, depths = tree.column("path").to_pylist(), tree.column("depth").to_pylist()
    row_of = {path: row for row, path in enumerate(paths)}
    parents = [row_of.get(path, -1) for path in tree.column("parent_path").to_pylist()]
    return [parent if parent >= 0 and depths[parent] < depths[row] else -1 for row, parent in enumerate(parents)]


def _columns(tree: ArrowTable, self_values: Array, total: Array, device_ns: int | None) -> dict[str, list[Any]]:
    """The answer's columns. If no device work has a module, the modules' device times were not measured."""
    of_tree = ("name", "path", "class", "compiled", "depth", "parent_path", "calls")
    columns: dict[str, list[Any]] = {name: tree.column(name).to_pylist() for name in of_tree}
    for name, values, totals in zip(_SUMMED[:-1], self_values.T.tolist(), total.T.tolist(), strict=False):
        if name.endswith("_self_ns"):
            columns |= {name: values, name.replace("_self_", "_total_"): totals}
        else:
            columns[name] = totals
    columns["share_ratio"] = [ns / device_ns if device_ns else None for ns in columns["device_total_ns"]]
    if not self_values[:, -1].any():
        for name in columns:
            if "device" in name or name == "share_ratio":
                columns[name] = [None] * len(self_values)
    return columns


def _left_over(everything: dict[str, Any], of_modules: Array) -> dict[str, Any] | None:
    left = {
        name: (everything[name] or 0) - int(of_modules[position])
        for position, name in enumerate(_SUMMED)
        if name in everything
    }
    if not left["device_events"]:
        return None
    device_ns = everything["device_self_ns"]
    return {
        **left,
        "name": NO_MODULE,
        "path": NO_MODULE,
        "device_total_ns": left["device_self_ns"],
        "share_ratio": left["device_self_ns"] / device_ns if device_ns else None,
    }
