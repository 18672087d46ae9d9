"""Parses the text of a marker: a call that PyProf wrapped, a stack, a module, an operator, a range.

PyProf writes Python literals into its markers: where a call is (`traceMarker`), which module it belongs to (`strRepr`)
and its arguments (`args`). torch's `emit_nvtx` writes the operator and its autograd number (`mm, seq = 72`), and on
request the shapes; recording with `--nvtx` writes the same with types and values, and modules with their classes.
Anything else is a range of the program's own. Literals are parsed within limits and never evaluated.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from stepscope.formats.bounded import integer_in

Sort = Literal["call", "stack", "module", "operator", "note", "range"]

LONGEST_LITERAL = 1 << 17
_DEEPEST = 24
_MAX_FRAMES = 512
_MAX_ARGUMENTS = 4096
_PYPROF = re.compile(r"\s*\{\s*'(?:mod|traceMarker|funcStack)'")
_NUMBERED = re.compile(
    r"(?P<name>.{1,512}?)(?P<numbers>(?:, (?:op_id|seq) = \d{1,18}(?![^,]))+)(?P<rest>,.*)?\Z", re.DOTALL
)
_NUMBER = re.compile(r"(op_id|seq) = (\d+)")
_SIZES = re.compile(r", sizes = (\[.*?\])(?:, input_op_ids\b.*)?\Z", re.DOTALL)
_STATED = re.compile(
    r"(?P<sizes>\[[\d\[\], ]*\])"
    r", types = (?P<types>\[[^\[\]]*\])(?:, values = (?P<values>\[.*\]))?\Z",
    re.DOTALL,
)
_TYPES_OF = "types of "
"""Prefix of a note that states only an operator's types and values: it is no call."""
_OF_JOB = re.compile(r"(?:rank \d+ of \d+|settings \{.*\}), stepscope\Z", re.DOTALL)
_OF_MODEL = re.compile(r"(nn\.Module: (\S+)) \(([\w.<>]+)(, model)?\)\Z")
_QUALIFIED = re.compile(r"(?:aten|prim|prims|quantized|c10d|nccl|gloo|torch::\w+|torchvision)::[\w:]+\Z")
_BARE = re.compile(r"_*[a-z]\w*\Z")


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call: a tensor's shape and type, or a scalar or a list of them.

    Args:
        name: its keyword; empty for one that was passed by position.
        kind: `tensor`, `ndarray`, or the Python type of a scalar or list.
        shape: of a tensor, else None.
        value: element type of a tensor (`float32`), else the value.
    """

    name: str
    kind: str
    shape: tuple[int, ...] | None
    value: Any


@dataclass(frozen=True, slots=True)
class Marker:
    """What a marker says.

    Args:
        sort: what it marks; a `note` describes an operator's types, or the job, and marks nothing.
        name: the operator in torch's current spelling (`aten::mm`, `MmBackward`), the wrapped function
            (`torch.nn.functional.linear`), the module with its arguments, or the text itself.
        module: where a wrapped function comes from (`torch.nn.functional`).
        function: its name there (`linear`).
        arguments: of the call.
        sequence: autograd's number of an operator.
        sizes: shapes of an operator's inputs, as JSON, if torch wrote them.
        types: their element types (`float32`), `Scalar` and `ScalarList` for those that are no tensors.
        values: those of scalars and lists, as JSON.
        frames: a call stack, outermost first.
        of_model: the path of a module, "" for the model, and its class.
    """

    sort: Sort
    name: str
    module: str = ""
    function: str = ""
    arguments: tuple[Argument, ...] = ()
    sequence: int | None = None
    sizes: str | None = None
    types: tuple[str, ...] = ()
    values: str | None = None
    frames: tuple[str, ...] = ()
    of_model: tuple[str, str] | None = None


def parse_marker(text: str) -> Marker:
    """Parses a marker's text; one that cannot be parsed is a range of that name.

    >>> parse_marker("mm, seq = 72").name
    'aten::mm'
    >>> parse_marker("{'mod': 'torch', 'op': 'relu', 'args': []}").name
    'torch.relu'
    """
    if _PYPROF.match(text):
        literal = python_literal(text)
        if isinstance(literal, dict):
            marker = _stack(literal) or _module(literal) or _call(literal)
            if marker is not None:
                return marker
        return Marker("range", text)
    if _OF_JOB.match(text):
        return Marker("note", text)
    call, _, inputs = text.partition(", sizes = ")
    stated = _STATED.match(inputs)
    if stated:
        return _with_types(call, stated)
    of_model = _OF_MODEL.match(text)
    if of_model:
        path = "" if of_model[4] else of_model[2]
        return Marker("range", of_model[1], of_model=(path, of_model[3]))
    numbered = _NUMBERED.match(text)
    if numbered:
        sizes = _SIZES.match(numbered["rest"] or "")
        numbers = dict(_NUMBER.findall(numbered["numbers"]))
        return Marker(
            "operator",
            # A torch that numbers its operators also writes their namespaces.
            numbered["name"] if "op_id" in numbers else _today(numbered["name"]),
            sequence=integer_in(numbers.get("seq")),
            sizes=_shapes(sizes[1]) if sizes else None,
        )
    if _QUALIFIED.match(text):
        return Marker("operator", text)
    return Marker("range", text)


def _with_types(call: str, stated: re.Match[str]) -> Marker:
    """An operator with its sizes, and their types and values."""
    numbered = _NUMBERED.match(call)
    numbers = dict(_NUMBER.findall(numbered["numbers"])) if numbered else {}
    sizes = _shapes(stated["sizes"])
    count = len(json.loads(sizes)) if sizes else 0
    values = _words(stated["values"] or "[]", count)
    call = numbered["name"] if numbered else call
    return Marker(
        "note" if call.startswith(_TYPES_OF) else "operator",
        call.removeprefix(_TYPES_OF),
        sequence=integer_in(numbers.get("seq")),
        sizes=sizes,
        types=_words(stated["types"], count),
        values=json.dumps(values) if values else None,
    )


def _words(text: str, count: int) -> tuple[str, ...]:
    """A JSON list of `count` texts; empty for anything else."""
    if len(text) > LONGEST_LITERAL:
        return ()
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    good = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return tuple(words) if good and len(words) == count else ()


def types_of_operators(markers: Iterable[Marker]) -> dict[tuple[str, str], Marker]:
    """For operators whose ranges state only sizes, a marker with the types and values of such a call.

    By name and sizes, in which torch omits those of lists. If calls differ in types there is no marker; if they differ
    in values it has no values.
    """
    operators: dict[tuple[str, str], Marker] = {}
    for marker in markers:
        if marker.sort != "note" or marker.sizes is None:
            continue
        sizes = [[] if _is_list_of_lists(size) else size for size in json.loads(marker.sizes)]
        key = marker.name, str(sizes)
        other = operators.setdefault(key, marker)
        if other.types != marker.types:
            operators[key] = replace(other, types=())
        elif other.values != marker.values:
            operators[key] = replace(other, values=None)
    return operators


def _is_list_of_lists(size: Any) -> bool:
    return isinstance(size, list) and any(isinstance(part, list) for part in size)


def module_classes(markers: Iterable[Marker]) -> dict[str, str]:
    """Class of each module by its path, the model's under ""; empty if no range has the model."""
    classes = dict(marker.of_model for marker in markers if marker.of_model is not None)
    return classes if "" in classes else {}


