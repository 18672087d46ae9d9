"""All models, with those of plug-ins: the only way to the work of an operator call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache, lru_cache, wraps
from typing import NamedTuple

from stepscope.base.plugins import PlugIn, load, of_type
from stepscope.costs.call import Call, MissingInput, parse_call
from stepscope.costs.families import MODELS
from stepscope.costs.work import DEFAULT_CONVENTIONS, FAMILIES, Conventions, Model, Work

BY_NAME = {name: model for model in MODELS for name in model.names}
_BY_FORM = [model for model in MODELS if model.form is not None]
_LONGEST = 4096
"""At most this much of a name is matched against a form."""

_LARGEST = (1 << 63) - 1


class Row(NamedTuple):
    """A distinct operator call, with the texts of table `operator_input`.

    Args:
        list_dtype: element type of tensors in lists, if a kernel's name has it; recorders omit it.
        related: calls that may have what this one lacks: the operators around it, and a forward call's backward.
    """

    name: str
    dims: str | None = None
    types: str | None = None
    strides: str | None = None
    values: str | None = None
    list_dtype: str | None = None
    related: tuple[Row, ...] = ()


class Formula(NamedTuple):
    """A formula as the documentation prints it."""

    formula: str
    family: str
    operators: tuple[str, ...]
    text: str


@lru_cache(maxsize=16_384)
def model_of(name: str) -> Model | None:
    """The model of an operator, None without one: the only way from a name to its model. Plug-ins are asked last."""
    return our_model_of(name) or _added().get(name)


@lru_cache(maxsize=16_384)
def our_model_of(name: str) -> Model | None:
    """Find the model of an operator among our own, for answers that do not use plug-ins."""
    return BY_NAME.get(name) or next(
        (model for model in _BY_FORM if model.form and model.form.match(name[:_LONGEST])), None
    )


@cache
def _added() -> dict[str, Model]:
    return {
        name: _guarded(plug_in, model)
        for plug_in, model in load("operators", Model, _names, BY_NAME)
        for name in model.names
    }


def _names(model: Model) -> tuple[str, ...]:
    if model.family not in FAMILIES:
        raise ValueError(f"{model.family!r} is not a family of formulas")
    of_type(tuple, model.composites)
    return model.names


def _guarded(plug_in: PlugIn, model: Model) -> Model:
    """Wraps a plug-in's model, so that a fault in it only leaves the work of its operators unknown."""
    count, aligned_sizes = model.count, model.aligned_sizes

    def counted(call: Call, conventions: Conventions) -> Work | None:
        try:
            work = None if count is None else count(call, conventions)
        except MissingInput:
            work = None
        return None if work is None else _countable(of_type(Work, work))

    return replace(
        model,
        count=count and plug_in.or_else(None, wraps(count)(counted)),
        aligned_sizes=aligned_sizes and plug_in.or_else(None, aligned_sizes),
    )


def _countable(work: Work) -> Work:
    if work.family not in FAMILIES:
        raise ValueError(f"{work.family!r} is not a family of formulas")
    for name in ("flops", "bytes_read", "bytes_written", "link_bytes"):
        if type(getattr(work, name)) not in (int, type(None)):
            raise TypeError(f"{name} is {getattr(work, name)!r}, which is not an integer")
    return work


def is_composite(name: str) -> bool:
    """Whether an operator calls other operators that are recorded below it.

    >>> is_composite("aten::linear"), is_composite("aten::addmm")
    (True, False)
    """
    model = model_of(name)
    return model is not None and name in model.composites


def forward_hints() -> list[str]:
    """Backward operators whose inputs reveal shapes missing from the forward call."""
    return [name for model in MODELS if model.hints_forward for name in model.names]


NOT_RECORDED = "inputs not recorded"


def missing_reason(row: Row) -> str | None:
    """Why a call cannot be counted: `no formula`, `inputs not recorded` or `inputs do not tell`; None if it can."""
    if count_work(row) is not None:
        return None
    model = model_of(row.name)
    if model is None or model.count is None:
        return "no formula"
    return NOT_RECORDED if _parse(row) is None else "inputs do not tell"


def formulas() -> list[Formula]:
    """List all formulas with their operators and the text that explains them."""
    return [
        Formula(model.formula, model.family, model.names, (model.count.__doc__ or "").strip())
        for model in MODELS
        if model.count is not None
    ]


def work(
    name: str,
    dims: str | None,
    types: str | None = None,
    strides: str | None = None,
    values: str | None = None,
    *,
    conventions: Conventions = DEFAULT_CONVENTIONS,
    list_dtype: str | None = None,
    related: Iterable[Row] = (),
) -> Work | None:
    """Counts the work of one operator call from its recorded inputs (see Row); None without a model or an input.

    Malformed texts give None; nothing is guessed, nothing raised.

    >>> work("aten::mm", "[[8, 128], [128, 256]]", '["float", "float"]').flops
    524288
    """
    return count_work(Row(name, dims, types, strides, values, list_dtype, tuple(related)), conventions)


@lru_cache(maxsize=65_536)
def count_work(row: Row, conventions: Conventions = DEFAULT_CONVENTIONS) -> Work | None:
    """Count the work of a distinct call; results are cached."""
    model = model_of(row.name)
    if model is None or model.count is None or (call := _parse(row)) is None:
        return None
    try:
        work = model.count(call, conventions)
    except MissingInput:
        return None
    return work if work is not None and _fits(work) else None


def _parse(row: Row) -> Call | None:
    related = (_parse(other) for other in row.related)
    return parse_call(
        row.name,
        row.dims,
        row.types,
        row.strides,
        row.values,
        list_dtype=row.list_dtype,
        related=tuple(call for call in related if call is not None),
    )


def _fits(work: Work) -> bool:
    numbers = (work.flops, work.bytes_read or 0, work.bytes_written or 0, work.link_bytes or 0)
    return all(0 <= number <= _LARGEST for number in numbers) and (
        (work.bytes_read or 0) + (work.bytes_written or 0) <= _LARGEST
    )
