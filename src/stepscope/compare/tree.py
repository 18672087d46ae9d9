"""Builds a tree of a recording's step: direction, modules, operators, kernels, and what the host did while devices
idled.

Every moment of a step is in one leaf (`analysis/steps/exclusive.py`). Without a device the leaves are host self times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from stepscope.analysis.attribution import LABELLED_WORK, NO_OPERATOR
from stepscope.analysis.counted import COUNTED_STEPS
from stepscope.analysis.recording import (
    COMMUNICATION,
    Columns,
    device_work,
    every_step,
    rank_batches,
    steps_of,
)
from stepscope.analysis.steps.breakdown import Breakdown, break_down
from stepscope.analysis.steps.exclusive import exclusive_shares
from stepscope.analysis.steps.parts import DEVICE_PARTS, PARTS
from stepscope.compare.sides import Part, padded, steps_counted
from stepscope.formats.vocabulary import AUTOGRAD_CALL
from stepscope.link.module_names import range_module
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

IDLE = "(device idle)"
"""The node of a step's time in which all devices idle; below it is what the host did meanwhile."""
REPLAYED = "CUDA graph (unattributed)"
ITSELF = "(itself)"

StepKey = tuple[int, int, int]
Key = tuple[str, str]
_NO_ROW = -1


@dataclass
class Node:
    """A node: its identity, its parts, and for each step its self time (ns) and number of pieces of work."""

    kind: str
    name: str
    class_name: str | None = None
    parts: dict[Key, Node] = field(default_factory=dict)
    self_ns: dict[StepKey, int] = field(default_factory=dict)
    self_count: int = 0

    @property
    def key(self) -> Key:
        """Distinguishes it from the other parts of the same node."""
        return self.kind, self.name

    def part(self, kind: str, name: str, class_name: str | None = None) -> Node:
        """The part of that kind and name, added if it is new."""
        part = self.parts.get((kind, name))
        if part is None:
            part = self.parts[kind, name] = Node(kind, name, class_name)
        return part

    @cached_property
    def total(self) -> dict[StepKey, int]:
        """Time of the node and all its parts, by step; call it once all are added."""
        summed = dict(self.self_ns)
        for part in self.parts.values():
            for step, ns in part.total.items():
                summed[step] = summed.get(step, 0) + ns
        return summed

    @property
    def total_ns(self) -> int:
        """Its total time in all steps."""
        return sum(self.total.values())


@dataclass(frozen=True, slots=True)
class Tree:
    """A recording as a tree. `steps` is each rank's number of steps; `of` says what the root is the sum of."""

    of: str
    root: Node
    steps: dict[int, int]

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.steps)

    @property
    def total(self) -> Part:
        """The complete step."""
        return self.part_of(self.root)

    def part_of(self, node: Node | None) -> Part:
        """A node's mean over steps and ranks, and how often its own work ran in a step; None ran in no step."""
        timing = padded({} if node is None else node.total, self.steps)
        count = 0 if node is None else node.self_count
        return Part(timing, count / sum(self.steps.values()))


def read_tree(scope: Scope) -> Tree:
    """Builds the tree of the steps that enter means."""
    steps = steps_counted(scope)
    with every_step(scope) as all_steps:
        if all_steps.value(f"SELECT EXISTS (SELECT 1 FROM device_event WHERE {WORK})"):
            root = Node("step", "step")
            for ranks in rank_batches(scope):
                _add_steps(root, scope, all_steps, ranks)
            return Tree("step", root, steps)
    root = Node("step", "host work")
    for ranks in rank_batches(scope):
        _add_rows(root, scope, _HOST_LEAVES, ranks)
    _apart(root)
    return Tree("host work", root, steps)


