"""Operators that hand their work on to other operators, which the recording shows below them.

`aten::linear` calls `aten::addmm`; both appear in a trace and both have a model, but the work was done
once. Who adds work up counts the innermost operator that has a model and leaves out what encloses it:
`answering` finds that operator for each row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def _names(text: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in text.split())


COMPOSITES: frozenset[str] = _names(
    # matrix products
    "linear matmul linalg_matmul chain_matmul linalg_multi_dot einsum tensordot inner outer ger "
    "kron bilinear cdist linalg_vecdot "
    # convolutions: what chooses between libraries, and what a library splits in two
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution "
    "_convolution _convolution_mode thnn_conv2d slow_conv3d _convolution_double_backward "
    "conv_tbc_backward cudnn_convolution_backward cudnn_convolution_transpose_backward "
    "miopen_convolution_backward miopen_depthwise_convolution_backward "
    "miopen_convolution_transpose_backward mkldnn_convolution_backward "
    # attention
    "scaled_dot_product_attention _scaled_dot_product_attention_math "
    "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward "
    "_native_multi_head_attention _transformer_encoder_layer_fwd "
    # normalisations
    "batch_norm _batch_norm_impl_index _batch_norm_impl_index_backward instance_norm layer_norm "
    "group_norm rms_norm _fused_rms_norm "
    # softmax, losses
    "softmax log_softmax special_softmax special_log_softmax _safe_softmax cross_entropy_loss "
    "nll_loss nll_loss2d nll_loss_nd l1_loss kl_div binary_cross_entropy_with_logits "
    "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss triplet_margin_loss "
    "poisson_nll_loss ctc_loss soft_margin_loss soft_margin_loss_backward "
    # element-wise: other names of the same thing
    "multiply multiply_ divide divide_ true_divide true_divide_ subtract subtract_ negative "
    "negative_ absolute absolute_ square square_ clip clip_ greater greater_ greater_equal "
    "greater_equal_ less less_ less_equal less_equal_ not_equal not_equal_ arccos arccos_ "
    "arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan_ arctan2 arctan2_ arctanh arctanh_ fix fix_ "
    "relu6 relu6_ selu selu_ rrelu rrelu_ prelu log_sigmoid isclose isreal isfinite float_power "
    "float_power_ ldexp ldexp_ relu relu_ rsub mish_backward conj_physical "
    "__and__ __or__ __xor__ __iand__ __ior__ __ixor__ positive "
    # reductions, scans, searches
    "nanmean norm frobenius_norm linalg_norm argsort msort allclose "
    # embeddings and indexing
    "embedding embedding_backward embedding_bag _embedding_bag_backward take_along_dim stack "
    "hstack vstack dstack column_stack concat concatenate tile repeat_interleave pad one_hot "
    "index_put_ index_put index_add index_copy index_fill masked_scatter repeat argwhere rot90 "
    "select_backward slice_backward diagonal_backward channel_shuffle native_channel_shuffle constant_pad_nd "
    # copies and fills
    "to _to_copy clone contiguous type_as item zeros ones full rand randn randint "
    "zeros_like ones_like full_like rand_like randn_like randint_like new_zeros new_ones new_full "
    "lift_fresh_copy "
    # pooling, dropout
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d avg_pool1d "
    "max_pool1d max_pool1d_with_indices max_pool2d max_pool3d dropout dropout_ alpha_dropout "
    "feature_dropout feature_alpha_dropout "
    # recurrent networks
    "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"
)
"""Operators that torch composes of others in every configuration, or does on most devices."""


def is_composite(name: str) -> bool:
    """Whether an operator hands its work on to other operators that are recorded below it.

    >>> is_composite("aten::linear"), is_composite("aten::addmm")
    (True, False)
    """
    return name in COMPOSITES


def answering(
    parent: npt.NDArray[np.int64],
    modelled: npt.NDArray[np.bool_],
    composite: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    """Find for each row the innermost row with a model that it is or lies within.

    A composite answers only where nothing with a model lies within it: else its work, which is that
    of its parts, would be counted twice.

    Args:
        parent: for each row, the index of the row that encloses it, -1 for none. A parent may
            stand anywhere, but the rows must form a forest.
        modelled: whether the row's work can be counted; false for views, which have none.
        composite: whether the row is one of COMPOSITES.

    Returns:
        Index of the row whose work answers for this row's device time, -1 where there is none.

    >>> linear, addmm, copy = 0, 1, 2
    >>> parent = np.array([-1, linear, addmm])
    >>> answering(parent, np.array([True, True, False]), np.array([True, False, False])).tolist()
    [-1, 1, 1]
    """
    counts = modelled & ~(composite & _encloses(parent, modelled))
    owner = np.where(counts, np.arange(len(parent)), -1)
    above = np.where(counts, -1, parent)
    # Each round doubles the distance that a row has looked up, so 64 rounds reach any depth.
    for _round in range(64):
        pending = np.flatnonzero(above >= 0)
        if not pending.size:
            break
        step = above[pending]
        found = owner[step]
        further = above[step]
        owner[pending] = found
        above[pending] = np.where(found >= 0, -1, further)
    return owner


def _encloses(
    parent: npt.NDArray[np.int64], modelled: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Whether a row with a model lies within each row."""
    result = np.zeros(len(parent), dtype=bool)
    frontier = np.flatnonzero(modelled)
    while frontier.size:
        frontier = np.unique(parent[frontier])
        frontier = frontier[frontier >= 0]
        frontier = frontier[~result[frontier]]
        result[frontier] = True
    return result
