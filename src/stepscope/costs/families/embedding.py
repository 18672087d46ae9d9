"""Look-ups in embedding tables, their bags and their gradients.

A look-up moves rows and computes nothing. A row counts each time an index names it: recordings do
not contain the indices, so repetitions are unknown.
"""

from __future__ import annotations

from stepscope.costs.call import Call
from stepscope.costs.work import Conventions, Models, Work, sized, stored, total

MODELS = Models()


@MODELS.add("embedding.lookup", "embedding", composites="embedding")
def lookup(call: Call, _: Conventions) -> Work | None:
    """Look-up, `embedding(table [V, d], indices)`: reads indices and a row for each, writes the rows."""
    table, indices = call.given(0, 1)
    if len(table.shape) != 2:
        return None
    rows = sized(indices.elements * table.shape[1], table.dtype)
    return Work("embedding.lookup", 0, total(stored(indices), rows), rows, table.dtype)


@MODELS.add("embedding.gradient", "embedding_dense_backward embedding_backward", composites="embedding_backward")
def gradient(call: Call, _: Conventions) -> Work | None:
    """Gradient of a table, `embedding_dense_backward(grad, indices, V)`: one addition per element. Reads gradient and
    indices; writes the entire table's gradient, most of it zeros."""
    (grad, indices), rows = call.given(0, 1), call.integer(2)
    if not grad.shape:
        return None
    return Work(
        "embedding.gradient",
        flops=grad.elements,
        bytes_read=stored(grad, indices),
        bytes_written=sized(rows * grad.shape[-1], grad.dtype) if rows else None,
        dtype=grad.dtype,
        notes=() if rows is not None else ("rows of the table not recorded",),
    )


@MODELS.add("embedding.bag", "embedding_bag _embedding_bag _embedding_bag_forward_only", composites="embedding_bag")
def bag(call: Call, _: Conventions) -> Work | None:
    """Sums of bags of rows, `_embedding_bag(table, indices, offsets, ..., mode, ...)`. One addition for each element
    looked up, one more multiplication with weights for each sample, and one division for each result in mode 1 (mean).
    Reads indices, offsets, weights and a row for each index; writes a row for each bag."""
    (table, indices, offsets), weights = call.given(0, 1, 2), call.tensor(6)
    if len(table.shape) != 2:
        return None
    width = table.shape[1]
    outs = width * max(0, offsets.elements - (1 if call.flag(7) else 0))
    looked_up = indices.elements * width
    flops = looked_up * (1 if weights is None else 2) + (outs if call.integer(4) == 1 else 0)
    read = total(stored(indices, offsets, weights), sized(looked_up, table.dtype))
    return Work("embedding.bag", flops, read, sized(outs, table.dtype), table.dtype)


@MODELS.add("embedding.bag_gradient", "_embedding_bag_dense_backward")
def bag_gradient(call: Call, _: Conventions) -> Work | None:
    """Gradient of a table from bags: one addition for each element looked up; writes the table.
    `_embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, maximum_indices, V, ...)`."""
    (grad, indices), rows = call.given(0, 1), call.integer(5)
    if len(grad.shape) != 2:
        return None
    width, read = grad.shape[1], stored(grad, indices, call.tensor(2))
    written = None if rows is None else sized(rows * width, grad.dtype)
    return Work("embedding.bag_gradient", indices.elements * width, read, written, grad.dtype)