def _add_steps(root: Node, scope: Scope, all_steps: Scope, ranks: str) -> None:
    steps, device = steps_of(scope, ranks), device_work(all_steps, ranks, "id")
    shares: list[Columns] = []
    on_kernels: dict[tuple[int, int], np.ndarray[Any, Any]] = {}
    for key, windows_of in steps.items():
        work = device.get(key)
        length = len(windows_of["step"])
        on_kernels[key] = np.zeros(length, np.int64)
        if work is None:
            continue
        share = exclusive_shares(work, windows_of["start_ns"], windows_of["end_ns"])
        is_communication = work["work"][share.row] == COMMUNICATION
        np.add.at(on_kernels[key], share.window[is_communication], share.ns[is_communication])
        started = np.searchsorted(windows_of["start_ns"], work["start_ns"], side="right") - 1
        starting = np.flatnonzero((started >= 0) & (work["start_ns"] < windows_of["end_ns"][np.maximum(started, 0)]))
        counted = windows_of["counted"]
        for rows, windows, ns, count in (
            (share.row, share.window, share.ns, 0),
            (starting, started[starting], np.zeros(len(starting), np.int64), 1),
        ):
            enters = counted[windows]
            rows, windows, ns = rows[enters], windows[enters], ns[enters]
            rank, span, pieces = (np.full(len(rows), value) for value in (*key, count))
            step, ids = windows_of["step"][windows], work["id"][rows]
            shares.append({"rank": rank, "id": ids, "span": span, "step": step, "ns": ns, "count": pieces})
    if shares:
        joined = {name: np.concatenate([part[name] for part in shares]) for name in shares[0]}
        _add_rows(root, all_steps, _DEVICE_LEAVES, ranks, share=pa.table(joined))
    for broken in break_down(all_steps, steps, device, ranks):
        _add_idle(root, broken, on_kernels[broken.rank, broken.span])


def _add_idle(root: Node, broken: Breakdown, on_kernels: np.ndarray[Any, Any]) -> None:
    """Adds the steps' time in which all devices were idle, below the node `IDLE`."""
    idle = root.part("idle", IDLE)
    for place, name in enumerate(PARTS):
        if name in DEVICE_PARTS or not broken.measured[place]:
            continue
        ns = broken.parts_ns[:, place] - (on_kernels if name == "communication" else 0)
        if name == "communication" and not ns.any():
            continue
        node = idle.part("idle", name)
        for step, spent, counts in zip(
            broken.steps["step"].tolist(), ns.tolist(), broken.counted.tolist(), strict=True
        ):
            if counts:
                node.self_ns[broken.rank, broken.span, step] = spent


_DEVICE_LEAVES = f"""
    SELECT share.rank, share.span, share.step, event.module_id, event.direction, path.node, event.name,
        CASE WHEN path.node IS NULL THEN CASE WHEN replayed THEN '{REPLAYED}' ELSE '{NO_OPERATOR}' END END
            AS unnamed,
        sum(share.ns)::BIGINT AS ns, sum(share.count)::BIGINT AS count
    FROM beside_tree.share AS share
    JOIN ({LABELLED_WORK}) AS event ON (event.rank, event.id) = (share.rank, share.id)
    LEFT JOIN beside_tree.path AS path
        ON (path.rank, path.id) = (share.rank, coalesce(event.operator_id, event.launch_id))
    GROUP BY ALL ORDER BY ALL
"""
_HOST_LEAVES = f"""
    SELECT host.rank, host.span, host.step, host.module_id, host.direction, path.node, NULL AS name,
        NULL AS unnamed, sum(host.self_ns)::BIGINT AS ns, count(*) AS count
    FROM host_event AS host SEMI JOIN ({COUNTED_STEPS}) USING (rank, span, step)
    JOIN beside_tree.path AS path ON (path.rank, path.id) = (host.rank, host.id)
    WHERE host.kind = 'operator' AND host.{{ranks}}
    GROUP BY ALL ORDER BY ALL
"""
_ABOVE = f"""
    WITH RECURSIVE up AS (
        SELECT rank, coalesce(operator_id, launch_id) AS id FROM device_event
        WHERE {WORK} AND {{ranks}} AND coalesce(operator_id, launch_id) IS NOT NULL
        UNION SELECT host.rank, host.parent_id FROM up JOIN host_event AS host USING (rank, id)
        WHERE host.parent_id IS NOT NULL
    )
    SELECT * FROM up
"""
_ON_HOST = "SELECT rank, id FROM host_event WHERE kind IN ('operator', 'annotation') AND {ranks}"
_PATHS = f"""
    SELECT rank, id, parent_id, depth, coalesce(module_id, {_NO_ROW}) AS module_id,
        coalesce(direction, '') AS direction, name, kind = 'operator' AS is_operator,
        kind IN ('operator', 'annotation') AND coalesce(role, '') NOT IN ('step', 'module')
            AND NOT starts_with(name, '{AUTOGRAD_CALL}') AS named
    FROM host_event SEMI JOIN ({{above}}) USING (rank, id) ORDER BY rank, id
"""
_MODULES = "SELECT rank, span, module_id, parent_id, path, name, class FROM module WHERE {ranks}"


