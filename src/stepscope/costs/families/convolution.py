"""Convolutions of one to three dimensions: forward, and the gradients of input, weight and bias.

One formula covers all of them. A weight of K x C/g x R x S is applied once at every position, so a convolution counts
2·N·(positions)·K·(C/g)·R·S, where the positions are those of the output, or of the input if the convolution is
transposed. The gradients of input and weight use the same products with exchanged roles and count the same. Groups need
no term of their own: the weight's second dimension is already C/g. Source: Chetlur et al., cuDNN: efficient primitives
for deep learning (2014), section 2. Direct convolution is counted, even if a kernel uses the cheaper products of
Winograd or FFT. torch's FlopCounterMode agrees except for the weight gradient of a grouped convolution, where it
multiplies all C channels with all K instead of those of the same group and so counts g times too much, and for the bias
gradient, which it leaves out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from stepscope.costs.call import Call, Scalar, Tensor, spread
from stepscope.costs.dtype import is_complex, real_of
from stepscope.costs.work import Conventions, Model, Models, Work, by_name, sized, stored, summed

MODELS = Models()


class _Layout(NamedTuple):
    """Positions of a forward call's arguments; None for an argument that the operator does not have."""

    bias: int | None
    stride: int | None
    padding: int | None
    dilation: int | None
    output_padding: int | None = None
    transposed: int | bool = False
    addend: int | None = None


_GENERAL = _Layout(2, 3, 4, 5, output_padding=7, transposed=6)
_PLAIN = _Layout(2, 3, 4, 5)
_PLAIN_TRANSPOSED = _Layout(2, 3, 4, 7, output_padding=5, transposed=True)
_SLOW = _Layout(3, 4, 5, 6)

_LAYOUTS = by_name(
    ("convolution _convolution convolution_overrideable", _GENERAL),
    ("conv1d conv2d conv3d _convolution_mode", _PLAIN),
    ("conv_transpose1d conv_transpose2d conv_transpose3d", _PLAIN_TRANSPOSED),
    (
        "miopen_convolution miopen_depthwise_convolution mkldnn_convolution mkldnn::_convolution_pointwise",
        _Layout(2, 4, 3, 5),
    ),
    ("miopen_convolution_transpose", _Layout(2, 5, 3, 6, output_padding=4, transposed=True)),
    ("cudnn_convolution_relu miopen_convolution_relu", _PLAIN),
    ("cudnn_convolution_add_relu miopen_convolution_add_relu", _Layout(4, 5, 6, 7, addend=2)),
    ("thnn_conv2d _slow_conv2d_forward slow_conv3d slow_conv3d_forward", _Layout(3, 4, 5, None)),
    ("slow_conv_dilated2d slow_conv_dilated3d _conv_depthwise2d thnn_conv_depthwise2d_forward conv_depthwise3d", _SLOW),
    ("slow_conv_transpose2d slow_conv_transpose3d", _Layout(3, 4, 5, 7, output_padding=6, transposed=True)),
)
_CUDNN = ("aten::cudnn_convolution", "aten::cudnn_convolution_transpose")


def _layout(call: Call) -> _Layout | None:
    if call.name not in _CUDNN:
        return _LAYOUTS.get(call.name)
    # An older cudnn_convolution has a bias before the padding, the current one does not.
    first = 3 if isinstance(call.argument(2), Tensor) or call.argument(2) is None else 2
    bias = 2 if first == 3 else None
    if call.name == "aten::cudnn_convolution":
        return _Layout(bias, first + 1, first, first + 2)
    return _Layout(bias, first + 2, first, first + 3, output_padding=first + 1, transposed=True)


def _output_extent(call: Call, layout: _Layout, x: Tensor, w: Tensor) -> tuple[int, ...] | None:
    """Extent of the result by the usual formula, or None if an argument is not recorded."""
    rank = len(w.shape) - 2
    extent, kernel = x.shape[-rank:], w.shape[2:]
    stride = spread(call.integers(layout.stride or -1), rank)
    dilation = (1,) * rank
    if layout.dilation is not None:
        given = spread(call.integers(layout.dilation), rank)
        if given is None:
            return None
        dilation = given
    if stride is None or min(stride) < 1 or min(dilation) < 1:
        return None
    mode = call.text(layout.padding or -1)
    if mode is not None:
        padding = (0,) * rank
        if mode == "same":
            return extent if set(stride) == {1} else None
        if mode != "valid":
            return None
    else:
        pads = spread(call.integers(layout.padding or -1), rank)
        if pads is None:
            return None
        padding = pads
    transposed = _is_transposed(call, layout)
    extra = spread(call.integers(layout.output_padding or -1) if transposed else (0,), rank)
    if extra is None:
        return None
    axes = zip(extent, stride, padding, dilation, kernel, extra, strict=True)
    sizes = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1 if transposed else (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, s, p, d, k, e in axes
    )
    return sizes if all(size >= 1 for size in sizes) else None


