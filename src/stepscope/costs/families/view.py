"""Operators that move and compute nothing: views, allocations, queries about a tensor."""

from __future__ import annotations

from stepscope.costs.call import Call
from stepscope.costs.work import Conventions, Models, Work, aten

MODELS = Models()

_VIEWS = aten(
    "_conj _make_dual _neg_view _nested_view_from_buffer _reshape_alias "
    "_unsafe_view _unpack_dual adjoint alias as_strided as_strided_ broadcast_tensors "
    "broadcast_to chunk conj detach detach_ diagonal expand expand_as flatten hsplit imag "
    "lift lift_fresh mH mT matrix_H moveaxis movedim narrow numpy_T permute positive ravel real "
    "reshape reshape_as resolve_conj resolve_neg select slice split split_with_sizes squeeze "
    "squeeze_ swapaxes swapdims t t_ tensor_split transpose transpose_ unbind unflatten unfold "
    "unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_ view view_as "
    "view_as_complex view_as_real vsplit values indices _values _indices"
)
"""Results that share the input's memory. If they must, `reshape`, `flatten` and `resolve_conj` copy,
by calling operators that are counted."""

_ALLOCATIONS = aten(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ "
    "resize_as_ set_ _resize_output_ _efficientzerotensor scalar_tensor"
)
"""Memory allocated and not written."""

_QUESTIONS = aten(
    "size stride dim numel storage_offset is_contiguous is_pinned is_complex "
    "is_floating_point is_same_size is_set_to result_type can_cast sym_size sym_numel sym_stride "
    "sym_storage_offset _has_compatible_shallow_copy_type _version output_nr is_leaf requires_grad_ "
    "retain_grad data set_data cudnn_is_acceptable _fused_sdp_choice _use_cudnn_ctc_loss "
    "_use_cudnn_rnn_flatten_weight _nnpack_available is_coalesced is_inference get_device "
    "record_stream _debug_has_internal_overlap promote_types"
)
"""Queries or marks of a tensor, which do not read its elements."""


_AUTOGRAD = ("detach", "detach_")
"""Spelt without `aten::` when autograd records them."""


@MODELS.add("view.nothing", (*_VIEWS, *_ALLOCATIONS, *_QUESTIONS, *_AUTOGRAD), composites="positive")
def no_work(call: Call, _: Conventions) -> Work | None:
    """View, allocation or query about a tensor: no operations, no bytes."""
    tensor = call.tensor(0)
    return Work("view.nothing", 0, 0, 0, None if tensor is None else tensor.dtype)
