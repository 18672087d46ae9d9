"""Finds the heaviest calls of an operator that a script can repeat, with their inputs.

The outermost public operator is replayed: what a program called (`aten::linear`), not what that chose on its device
(`aten::addmm`). A call whose child has its own name is autocast's and skipped: the inner call has the computed types.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from stepscope.analysis.attribution import HOST_CALLS
from stepscope.analysis.operators.calls import Calls, operators
from stepscope.analysis.recording import Array
from stepscope.base.errors import UsageError
from stepscope.base.known_names import did_you_mean
from stepscope.base.quoting import printable
from stepscope.costs import DEFINED_BY_TEXT, element_type, index_bound
from stepscope.costs.call import Argument, Call, Tensor, TensorList, parse_call
from stepscope.costs.dtype import size_of
from stepscope.link.columns import places
from stepscope.query.event_filter import matching
from stepscope.query.kernel_names import short_names
from stepscope.query.scope import Scope
from stepscope.schema.device_work import KERNELS

_ATEN_NAME = re.compile(r"aten::(?P<internal>_)?[a-z0-9_]{1,100}")
"""torch's own operators, and whether they are internal, which programs do not call."""
_WORD = re.compile(r"[A-Za-z0-9_.:]{1,64}")
_MAX_CHARACTERS = 1 << 20

ERRORS = {
    "nothing-to-replay": (
        "`stepscope replay` found no call that a script can make again: the recording has no such operator "
        "or kernel, no operator of torch encloses it, or its inputs were not recorded. The message says "
        "which; with inputs, a recording is made by `record_shapes=True`."
    )
}


class Rebuilt(NamedTuple):
    """The inputs of a call as Python literals, and what is assumed about it.

    A tensor is a dict of `shape`, `dtype`, `strides` (in elements) and, for indices, `below`; `tensors` is a list of
    them. Others are `value`, `float` (a text, if not finite), `unknown` (with the recorded kind), or None.
    """

    inputs: list[Any]
    assumed: tuple[str, ...]


@dataclass(slots=True)
class ReplayedCall:
    """A distinct call, over all requested ranks and steps.

    Args:
        texts: its dims, types, strides and values, as in `operator_input`.
        host_ns, device_ns: summed durations; None without device work.
        kernels: calls of each kernel that it launched.
        within: requested operators that ran in it.
    """

    name: str
    texts: tuple[str | None, str | None, str | None, str | None]
    calls: int = 0
    host_ns: int = 0
    device_ns: int | None = None
    kernels: Counter[str] = field(default_factory=Counter)
    within: set[str] = field(default_factory=set)

    def words(self) -> str:
        """Its name and shapes, for people."""
        return printable(f"{self.name} {self.texts[0] or ''}".strip())[:200]


def heaviest_calls(scope: Scope, kind: Literal["operator", "kernel"], pattern: str, top: int) -> list[ReplayedCall]:
    """The distinct calls of an operator, or of the operators that launched a kernel, by time on the device (on the host
    if none has any).

    Args:
        pattern: a name, a glob, or `/a regular expression/`; `mm` means `aten::mm`, a kernel's short name is enough.

    Raises:
        UsageError: nothing has such a name, or no operator of torch with recorded inputs encloses it.
    """
    if kind == "operator" and "::" not in pattern and not pattern.startswith(("/", "*")):
        pattern = f"aten::{pattern}"
    names = _names(scope, kind, pattern)
    calls: dict[Any, ReplayedCall] = {}
    for rank in scope.ranks:
        _add_rank(scope, rank, kind, names, calls)
    if not calls:
        raise UsageError(
            f"no operator of torch with recorded inputs encloses {printable(pattern)}",
            hint="record with record_shapes=True; autograd's nodes and operators of extensions cannot be "
            "replayed, those of torch in them can: stepscope operators SRC",
            slug="nothing-to-replay",
        )
    by_device = any(call.device_ns is not None for call in calls.values())

    def order(call: ReplayedCall) -> tuple[int, str, str]:
        weight = (call.device_ns or 0) if by_device else call.host_ns
        return -weight, call.name, repr(call.texts)

    return sorted(calls.values(), key=order)[:top]