def _is_transposed(call: Call, layout: _Layout) -> bool | None:
    if isinstance(layout.transposed, bool):
        return layout.transposed
    return call.flag(layout.transposed)


def _related_output(call: Call, x: Tensor, w: Tensor) -> tuple[int, ...] | None:
    rank = len(w.shape) - 2
    for other in call.related:
        roles = _BACKWARD.get(other.name)
        if roles is None:
            continue
        grad, inputs, weight = (other.tensor(position) for position in roles)
        if grad is None or len(grad.shape) != rank + 2:
            continue
        if inputs is not None and inputs.shape != x.shape:
            continue
        if weight is not None and weight.shape != w.shape:
            continue
        return grad.shape[2:]
    return None


def _channels(call: Call) -> tuple[Tensor, dict[str, int]] | None:
    """Channels in and out, by the last tensor of input, output gradient and weight."""
    tensors = [call.tensor(position) for position in range(3)]
    shaped = [tensor for tensor in tensors if tensor is not None and len(tensor.shape) >= 3]
    if len(shaped) < 2:
        return None
    weight = shaped[-1]
    out, into = weight.shape[:2]
    if call.name in _WEIGHT_GRADIENT:
        out, into = shaped[0].shape[1], shaped[1].shape[1]
    return weight, {"channels out": out, "channels in": into}


@MODELS.add(
    "convolution.forward",
    (*_LAYOUTS, *_CUDNN),
    composites="convolution _convolution _convolution_mode conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d conv_transpose3d thnn_conv2d slow_conv3d",
    aligned_sizes=_channels,
    asks_related=True,
)
def forward(call: Call, _: Conventions) -> Work | None:
    """Convolution of x [N, C, ...] with w [K, C/g, ...]: 2·N·(positions)·K·(C/g)·(kernel size). Positions are those of
    the output; of the input for a transposed convolution, whose weight is [C, K/g, ...] and whose output has K/g·g
    channels. Reads x, w, bias (and the addend of the fused forms); writes the output in x's type. If stride and padding
    were not recorded, the extent of the output is taken from its gradient."""
    layout, (x, w) = _layout(call), call.given(0, 1)
    if layout is None or not 3 <= len(w.shape) <= 5:
        return None
    rank = len(w.shape) - 2
    if len(x.shape) not in (rank + 1, rank + 2):
        return None
    channels = x.shape[-rank - 1]
    batch = x.shape[0] if len(x.shape) == rank + 2 else 1
    transposed = _is_transposed(call, layout)
    extent = _output_extent(call, layout, x, w)
    notes: tuple[str, ...] = ()
    if extent is None:
        extent = _related_output(call, x, w)
        notes = ("extent of the result taken from its gradient",)
    if extent is None:
        return None
    if transposed is None:
        # Not recorded: only a plain convolution makes its input smaller.
        if any(out > inner for out, inner in zip(extent, x.shape[-rank:], strict=True)):
            return None
        transposed = False
    if transposed:
        if w.shape[0] != channels:
            return None
        groups = _groups(call, layout)
        if groups is None:
            return None
        positions, out_channels = math.prod(x.shape[-rank:]), w.shape[1] * groups
    else:
        if w.shape[1] == 0 or channels % w.shape[1]:
            return None
        positions, out_channels = math.prod(extent), w.shape[0]
    others = [call.tensor(-1 if place is None else place) for place in (layout.bias, layout.addend)]
    flops = _products(x, batch * positions * w.elements)
    written = sized(batch * out_channels * math.prod(extent), x.dtype)
    return Work("convolution.forward", flops, stored(x, w, *others), written, real_of(x.dtype), "matrix", notes=notes)


def _groups(call: Call, layout: _Layout) -> int | None:
    if call.name.startswith("aten::slow_conv"):
        return 1
    if layout is _PLAIN_TRANSPOSED:
        return call.integer(6)
    if layout is _GENERAL:
        return call.integer(8)
    return call.integer((layout.dilation or 0) + 1)


def _products(x: Tensor, multiply_adds: int) -> int:
    return 2 * multiply_adds * (4 if is_complex(x.dtype) else 1)


@MODELS.add("convolution.conv_tbc", "conv_tbc", aligned_sizes=_channels)
def conv_tbc(call: Call, _: Conventions) -> Work | None:
    """Convolution over time of x [T, B, C] with w [S, C, K]: 2·B·(T + 2·pad - S + 1)·S·C·K."""
    (x, w), pad = call.given(0, 1), call.integer(3)
    if pad is None or len(x.shape) != 3 or len(w.shape) != 3:
        return None
    steps = x.shape[0] + 2 * pad - w.shape[0] + 1
    if x.shape[2] != w.shape[1] or steps < 1:
        return None
    rows, read = steps * x.shape[1], stored(x, w, call.tensor(2))
    flops, written = _products(x, rows * w.elements), sized(rows * w.shape[2], x.dtype)
    return Work("convolution.conv_tbc", flops, read, written, x.dtype, "matrix")


