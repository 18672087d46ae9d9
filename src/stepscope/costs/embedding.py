"""Look-ups in embedding tables, their bags and their gradients.

A look-up moves rows and computes nothing. Rows that several indices name count each time: which
indices repeat is data that no recording holds.
"""

from __future__ import annotations

from stepscope.costs.call import Call, Tensor
from stepscope.costs.work import Conventions, Model, Work, aten, total


def _bytes(tensor: Tensor | None) -> int | None:
    return 0 if tensor is None else tensor.stored_bytes


def lookup(call: Call, _: Conventions) -> Work | None:
    """Look-up, `embedding(table [V, d], indices)`: reads indices and a row for each, writes the rows."""
    table, indices = call.tensor(0), call.tensor(1)
    if table is None or indices is None or len(table.shape) != 2:
        return None
    size = table.element_size
    rows = None if size is None else indices.elements * table.shape[1] * size
    return Work(
        formula="embedding.lookup",
        flops=0,
        bytes_read=total(indices.stored_bytes, rows),
        bytes_written=rows,
        dtype=table.dtype,
    )


def gradient(call: Call, _: Conventions) -> Work | None:
    """Gradient of a table, `embedding_dense_backward(grad, indices, V)`: one addition an element.

    Reads gradient and indices; writes the whole table's gradient, most of it zeros.
    """
    grad, indices, rows = call.tensor(0), call.tensor(1), call.integer(2)
    if grad is None or indices is None or not grad.shape:
        return None
    size = grad.element_size
    known = size is not None and rows is not None
    return Work(
        formula="embedding.gradient",
        flops=grad.elements,
        bytes_read=total(grad.stored_bytes, indices.stored_bytes),
        bytes_written=rows * grad.shape[-1] * size if known and rows and size else None,
        dtype=grad.dtype,
        notes=() if rows is not None else ("rows of the table not recorded",),
    )


def bag(call: Call, _: Conventions) -> Work | None:
    """Sums of bags of rows, `_embedding_bag(table, indices, offsets, ..., mode, ...)`.

    One addition for each element looked up, one multiplication more with weights for each sample,
    and one division for each result in mode 1 (mean). Reads indices, offsets, weights and a row for
    each index; writes a row for each bag.
    """
    table, indices, offsets = call.tensor(0), call.tensor(1), call.tensor(2)
    weights = call.tensor(6)
    if table is None or indices is None or offsets is None or len(table.shape) != 2:
        return None
    width, size = table.shape[1], table.element_size
    bags = max(0, offsets.elements - (1 if call.flag(7) else 0))
    looked_up = indices.elements * width
    flops = looked_up * (1 if weights is None else 2)
    if call.integer(4) == 1:
        flops += bags * width
    return Work(
        formula="embedding.bag",
        flops=flops,
        bytes_read=total(
            indices.stored_bytes,
            offsets.stored_bytes,
            _bytes(weights),
            None if size is None else looked_up * size,
        ),
        bytes_written=None if size is None else bags * width * size,
        dtype=table.dtype,
    )


def bag_gradient(call: Call, _: Conventions) -> Work | None:
    """Gradient of a table from bags: one addition for each element looked up; writes the table.

    `_embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, maximum_indices, V, ...)`.
    """
    grad, indices, owners = call.tensor(0), call.tensor(1), call.tensor(2)
    rows = call.integer(5)
    if grad is None or indices is None or len(grad.shape) != 2:
        return None
    size = grad.element_size
    return Work(
        formula="embedding.bag_gradient",
        flops=indices.elements * grad.shape[1],
        bytes_read=total(grad.stored_bytes, indices.stored_bytes, _bytes(owners)),
        bytes_written=None if rows is None or size is None else rows * grad.shape[1] * size,
        dtype=grad.dtype,
    )


MODELS: tuple[Model, ...] = (
    Model("embedding.lookup", aten("embedding"), lookup, composites=aten("embedding")),
    Model(
        "embedding.gradient",
        aten("embedding_dense_backward embedding_backward"),
        gradient,
        composites=aten("embedding_backward"),
    ),
    Model(
        "embedding.bag",
        aten("embedding_bag _embedding_bag _embedding_bag_forward_only"),
        bag,
        composites=aten("embedding_bag"),
    ),
    Model("embedding.bag_gradient", aten("_embedding_bag_dense_backward"), bag_gradient),
)
