"""The work of an operator call: its floating-point operations and the bytes it had to move.

All models follow the same conventions:

* A multiply and an add are two operations; a fused multiply-add counts 2. A matrix product of
  M x K by K x N therefore counts 2·M·N·K, the bias of its epilogue included: K products, K - 1 sums
  and one sum with the bias are 2·K operations for each element.
* Element-wise arithmetic counts what the written formula does: one for each add, subtract,
  multiply, divide, comparison, root, exponential, logarithm or trigonometric function.
* Arithmetic on integers and booleans is not floating-point and counts 0, except matrix
  products and convolutions of integers, for which hardware peaks in OP/s are stated.
* Bytes are the minimum that must be moved: every element of an input that the call reads is
  read once, every element of a result is written once. Elements that a broadcast repeats
  (stride 0) count once. Caches may save less or more; a kernel that needs two passes reads more.
* Zeros added by padding are multiplied like other numbers, as the usual formulas assume.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from stepscope.costs.call import Call, Tensor
from stepscope.costs.dtype import size_of

T = TypeVar("T")

PRODUCTS = frozenset({"GEMM", "convolution", "attention"})
"""Classes of work that multiply matrices."""

FAMILIES: dict[str, str | None] = {
    "gemm": "GEMM",
    "convolution": "convolution",
    "attention": "attention",
    "normalisation": "normalisation",
    "softmax": "softmax",
    "loss": "reduction",
    "elementwise": "element-wise",
    "reduction": "reduction",
    "scan": "reduction",
    "embedding": "copy",
    "indexing": "copy",
    "copy": "copy",
    "fill": "copy",
    "random": "element-wise",
    "pooling": "reduction",
    "dropout": "element-wise",
    "rnn": "GEMM",
    "optimizer": "optimizer",
    "generated": None,
    "communication": "communication",
    "view": None,
}
"""The families of models, and the class (`kernel_name.CLASSES`) that each belongs to: None for generated kernels,
classified by name, and views, which have no kernels."""

Unit = Literal["matrix", "vector"]
Bound = Literal["exact", "lower"]


@dataclass(frozen=True, slots=True)
class Conventions:
    """Choices of convention in counting, printed with every result.

    Args:
        causal: `masked` counts the query-key pairs that a causal or windowed mask allows; `full` all pairs, like
            torch's FlopCounterMode.
    """

    causal: Literal["masked", "full"] = "masked"

    def describe(self) -> str:
        """The conventions in one line."""
        pairs = (
            "only the pairs that a causal mask allows"
            if self.causal == "masked"
            else "all query-key pairs, causal or not"
        )
        return f"multiply-add = 2 operations; attention counts {pairs}; bytes are the least to move"


DEFAULT_CONVENTIONS = Conventions()


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one operator call.

    Args:
        formula: `family.what`, explained by `formulas()`.
        flops: operations, by the conventions above.
        bytes_read, bytes_written: the fewest; None if an element type or extent was not recorded.
        dtype: element type of the arithmetic, which decides the peak.
        unit: `matrix` if tensor cores (or their like) could do it, else `vector`.
        link_bytes: bytes on each rank's busiest link; only for communication.
        bound: `exact`, or `lower` if the recording shows only part of the work.
        notes: what a reader must know about this number.
        parts: the same work split up, if different kernels do parts of one operator (a convolution's gradients).
    """

    formula: str
    flops: int
    bytes_read: int | None
    bytes_written: int | None
    dtype: str | None
    unit: Unit = "vector"
    link_bytes: int | None = None
    bound: Bound = "exact"
    notes: tuple[str, ...] = ()
    parts: tuple[Work, ...] = ()

    @property
    def family(self) -> str:
        """The family that the formula belongs to."""
        return self.formula.split(".", 1)[0]

    @property
    def bytes(self) -> int | None:
        """Bytes read and written, or None if either is unknown."""
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written

    def noted(self, *notes: str) -> Work:
        """Return the same work with more notes."""
        return replace(self, notes=self.notes + notes)


Count = Callable[[Call, Conventions], "Work | None"]