_BACKWARD = by_name(
    (
        "convolution_backward convolution_backward_overrideable _slow_conv2d_backward "
        "thnn_conv2d_backward slow_conv3d_backward slow_conv_dilated2d_backward "
        "slow_conv_dilated3d_backward thnn_conv_depthwise2d_backward "
        "_conv_depthwise2d_backward conv_depthwise3d_backward "
        "slow_conv_transpose2d_backward slow_conv_transpose3d_backward",
        (0, 1, 2),
    ),
    (
        "cudnn_convolution_backward cudnn_convolution_transpose_backward "
        "miopen_convolution_backward miopen_depthwise_convolution_backward "
        "miopen_convolution_transpose_backward mkldnn_convolution_backward",
        (1, 0, 2),
    ),
)
"""Positions of the output's gradient, the input and the weight in operators for both gradients."""

_INPUT_GRADIENT = by_name(
    (
        "cudnn_convolution_backward_input miopen_convolution_backward_input "
        "miopen_depthwise_convolution_backward_input mkldnn_convolution_backward_input",
        (1, 2),
    ),
    ("cudnn_convolution_transpose_backward_input miopen_convolution_transpose_backward_input", (0, 1)),
)
"""Positions of the output's gradient and the weight."""

_WEIGHT_GRADIENT = by_name(
    (
        "cudnn_convolution_backward_weight miopen_convolution_backward_weight "
        "miopen_depthwise_convolution_backward_weight mkldnn_convolution_backward_weights "
        "cudnn_convolution_transpose_backward_weight "
        "miopen_convolution_transpose_backward_weight",
        (1, 2),
    )
)
"""Positions of the output's gradient and the input; the weight's shape is argument 0."""


def _gradient(formula: str, grad: Tensor, other: Tensor, multiply_adds: int, outs: int | None) -> Work:
    """Gradient of the input or the weight, computed from the output's gradient and the other one."""
    flops = _products(grad, grad.shape[0] * multiply_adds)
    written = None if outs is None else sized(outs, grad.dtype)
    return Work(formula, flops, stored(grad, other), written, real_of(grad.dtype), "matrix")


def _input_part(grad: Tensor, w: Tensor, x_shape: tuple[int, ...] | None, positions: int) -> Work:
    outs = None if x_shape is None else math.prod(x_shape)
    return _gradient("convolution.input_gradient", grad, w, positions * w.elements, outs)


def _weight_part(grad: Tensor, x: Tensor, w_shape: tuple[int, ...], positions: int) -> Work:
    elements = math.prod(w_shape)
    return _gradient("convolution.weight_gradient", grad, x, positions * elements, elements)


def _bias_part(grad: Tensor) -> Work:
    written = sized(grad.shape[1], grad.dtype)
    return Work("convolution.bias_gradient", grad.elements, stored(grad), written, grad.dtype)


def _backward_transposed(call: Call, grad: Tensor, x: Tensor, w: Tensor) -> bool | None:
    """Whether the gradients are those of a transposed convolution, or None if unknown."""
    if "_transpose" in call.name:
        return True
    if not call.name.startswith("aten::convolution_backward"):
        return False
    recorded = call.flag(7 if call.name == "aten::convolution_backward" else 6)
    if recorded is not None:
        return recorded
    if grad.shape[1] != x.shape[1] and w.shape[0] in (grad.shape[1], x.shape[1]):
        return w.shape[0] == x.shape[1]
    pairs = zip(grad.shape[2:], x.shape[2:], strict=True)
    return False if all(out <= inner for out, inner in pairs) else None


