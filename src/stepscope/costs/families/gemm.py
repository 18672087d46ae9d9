"""Matrix products: mm, addmm, bmm, baddbmm, linear, matmul, scaled, integer and grouped ones.

Source of all formulas: the definition of the product. C[m, n] is a sum of K products, so
M·N products of length K are 2·M·N·K operations (the epilogue's bias included, see `work`).
A complex product counts four times as much: a complex multiply-add is four real ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from stepscope.costs.call import Call, MissingInput, Scalar, Tensor, broadcast
from stepscope.costs.dtype import is_complex, real_of, scalar_type
from stepscope.costs.work import Conventions, Model, Models, Work, aten, sized, stored, total

MODELS = Models()


def _product(
    formula: str, a: Tensor, multiply_adds: int, read: int | None, out_elements: int, out_dtype: str | None, *notes: str
) -> Work:
    flops = 2 * multiply_adds * (4 if is_complex(a.dtype) else 1)
    return Work(formula, flops, read, sized(out_elements, out_dtype), real_of(a.dtype), "matrix", notes=notes)


def _packed(a: Tensor) -> int:
    """Numbers in one element: 2 in the byte of a packed float4."""
    return 2 if a.dtype == "float4_e2m1fn_x2" else 1


def _mkn(a: Tensor, b: Tensor) -> tuple[int, int, int]:
    """M, K and N of a plain product.

    Raises:
        MissingInput: the shapes do not fit.
    """
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise MissingInput
    return a.shape[0], a.shape[1] * _packed(a), b.shape[1]


def _sizes_of(a_at: int, b_at: int) -> Callable[[Call], tuple[Tensor, dict[str, int]] | None]:
    """Reader of the sizes that are contiguous in memory in `a @ b`, with a and b at these positions."""

    def sizes(call: Call) -> tuple[Tensor, dict[str, int]] | None:
        a, b = call.tensor(a_at), call.tensor(b_at)
        if a is None or b is None or len(a.shape) < 2 or len(b.shape) < 2:
            return None
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        # The dimension contiguous in memory must be the multiple: K or M of a, N or K of b.
        mkn: dict[str, int] = {}
        for tensor, names in ((a, ("M", "K")), (b, ("K", "N"))):
            steps = tensor.strides
            column = steps is not None and steps[-2] == 1 and steps[-1] != 1
            name = names[0] if column else names[1]
            mkn[name] = {"M": m, "K": k, "N": n}[name]
        mkn["N"] = n
        return a, mkn

    return sizes


def _sizes_of_layer(call: Call) -> tuple[Tensor, dict[str, int]] | None:
    """N and K of a fully connected layer, by its weight."""
    x, w = call.tensor(0), call.tensor(1)
    if x is None or w is None or len(w.shape) != 2:
        return None
    return w, {"N": w.shape[0], "K": w.shape[1]}


@MODELS.add("gemm.mm", "mm _int_mm", aligned_sizes=_sizes_of(0, 1), joins=True)
def mm(call: Call, _: Conventions) -> Work | None:
    """Plain product, `mm(a, b)`: 2·M·N·K; reads both matrices, writes M·N of their type. `_int_mm` writes int32. The
    call may name a result type."""
    a, b = call.given(0, 1)
    m, k, n = _mkn(a, b)
    out = "int32" if call.name == "aten::_int_mm" else a.dtype
    out_type = scalar_type(call.integer(2)) if call.name == "aten::mm" else None
    return _product("gemm.mm", a, m * k * n, stored(a, b), m * n, out_type or out)


@MODELS.add("gemm.addmm", "addmm addmm_ _addmm_activation", aligned_sizes=_sizes_of(1, 2), joins=True)
def addmm(call: Call, _: Conventions) -> Work | None:
    """Product with an addend, `addmm(c, a, b, beta, alpha)`: 2·M·N·K. Reads a, b and what is stored of c (a bias of N
    elements counts N); c is not read if beta is 0."""
    a, b = call.given(1, 2)
    m, k, n = _mkn(a, b)
    addend = None if call.number(3) == 0 else call.tensor(0)
    return _product("gemm.addmm", a, m * k * n, stored(a, b, addend), m * n, a.dtype)


@MODELS.add("gemm.bmm", "bmm", aligned_sizes=_sizes_of(0, 1))
def bmm(call: Call, _: Conventions) -> Work | None:
    """Batched product, `bmm(a, b)`: 2·B·M·N·K. The call may name a result type."""
    return _batched(call, "gemm.bmm", 0, None, scalar_type(call.integer(2)))


@MODELS.add("gemm.baddbmm", "baddbmm baddbmm_ _baddbmm_mkl_ addbmm addbmm_", aligned_sizes=_sizes_of(1, 2))
def baddbmm(call: Call, _: Conventions) -> Work | None:
    """Batched product with an addend, `baddbmm(c, a, b, beta, alpha)`: 2·B·M·N·K, reads c. `addbmm` sums over the batch
    and writes one M x N matrix only."""
    addend = None if call.number(3) == 0 else call.tensor(0)
    return _batched(call, "gemm.baddbmm", 1, addend)


def _batched(call: Call, formula: str, first: int, c: Tensor | None, out: str | None = None) -> Work | None:
    a, b = call.given(first, first + 1)
    if len(a.shape) != 3 or len(b.shape) != 3:
        return None
    (batch, m, k), (batch2, k2, n) = a.shape, b.shape
    if batch != batch2 or k != k2:
        return None
    written = m * n if call.name.startswith("aten::addbmm") else batch * m * n
    return _product(formula, a, batch * m * k * n, stored(a, b, c), written, out or a.dtype)


@MODELS.add("gemm.mv", "mv addmv addmv_")
def mv(call: Call, _: Conventions) -> Work | None:
    """Matrix times vector, `mv(a, x)` and `addmv(c, a, x)`: 2·M·K."""
    first = 1 if call.name.startswith("aten::addmv") else 0
    c = call.tensor(0) if first else None
    a, x = call.given(first, first + 1)
    if len(a.shape) != 2 or x.shape != a.shape[1:]:
        return None
    m, k = a.shape
    return _product("gemm.mv", a, m * k, stored(a, x, c), m, a.dtype)


@MODELS.add("gemm.dot", "dot vdot")
def dot(call: Call, _: Conventions) -> Work | None:
    """Inner product of two vectors: 2·K."""
    a, b = call.given(0, 1)
    if len(a.shape) != 1 or a.shape != b.shape:
        return None
    return _product("gemm.dot", a, a.elements, stored(a, b), 1, a.dtype)


@MODELS.add("gemm.addr", "addr addr_")
def addr(call: Call, _: Conventions) -> Work | None:
    """Outer product added to a matrix, `addr(c, x, y)`: 2·M·N."""
    x, y = call.given(1, 2)
    if len(x.shape) != 1 or len(y.shape) != 1:
        return None
    elements, read = x.elements * y.elements, stored(call.tensor(0), x, y)
    return _product("gemm.addr", x, elements, read, elements, x.dtype)


@MODELS.add(
    "gemm.linear",
    "linear mkldnn_linear mkldnn::_linear_pointwise mkl::_mkl_linear",
    composites="linear",
    aligned_sizes=_sizes_of_layer,
    joins=True,
)
def linear(call: Call, _: Conventions) -> Work | None:
    """Fully connected layer, `linear(x, w, bias)` with w of N x K: 2·(rows of x)·N·K. Also the fused oneDNN and MKL
    forms, whose activation in the epilogue is not counted."""
    first = 2 if call.name == "mkl::_mkl_linear" else 1
    (x, w), bias = call.given(0, first), call.tensor(first + 1)
    if len(w.shape) not in (1, 2) or not x.shape or w.shape[-1] != x.shape[-1]:
        return None
    k, n = x.shape[-1], w.shape[0] if len(w.shape) == 2 else 1
    rows = math.prod(x.shape[:-1])
    return _product("gemm.linear", x, rows * n * k, stored(x, w, bias), rows * n, x.dtype)


@MODELS.add(
    "gemm.matmul", "matmul linalg_matmul", composites="matmul linalg_matmul", aligned_sizes=_sizes_of(0, 1), joins=True
)
def matmul(call: Call, _: Conventions) -> Work | None:
    """Product of tensors of any rank, `matmul(a, b)`: 2·(product of batch sizes)·M·N·K. Batch dimensions broadcast; a
    vector counts as a matrix of one row or column."""
    a, b = call.given(0, 1)
    if not a.shape or not b.shape:
        return None
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    if left[-1] != right[-2]:
        return None
    batch = broadcast(left[:-2], right[:-2])
    if batch is None:
        return None
    m, k, n = left[-2], left[-1], right[-1]
    outs = math.prod(batch) * m * n
    return _product("gemm.matmul", a, outs * k, stored(a, b), outs, a.dtype)


def _scales(call: Call) -> tuple[int | None, int]:
    """Bytes of scales and bias, and the position of the result's type."""
    if call.name == "aten::_scaled_mm_v2":
        lists = (call.tensors(2) or ()) + (call.tensors(5) or ())
        return stored(*lists, call.tensor(8)), 9
    return stored(*(call.tensor(position) for position in range(2, 6))), 6