@dataclass(frozen=True, slots=True)
class Model:
    """All that StepScope knows about some operators; there is no other list of operators.

    Args:
        formula: `family.what`; the family decides the class of work.
        names: its operators, as the recorder spells them.
        count: the formula, with source and convention in its docstring. Returns None for a call that it cannot count,
            or raises `MissingInput`. None for operators without a formula.
        composites: those that call other operators, recorded below them; counted only if nothing below has a formula.
        tensor_cores: whether tensor cores could do it; by default if its class is one of PRODUCTS.
        aligned_sizes: sizes of a product that should be multiples of 16 bytes, with a tensor of the element type.
        joins: whether several products of one input equal one product with the weights side by side.
        over_lists: whether a call works on many tensors at once, as fused optimizers do.
        asks_related: whether related calls can contain what its own inputs lack.
        hints_forward: whether it is a backward whose inputs reveal shapes missing from the forward call.
        form: recognises operators whose names are generated while the job runs.
    """

    formula: str
    names: tuple[str, ...]
    count: Count | None
    composites: tuple[str, ...] = ()
    tensor_cores: bool | None = None
    aligned_sizes: Callable[[Call], tuple[Tensor, dict[str, int]] | None] | None = None
    joins: bool = False
    over_lists: bool = False
    asks_related: bool = False
    hints_forward: bool = False
    form: re.Pattern[str] | None = None

    @property
    def family(self) -> str:
        """The family that the formula belongs to."""
        return self.formula.split(".", 1)[0]

    @property
    def is_eligible(self) -> bool:
        """Whether its work could run on tensor cores."""
        if self.tensor_cores is not None:
            return self.tensor_cores
        return FAMILIES.get(self.family) in PRODUCTS


def aten(words: str) -> tuple[str, ...]:
    """Full names of operators; those without a namespace get torch's.

    >>> aten("mm fbgemm::permute_pooled_embs")
    ('aten::mm', 'fbgemm::permute_pooled_embs')
    """
    return tuple(word if "::" in word else f"aten::{word}" for word in words.split())


def by_name(*rows: tuple[str, T]) -> dict[str, T]:
    """A dict by operator, from rows of operators (as `aten` takes them) with a common value.

    >>> by_name(("mm bmm", 2), ("dot", 1))
    {'aten::mm': 2, 'aten::bmm': 2, 'aten::dot': 1}
    """
    return {name: shared for names, shared in rows for name in aten(names)}


class Models(list[Model]):
    """The models of a family, each declared beside its formula."""

    def add(
        self, formula: str, names: str | tuple[str, ...], *, composites: str = "", **more: Any
    ) -> Callable[[Count], Count]:
        """Declares the decorated function as the formula of operators, as `aten` takes them; `more` is the rest of
        `Model`."""

        def declare(count: Count) -> Count:
            operators = aten(names) if isinstance(names, str) else names
            self.append(Model(formula, operators, count, aten(composites), **more))
            return count

        return declare


def total(*sizes: int | None) -> int | None:
    """Add up sizes; None if one of them is unknown."""
    result = 0
    for size in sizes:
        if size is None:
            return None
        result += size
    return result


def stored(*tensors: Tensor | None) -> int | None:
    """Bytes of tensors as stored; tensors that were not given count 0."""
    return total(*(tensor.stored_bytes for tensor in tensors if tensor is not None))


def dense(*tensors: Tensor | None) -> int | None:
    """Bytes of dense tensors of these shapes; tensors that were not given count 0."""
    return total(*(tensor.bytes for tensor in tensors if tensor is not None))


def sized(elements: int, dtype: str | None) -> int | None:
    """Bytes of this many elements; None if the type is unknown."""
    size = size_of(dtype)
    return None if size is None else elements * size


def of_lists(
    formula: str, tensors: tuple[Tensor, ...], flops: int, read: int | None, written: int | None, unit: Unit = "vector"
) -> Work:
    """Work on lists of tensors of one type, which recorders omit."""
    dtype = tensors[0].dtype
    notes = () if dtype is not None else ("element type of lists not recorded",)
    return Work(formula, flops, read, written, dtype, unit, notes=notes)


def summed(formula: str, parts: tuple[Work, ...], *notes: str) -> Work:
    """Join the parts of one call's work into one; the first part decides type and unit."""
    first = parts[0]
    return Work(
        formula=formula,
        flops=sum(part.flops for part in parts),
        bytes_read=total(*(part.bytes_read for part in parts)),
        bytes_written=total(*(part.bytes_written for part in parts)),
        dtype=first.dtype,
        unit=first.unit,
        bound="lower" if any(part.bound == "lower" for part in parts) else "exact",
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)) + notes,
        parts=parts,
    )
