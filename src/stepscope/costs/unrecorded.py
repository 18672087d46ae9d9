"""What recordings omit from operators' inputs, for running a call again: values that must be valid indices, and texts."""

from __future__ import annotations

from stepscope.costs.call import Call
from stepscope.costs.work import by_name

DEFINED_BY_TEXT = frozenset({"aten::einsum"})
"""Operators whose work is defined by a text."""

_ROWS = by_name(("embedding embedding_renorm embedding_renorm_ embedding_bag _embedding_bag", (1, 0)))
"""Position of the indices, and of the tensor whose rows they select."""

_ALONG = by_name(
    (
        "index_select gather index_add index_add_ index_copy index_copy_ index_fill index_fill_ "
        "scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_",
        (2, 0),
    )
)
"""Position of the indices, and of the tensor that they index along the dimension of input 1."""

_CLASSES = by_name(
    ("cross_entropy_loss nll_loss nll_loss_nd nll_loss_forward nll_loss2d nll_loss2d_forward", (1, 0)),
    ("nll_loss_backward nll_loss2d_backward", (2, 1)),
)
"""Position of the targets, and of the tensor whose classes they name."""

_COUNTED = by_name(("embedding_dense_backward embedding_backward", (1, 2)))
"""Position of the indices, and of their exclusive upper bound."""


def index_bound(call: Call, position: int) -> int | None:
    """Exclusive upper bound of the values of an integer input (the lower is 0); None if it is not an index.

    >>> from stepscope.costs.call import parse_call
    >>> index_bound(parse_call("aten::embedding", "[[100, 8], [4]]", '["float", "long int"]'), 1)
    100
    """
    if _COUNTED.get(call.name, (None, 0))[0] == position:
        return call.integer(_COUNTED[call.name][1])
    for table in (_ROWS, _ALONG, _CLASSES):
        of, indexed = table.get(call.name, (None, 0))
        tensor = call.tensor(indexed)
        if of != position or tensor is None or not tensor.shape:
            continue
        dimension: int | None = 0
        if table is _ALONG:
            dimension = call.integer(1)
        elif table is _CLASSES:
            dimension = min(1, len(tensor.shape) - 1)
        if dimension is not None and -len(tensor.shape) <= dimension < len(tensor.shape):
            return tensor.shape[dimension]
    return None
