"""What recordings omit from operators' inputs, for running a call again: values that must be valid indices, and texts."""

from __future__ import annotations

from stepscope.costs.call import Call
from stepscope.costs.work import by_name

DEFINED_BY_TEXT = frozenset({"aten::einsum"})
"""Operators whose work is defined by a text."""

_INDICES = by_name(
    ("embedding embedding_renorm embedding_renorm_ embedding_bag _embedding_bag", (1, 0, "rows")),
    (
        "index_select gather index_add index_add_ index_copy index_copy_ index_fill index_fill_ "
        "scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_",
        (2, 0, "along"),
    ),
    ("cross_entropy_loss nll_loss nll_loss_nd nll_loss_forward nll_loss2d nll_loss2d_forward", (1, 0, "classes")),
    ("nll_loss_backward nll_loss2d_backward", (2, 1, "classes")),
    ("embedding_dense_backward embedding_backward", (1, 2, "bound")),
)
"""Position of the indices, and of what bounds them: a tensor's rows, its extent along the dimension of input 1, or its
classes; or the bound itself."""


def index_bound(call: Call, position: int) -> int | None:
    """Exclusive upper bound of the values of an integer input (the lower is 0); None if it is not an index.

    >>> from stepscope.costs.call import parse_call
    >>> index_bound(parse_call("aten::embedding", "[[100, 8], [4]]", '["float", "long int"]'), 1)
    100
    """
    indices, bounding, kind = _INDICES.get(call.name, (None, 0, ""))
    if indices != position:
        return None
    if kind == "bound":
        return call.integer(bounding)
    tensor = call.tensor(bounding)
    if tensor is None or not tensor.shape:
        return None
    rank = len(tensor.shape)
    dimension = call.integer(1) if kind == "along" else min(1, rank - 1) if kind == "classes" else 0
    return tensor.shape[dimension] if dimension is not None and -rank <= dimension < rank else None