@MODELS.add("gemm.scaled_mm", "_scaled_mm _scaled_mm_v2", aligned_sizes=_sizes_of(0, 1))
def scaled_mm(call: Call, _: Conventions) -> Work | None:
    """Product of scaled 8- or 4-bit matrices, `_scaled_mm(a, b, scale_a, scale_b, bias, ...)`. 2·M·N·K, K counted in
    numbers (two in each byte of a packed float4). Reads matrices, scales and bias; writes the type that the call names,
    else that of a; unknown if values were not recorded."""
    a, b = call.given(0, 1)
    m, k, n = _mkn(a, b)
    scales, position = _scales(call)
    read = total(stored(a, b), scales)
    out_type = call.argument(position)
    out = a.dtype if out_type is None else scalar_type(call.integer(position))
    notes = () if out is not None else ("type of the result not recorded",)
    return _product("gemm.scaled_mm", a, m * k * n, read, m * n, out, *notes)


@MODELS.add("gemm.grouped_mm", "_grouped_mm _scaled_grouped_mm")
def grouped_mm(call: Call, _: Conventions) -> Work | None:
    """Grouped product, `_grouped_mm(a, b, offsets)`: every row is multiplied by one group's matrix. a [M, K] with b [G,
    K, N]: 2·M·N·K. a [G, M, K] with b [K, N]: the columns are divided among groups, 2·M·N·K. a [M, K] with b [K, N]:
    the inner dimension is divided, 2·M·N·K, and G matrices of M x N are written. Both with three dimensions: bmm.
    Source: torch's documentation of the operator. All groups' weights count as read, also those without rows."""
    a, b = call.given(0, 1)
    scaled = call.name == "aten::_scaled_grouped_mm"
    offsets = call.tensor(4 if scaled else 2)
    others = [call.tensor(place) for place in ((2, 3, 5) if scaled else (3,))]
    ranks = (len(a.shape), len(b.shape))
    if ranks not in ((2, 2), (2, 3), (3, 2), (3, 3)) or a.shape[-1] != b.shape[-2]:
        return None
    m, k, n = a.shape[-2], a.shape[-1] * _packed(a), b.shape[-1]
    groups = offsets.elements if offsets is not None else None
    if ranks == (3, 3):
        if a.shape[0] != b.shape[0]:
            return None
        products, outs = a.shape[0] * m * n * k, a.shape[0] * m * n
    elif ranks == (2, 2):
        if groups is None:
            return None
        products, outs = m * n * k, groups * m * n
    else:
        products, outs = m * n * k, m * n
    read = stored(a, b, offsets, *others)
    position = 7 if scaled else 4
    out_type = call.argument(position)
    out = scalar_type(call.integer(position)) if isinstance(out_type, Scalar) else None
    if out is None:
        out = "bfloat16" if scaled and out_type is None else a.dtype if out_type is None else None
    return _product("gemm.grouped_mm", a, products, read, outs, out)