def _add_rows(root: Node, scope: Scope, query: str, ranks: str, *, share: pa.Table | None = None) -> None:
    """Adds the leaves that a query finds: a row for each step, module, direction, chain of operators and kernel."""
    above = (_ON_HOST if share is None else _ABOVE).format(ranks=ranks)
    paths, chains = _chains(scope, above)
    modules = _module_chains(scope, ranks)
    tables = {"path": paths} | ({} if share is None else {"share": share})
    with scope.with_temp_tables("beside_tree", tables):
        rows = scope.sql(query.format(ranks=ranks))
    nodes: dict[tuple[Any, ...], Node] = {}
    columns = (rows.column(name).to_pylist() for name in rows.column_names)
    for rank, span, step, module, direction, chain, name, unnamed, ns, count in zip(*columns, strict=True):
        key = rank, span, module, direction, chain, name, unnamed
        node = nodes.get(key)
        if node is None:
            node = root
            # Without gradients no direction is known: all work of a module is forward.
            towards = direction or ("forward" if module is not None else None)
            if towards is not None:
                node = node.part("direction", towards)
            for part in modules.get((rank, span, module), ()):
                node = node.part("module", *part)
            for part in chains[chain] if chain is not None else ():
                node = node.part(*part)
            if unnamed is not None:
                node = node.part("operator", unnamed)
            if name is not None:
                node = node.part("kernel", name)
            nodes[key] = node
        at = rank, span, step
        node.self_ns[at] = node.self_ns.get(at, 0) + ns
        node.self_count += count


def _chains(scope: Scope, above: str) -> tuple[pa.Table, list[tuple[Key, ...]]]:
    """For each event its chain of operators and ranges within its module and direction, as a number, and the chains."""
    host = scope.sql(_PATHS.format(above=above))
    at = {name: host.column(name).to_numpy() for name in ("rank", "id", "depth", "module_id")}
    names = host.column("name").combine_chunks().dictionary_encode()
    directions = host.column("direction").combine_chunks().dictionary_encode().indices.to_numpy()
    operator, named = (host.column(name).to_numpy(zero_copy_only=False) for name in ("is_operator", "named"))
    texts, text = names.dictionary.to_pylist(), names.indices.to_numpy()
    of_module = np.array([range_module(text_of) is not None for text_of in texts], dtype=bool)
    named &= operator | ~of_module[text]
    parents = host.column("parent_id").to_pylist()
    row_of = {pair: row for row, pair in enumerate(zip(at["rank"], at["id"], strict=True))}
    chains: list[tuple[Key, ...]] = [()]
    number: dict[tuple[int, Key], int] = {}
    chain = [0] * len(parents)
    for row in np.argsort(at["depth"], kind="stable").tolist():
        above_row = row_of.get((at["rank"][row], parents[row]), -1)
        inherits = (
            above_row >= 0
            and at["module_id"][above_row] == at["module_id"][row]
            and directions[above_row] == directions[row]
        )
        base = chain[above_row] if inherits else 0
        if named[row]:
            link = ("operator" if operator[row] else "range", texts[text[row]])
            place = base, link
            if place not in number:
                number[place] = len(chains)
                chains.append((*chains[base], link))
            base = number[place]
        chain[row] = base
    numbered = pa.table({"rank": at["rank"], "id": at["id"], "node": pa.array(chain, pa.int64())})
    return numbered.filter(pa.array(chain, pa.int64()).to_numpy() > 0), chains


def _module_chains(scope: Scope, ranks: str) -> dict[tuple[int, int, int], tuple[tuple[str, str | None], ...]]:
    rows = scope.sql(_MODULES.format(ranks=ranks)).to_pylist()
    by_number = {(row["rank"], row["span"], row["module_id"]): row for row in rows}

    def above(row: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
        seen = set()
        while row is not None and row["module_id"] not in seen:
            seen.add(row["module_id"])
            yield row["name"], row["class"]
            row = by_number.get((row["rank"], row["span"], row["parent_id"]))  # type: ignore[assignment]

    return {key: tuple(reversed(tuple(above(row)))) for key, row in by_number.items()}


def _apart(node: Node) -> None:
    """Turns a node's own values, beside its parts, into a separate part."""
    for part in list(node.parts.values()):
        _apart(part)
    if node.parts and node.self_ns:
        rest_node = node.part(node.kind, ITSELF)
        rest_node.self_ns, rest_node.self_count = node.self_ns, node.self_count
        node.self_ns, node.self_count = {}, 0