def base_name(operator: str) -> str:
    """An operator's name without namespace and without the mark of in-place operators.

    >>> base_name("aten::add_")
    'add'
    """
    base = operator.rpartition("::")[2]
    return base[:-1] if base.endswith("_") and not base.endswith("__") else base


def _today(name: str) -> str:
    """An operator's current name: until torch 1.7 names had no namespace; autograd nodes have none today."""
    return f"aten::{name}" if _BARE.match(name) else name


def python_literal(text: str) -> Any:
    """A Python literal, or None for other, too long or too deep texts. Nothing is evaluated."""
    if len(text) > LONGEST_LITERAL or _depth(text) > _DEEPEST:
        return None
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _depth(text: str) -> int:
    """An upper limit of the nesting depth: brackets and signs, counted without regard to quotes."""
    deepest = depth = signs = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
        signs = signs + 1 if character in "+-~" else 0
        deepest = max(deepest, signs)
    return deepest


def _stack(literal: dict[Any, Any]) -> Marker | None:
    frames = literal.get("traceMarker")
    if not isinstance(frames, list):
        return None
    return Marker("stack", "", frames=tuple(str(f) for f in frames[:_MAX_FRAMES]))


def _module(literal: dict[Any, Any]) -> Marker | None:
    module, representation = literal.get("mod"), literal.get("strRepr")
    if not isinstance(module, str) or not isinstance(representation, str):
        return None
    return Marker("module", f"{module}({representation})" if representation else module, module=module)


def _call(literal: dict[Any, Any]) -> Marker | None:
    module, function, given = (literal.get(key) for key in ("mod", "op", "args"))
    if not isinstance(module, str) or not isinstance(function, str) or not isinstance(given, list):
        return None
    arguments = tuple(_argument(argument) for argument in given[:_MAX_ARGUMENTS])
    return Marker("call", f"{module}.{function}", module, function, arguments)


def _argument(literal: Any) -> Argument:
    if not isinstance(literal, dict):
        return Argument("", "", None, None)
    name, kind = (literal.get(key) if isinstance(literal.get(key), str) else "" for key in ("name", "type"))
    shape = _shape(literal.get("shape"))
    if kind in ("tensor", "ndarray") and shape is not None:
        dtype = literal.get("dtype")
        return Argument(str(name), kind, shape, dtype if isinstance(dtype, str) else "")
    return Argument(str(name), str(kind), None, literal.get("value"))


def _shape(sizes: Any) -> tuple[int, ...] | None:
    if not isinstance(sizes, (tuple, list)):
        return None
    plain = all(type(size) is int and 0 <= size < 1 << 48 for size in sizes)
    return tuple(sizes) if plain else None


def _shapes(text: str) -> str | None:
    """The shapes that torch wrote, as JSON; None for anything except lists of numbers."""
    literal = python_literal(text)
    if not isinstance(literal, list):
        return None

    def plain(item: Any) -> bool:
        return (type(item) is int and item >= 0) or (isinstance(item, list) and all(plain(part) for part in item))

    return str(literal) if all(plain(item) for item in literal) else None