@MODELS.add("gemm.packed_mm", "_weight_int8pack_mm _weight_int4pack_mm")
def packed_mm(call: Call, _: Conventions) -> Work | None:
    """Product with weights packed to 8 or 4 bits: 2·M·N·K; the weights are read packed. `_weight_int8pack_mm(x, w[N,
    K], scales[N])`; `_weight_int4pack_mm(x, w, group, scales)`, whose N is the middle dimension of its
    scales-and-zeros."""
    narrow = call.name != "aten::_weight_int8pack_mm"
    (x, w), scales = call.given(0, 1), call.tensor(3 if narrow else 2)
    named = scales if narrow else w
    if len(x.shape) != 2 or named is None or len(named.shape) != (3 if narrow else 2):
        return None
    (m, k), n = x.shape, named.shape[1 if narrow else 0]
    return _product("gemm.packed_mm", x, m * n * k, stored(x, w, scales), m * n, x.dtype)


@MODELS.add("gemm.pairwise_distance", "_cdist_forward", tensor_cores=False)
def pairwise_distance(call: Call, _: Conventions) -> Work | None:
    """Distances of all pairs, `_cdist_forward(x[B, P, M], y[B, R, M])`: 3·B·P·R·M. A subtraction, a product (or
    magnitude) and a sum for each pair and coordinate; the roots are B·P·R more."""
    x, y = call.given(0, 1)
    if len(x.shape) < 2 or len(x.shape) != len(y.shape):
        return None
    if x.shape[-1] != y.shape[-1] or x.shape[:-2] != y.shape[:-2]:
        return None
    pairs = math.prod(x.shape[:-1]) * y.shape[-2]
    flops, written = pairs * (3 * x.shape[-1] + 1), sized(pairs, x.dtype)
    return Work("gemm.pairwise_distance", flops, stored(x, y), written, x.dtype)


_DECLARED = aten("chain_matmul linalg_multi_dot einsum")
_NODES = "MmBackward BmmBackward0 MvBackward AddmmBackward AddmvBackward AddbmmBackward"
MODELS.append(Model("gemm.uncounted", (*_DECLARED, *_NODES.split()), None, _DECLARED))