def _names(scope: Scope, kind: str, pattern: str) -> list[str]:
    table, condition = (
        (f"({HOST_CALLS.format(host='host_event')})", "kind = 'operator'")
        if kind == "operator"
        else ("device_event", KERNELS)
    )
    query = f"SELECT DISTINCT name FROM {table} WHERE {condition}"
    names: list[str] = scope.sql(f"{query} AND {matching('name', pattern)}").column("name").to_pylist()
    if not names:
        recorded = scope.sql(f"{query} ORDER BY name").column("name").to_pylist()
        short = short_names(recorded) if kind == "kernel" else recorded
        names = [name for name, text in zip(recorded, short, strict=True) if text == pattern]
        if not names:
            if kind == "operator":  # autograd's nodes and operators of extensions cannot be replayed
                short = [name for name in short if _ATEN_NAME.fullmatch(name)]
            raise UsageError(
                f"the recording has no {kind} {printable(pattern)}",
                hint=did_you_mean(pattern, map(printable, short)) or f"it has no {kind}s at all",
                slug="nothing-to-replay",
            )
    return names


_TIMES = """
    SELECT id, dur_ns, device_ns, false AS captured FROM host_event
    WHERE rank = $rank AND kind = 'operator'
    UNION ALL SELECT id, 0, NULL, true FROM captured_event WHERE rank = $rank AND kind = 'operator'
    ORDER BY id
"""
_KERNELS = f"""
    SELECT operator_id, name, dur_ns, launch_id FROM device_event
    WHERE rank = $rank AND {KERNELS} AND operator_id IS NOT NULL
"""


def _add_rank(scope: Scope, rank: int, kind: str, names: Sequence[str], by_key: dict[Any, ReplayedCall]) -> None:
    calls = operators(scope, rank, all_operators=kind == "operator")
    if not len(calls.ids):
        return
    outer = _outermost(calls)
    kernels = scope.sql(_KERNELS, {"rank": rank})
    launched_by = places(calls.ids, kernels.column("operator_id").to_numpy())
    kernel_names = kernels.column("name").to_pylist()
    name_set = set(names)
    if kind == "operator":
        requested = np.array([name in name_set for name, _, _ in calls.keys], bool)[calls.key]
    else:
        requested = np.zeros(len(calls.ids), bool)
        of_kernel = np.array([name in name_set for name in kernel_names], bool)
        requested[launched_by[of_kernel & (launched_by >= 0)]] = True
    chosen = np.unique(outer[requested & (outer >= 0)])
    table = scope.sql(_TIMES, {"rank": rank})
    rows = places(table.column("id").to_numpy(), calls.ids[chosen])
    names_of = ("dur_ns", "device_ns", "captured")
    times = [table.column(name).take(rows).to_pylist() for name in names_of]
    of_place: dict[int, ReplayedCall] = {}
    captured: dict[int, set[int]] = {}
    for place, dur_ns, device_ns, was_captured in zip(chosen.tolist(), *times, strict=True):
        name, span, given = calls.keys[calls.key[place]]
        key = (name, calls.texts[span, given])
        call = of_place[place] = by_key.setdefault(key, ReplayedCall(*key))
        if was_captured:
            captured[place] = set()
        else:
            call.calls += 1
        call.host_ns += dur_ns
        if device_ns is not None:
            call.device_ns = (call.device_ns or 0) + device_ns
    for place in np.flatnonzero(requested).tolist():
        if (within := of_place.get(int(outer[place]))) is not None:
            within.within.add(calls.keys[calls.key[place]][0])
    durations, replays_of = (kernels.column(name).to_pylist() for name in ("dur_ns", "launch_id"))
    for place, name, ns, replay in zip(launched_by.tolist(), kernel_names, durations, replays_of, strict=True):
        within_place = int(outer[place]) if place >= 0 else -1
        if (enclosing := of_place.get(within_place)) is None:
            continue
        enclosing.kernels[name] += 1
        if within_place in captured:
            enclosing.device_ns = (enclosing.device_ns or 0) + ns
            captured[within_place].add(replay)
    for place, replays in captured.items():
        of_place[place].calls += len(replays)


def _outermost(calls: Calls) -> Array:
    """For each operator the index of the outermost one of torch that it is part of, -1 for none: a public
    one if there is one."""
    names = [name for name, _, _ in calls.keys]
    read = [_ATEN_NAME.fullmatch(name) for name in names]
    given = [calls.texts.get(key[1:], (None,))[0] is not None for key in calls.keys]
    # 2 for a public operator, 1 for an internal one, 0 for one that cannot be repeated.
    worth = np.array(
        [
            0 if not (of_torch and has) or name in DEFINED_BY_TEXT else 2 - bool(of_torch["internal"])
            for name, of_torch, has in zip(names, read, given, strict=True)
        ]
    )[calls.key]
    of_torch = np.array([match is not None for match in read], bool)[calls.key]
    numbers = {name: number for number, name in enumerate(names)}
    number = np.array([numbers[name] for name in names])[calls.key]
    inner = np.flatnonzero(calls.parent >= 0)
    worth[calls.parent[inner[number[inner] == number[calls.parent[inner]]]]] = 0
    best = np.where(worth > 0, np.arange(len(calls.ids)), -1)
    above = np.where(of_torch, calls.parent, -1)
    while (inside := np.flatnonzero(above >= 0)).size:
        up, now = above[inside], best[inside]
        # A parent of the same name is autocast's: everything above it has other types, too.
        goes_on = of_torch[up] & ~((now >= 0) & (number[up] == number[now]))
        taken = goes_on & (worth[up] > 0) & (worth[up] >= np.where(now >= 0, worth[now], 0))
        best[inside[taken]] = up[taken]
        above[inside] = np.where(goes_on, calls.parent[up], -1)
    return best