@MODELS.add(
    "convolution.backward",
    tuple(_BACKWARD),
    composites="cudnn_convolution_backward cudnn_convolution_transpose_backward "
    "miopen_convolution_backward miopen_depthwise_convolution_backward "
    "miopen_convolution_transpose_backward mkldnn_convolution_backward",
    aligned_sizes=_channels,
    hints_forward=True,
)
def backward(call: Call, _: Conventions) -> Work | None:
    """Gradients of a convolution that its output mask selects, each a separate part. Input and weight:
    2·N·(positions)·K·(C/g)·(kernel size) each; the input's reads output gradient and weight, the weight's reads output
    gradient and input. Bias: one addition for each element of the output gradient. If the mask was not recorded, the
    work of one product is a lower bound."""
    grad, x, w = call.given(*_BACKWARD[call.name])
    if not len(grad.shape) == len(x.shape) == len(w.shape):
        return None
    if len(w.shape) < 3 or grad.shape[0] != x.shape[0]:
        return None
    transposed = _backward_transposed(call, grad, x, w)
    if transposed is None:
        return None
    positions = math.prod((x if transposed else grad).shape[2:])
    mask = _mask(call)
    if mask is None:
        part = _weight_part(grad, x, w.shape, positions)
        notes = ("which gradients were computed is not recorded: counted as one of them",)
        return Work("convolution.backward", part.flops, None, None, part.dtype, "matrix", bound="lower", notes=notes)
    parts: list[Work] = []
    if mask[0]:
        parts.append(_input_part(grad, w, x.shape, positions))
    if mask[1]:
        parts.append(_weight_part(grad, x, w.shape, positions))
    if len(mask) > 2 and mask[2]:
        parts.append(_bias_part(grad))
    if not parts:
        return None
    return summed("convolution.backward", tuple(parts))


def _mask(call: Call) -> tuple[bool, ...] | None:
    for position in range(len(call.arguments) - 1, 2, -1):
        argument = call.argument(position)
        if isinstance(argument, Scalar) and isinstance(argument.value, tuple):
            flags = argument.value
            if len(flags) in (2, 3) and all(isinstance(flag, bool) for flag in flags):
                return tuple(bool(flag) for flag in flags)
    return None


@MODELS.add("convolution.input_gradient", tuple(_INPUT_GRADIENT), aligned_sizes=_channels, asks_related=True)
def input_gradient(call: Call, _: Conventions) -> Work | None:
    """Gradient of a convolution's input from output gradient and weight. 2·N·(positions of the output
    gradient)·(elements of the weight). The input's extent comes from the size argument or the enclosing operator;
    without it the bytes written are unknown. For a transposed convolution the positions are the input's, so it is
    needed for the operations too."""
    grad, w = call.given(*_INPUT_GRADIENT[call.name])
    if len(grad.shape) != len(w.shape) or len(w.shape) < 3:
        return None
    transposed = "_transpose" in call.name
    shape = None if transposed else call.integers(0)
    if shape is None or len(shape) != len(grad.shape):
        shape = _related_shape(call, 1, grad, w_shape=w.shape)
    if transposed and shape is None:
        return None
    positions = math.prod((shape if transposed and shape else grad.shape)[2:])
    return _input_part(grad, w, shape, positions)


@MODELS.add("convolution.weight_gradient", tuple(_WEIGHT_GRADIENT), aligned_sizes=_channels, asks_related=True)
def weight_gradient(call: Call, _: Conventions) -> Work | None:
    """Gradient of a convolution's weight from output gradient and input. 2·N·(positions)·(elements of the weight);
    positions are the output gradient's, the input's for a transposed convolution. The weight's shape is a size
    argument, or, since older recorders omit it, comes from the enclosing operator."""
    grad, x = call.given(*_WEIGHT_GRADIENT[call.name])
    if len(grad.shape) != len(x.shape) or len(x.shape) < 3:
        return None
    shape = call.integers(0)
    if shape is None or len(shape) != len(x.shape):
        shape = _related_shape(call, 2, grad, x_shape=x.shape)
    if shape is None or min(shape) < 0:
        return None
    positions = math.prod((x if "_transpose" in call.name else grad).shape[2:])
    return _weight_part(grad, x, shape, positions)


def _related_shape(
    call: Call,
    role: int,
    grad: Tensor,
    *,
    x_shape: tuple[int, ...] | None = None,
    w_shape: tuple[int, ...] | None = None,
) -> tuple[int, ...] | None:
    """Shape of input (role 1) or weight (role 2) in a related call on the same tensors."""
    for other in call.related:
        roles = _BACKWARD.get(other.name)
        if roles is None:
            continue
        shapes = [other.tensor(position) for position in roles]
        if shapes[0] is None or shapes[0].shape != grad.shape:
            continue
        if x_shape is not None and (shapes[1] is None or shapes[1].shape != x_shape):
            continue
        if w_shape is not None and (shapes[2] is None or shapes[2].shape != w_shape):
            continue
        target = shapes[role]
        if target is not None:
            return target.shape
    return None


@MODELS.add(
    "convolution.bias_gradient", "miopen_convolution_backward_bias cudnn_convolution_backward_bias", tensor_cores=False
)
def bias_gradient(call: Call, _: Conventions) -> Work | None:
    """Gradient of a convolution's bias: one addition for each element of the output gradient."""
    (grad,) = call.given(0)
    return None if len(grad.shape) < 2 else _bias_part(grad)


_NODES = ("CudnnConvolutionBackward", "CudnnConvolutionTransposeBackward")
MODELS.append(Model("convolution.uncounted", _NODES, None))