def rebuilt(call: ReplayedCall) -> Rebuilt | str:
    """The inputs of a call, or why it cannot be repeated."""
    dims, types, strides, values = call.texts
    if types is None:
        return "the types of its inputs are not recorded"
    heaviest = max(call.kernels, key=call.kernels.__getitem__, default="")
    kind = element_type(heaviest)
    parsed = parse_call(call.name, dims, types, strides, values, list_dtype=kind)
    if parsed is None:
        return "its recorded inputs cannot be read"
    inputs = [_literal(parsed, place, given) for place, given in enumerate(parsed.arguments)]
    for place, literal in enumerate(inputs):
        if isinstance(literal, str):
            return f"input {place}: {literal}"
    tensors = [item for item in inputs if isinstance(item, dict) and "shape" in item]
    assumed = []
    if any(isinstance(item, TensorList) for item in parsed.arguments):
        type_text = f"{kind} as a kernel's name has it" if kind else _dtype_of_other_input(parsed)
        assumed.append(f"tensors of lists, whose type is not recorded, are {type_text}")
    if strides is None:
        assumed.append("tensors, whose strides are not recorded, are contiguous")
    if any(item["dtype"].startswith(("int", "uint")) and "below" not in item for item in tensors):
        assumed.append("integers that are not known to be indices are 0")
    if any(item["dtype"] == "bool" for item in tensors):
        assumed.append("masks are True everywhere")
    return Rebuilt(inputs, tuple(assumed))


def _literal(call: Call, position: int, given: Argument) -> dict[str, Any] | str | None:
    if given is None:
        return None
    if isinstance(given, Tensor):
        return _tensor(given, index_bound(call, position))
    if isinstance(given, TensorList):
        if not given.tensors:
            return "a list of tensors that is not recorded: PyTorch leaves lists of more than 30 out"
        kind = _dtype_of_other_input(call)
        listed = [_tensor(Tensor(t.shape, t.dtype or kind, t.strides), None) for t in given.tensors]
        return next((item for item in listed if isinstance(item, str)), {"tensors": listed})
    value = given.value
    if value is None:
        if "List" in given.kind:
            return "a list that is not recorded: newer versions of PyTorch record it"
        return {"unknown": given.kind if _WORD.fullmatch(given.kind) else ""}
    if isinstance(value, str):
        return {"value": value} if _WORD.fullmatch(value) else "a text that is not recorded in full"
    if isinstance(value, tuple):
        if not all(isinstance(item, (bool, int, float)) and math.isfinite(item) for item in value):
            return "a list that is not recorded in full"
        return {"value": list(value)}
    return {"value": value} if math.isfinite(value) else {"float": str(value)}


def _dtype_of_other_input(call: Call) -> str:
    """Element type for lists of tensors, which recorders omit: that of a tensor beside them."""
    dtypes = (tensor.dtype for tensor in call.arguments if isinstance(tensor, Tensor) and tensor.dtype)
    return next(dtypes, "float32")


def _tensor(tensor: Tensor, below: int | None) -> dict[str, Any] | str:
    if tensor.dtype is None or size_of(tensor.dtype) is None:
        return "a tensor whose type is not known"
    if tensor.dtype.startswith("q"):
        return "a quantized tensor, whose scale is not recorded"
    strides = tensor.strides if tensor.strides is not None else _contiguous(tensor.shape)
    if any(stride < 0 for stride in strides):
        return "a tensor with strides that torch does not have"
    literal: dict[str, Any] = {"shape": list(tensor.shape), "dtype": tensor.dtype, "strides": list(strides)}
    if below is not None and tensor.dtype.startswith(("int", "uint")):
        literal["below"] = below
    return literal


def _contiguous(shape: Iterable[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(tuple(shape)):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def kernel_names(call: ReplayedCall) -> list[str]:
    """The kernels that it launched; empty if their names are too long for a script."""
    names = sorted(map(printable, call.kernels))
    return names if sum(map(len, names)) <= _MAX_CHARACTERS else []
