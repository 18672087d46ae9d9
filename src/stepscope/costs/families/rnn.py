"""Recurrent networks: whole layers as cuDNN, MIOpen and oneDNN run them, and their cells.

A step of a cell with input I, state H and G gates (LSTM 4, GRU 3, plain 1) multiplies the input by a G·H x I and the
state by a G·H x H matrix: 2·G·H·(I + H) operations for each sample, and about ten element-wise ones for each gate and
unit, which are not counted here. A projection of P adds 2·H·P and makes the state P wide. The backward computes the
gradients of input and state and those of the weights: twice the forward, as each product of a GEMM's backward does.
Source: Appleyard et al., Optimizing performance of recurrent neural networks on GPUs (2016); LSTM of Hochreiter and
Schmidhuber (1997), GRU of Cho et al. (2014).
"""

from __future__ import annotations

from typing import NamedTuple

from stepscope.costs.call import Call
from stepscope.costs.work import Conventions, Models, Work, dense, sized, stored, total

MODELS = Models()

_GATES_OF_MODE = {0: 1, 1: 1, 2: 4, 3: 3}
"""cuDNN's and MIOpen's modes: plain with ReLU, plain with tanh, LSTM, GRU."""


class _Layers(NamedTuple):
    """Positions of a network's arguments; `cell` is None if the operator has none."""

    weights: int
    state: int
    cell: int | None
    mode: int
    hidden: int
    projection: int | None
    layers: int
    batch_first: int
    train: int
    bidirectional: int
    packed: int
    output: int | None = None


_LAYERS: dict[str, _Layers] = {
    "aten::_cudnn_rnn": _Layers(1, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14),
    "aten::miopen_rnn": _Layers(1, 3, 4, 5, 6, None, 7, 8, 10, 11, 12),
    "aten::_cudnn_rnn_backward": _Layers(1, 4, 5, 10, 11, 12, 13, 14, 16, 17, 18, output=6),
    "aten::miopen_rnn_backward": _Layers(1, 4, 5, 10, 11, None, 12, 13, 15, 16, 17, output=6),
}


def _steps(gates: int, rows: int, inputs: int, state: int, hidden: int, projection: int) -> int:
    return rows * (2 * gates * hidden * (inputs + state) + 2 * hidden * projection)


@MODELS.add("rnn.network_backward", "_cudnn_rnn_backward miopen_rnn_backward")
@MODELS.add("rnn.network", "_cudnn_rnn miopen_rnn")
def network(call: Call, _: Conventions) -> Work | None:
    """A recurrent network of L layers: the sum over layers and directions; backward twice as much. Reads input, states
    and weights, writes outputs and states; backward also reads the outputs and their gradients and writes the gradients
    of input and weights. Without recorded values, layers and sizes are unknown and the call is not counted. The weights
    are taken to have the input's element type."""
    layout = _LAYERS[call.name]
    (x,), (weights,) = call.given(0), call.listed(layout.weights)
    mode, hidden = call.integer(layout.mode), call.integer(layout.hidden)
    layers, both = call.integer(layout.layers), call.flag(layout.bidirectional)
    projection = 0 if layout.projection is None else call.integer(layout.projection)
    gates = _GATES_OF_MODE.get(-1 if mode is None else mode)
    if hidden is None or layers is None or gates is None:
        return None
    if both is None or projection is None or not 0 < layers < 1000 or len(x.shape) not in (2, 3):
        return None
    rows = x.elements // max(1, x.shape[-1])
    directions = 2 if both else 1
    state = projection or hidden
    flops = 0
    for layer in range(layers):
        inputs = x.shape[-1] if layer == 0 else state * directions
        flops += directions * _steps(gates, rows, inputs, state, hidden, projection)
    parameters = sized(sum(tensor.elements for tensor in weights), x.dtype)
    outs = sized(rows * state * directions, x.dtype)
    states = stored(call.tensor(layout.state), call.tensor(layout.cell or -1))
    backward = layout.output is not None
    formula = "rnn.network"
    if backward:
        formula, flops = "rnn.network_backward", 2 * flops
        read = total(x.stored_bytes, parameters, states, outs, outs)
        written = total(x.bytes, parameters, states)
    else:
        read, written = total(x.stored_bytes, parameters, states), total(outs, states)
    return Work(formula, flops, read, written, x.dtype, "matrix")


@MODELS.add("rnn.one_layer", "mkldnn_rnn_layer")
def one_layer(call: Call, _: Conventions) -> Work | None:
    """One layer in one direction as oneDNN runs it, `mkldnn_rnn_layer(x, w_in, w_state, ...)`. 2·(rows)·(elements of
    both weights)."""
    x, w_input, w_state = call.given(0, 1, 2)
    if len(w_state.shape) != 2 or not x.shape:
        return None
    if len(w_input.shape) != 2 or w_input.shape[1] != x.shape[-1]:
        return None
    rows = x.elements // max(1, x.shape[-1])
    states = stored(call.tensor(5), call.tensor(6))
    weights = stored(*(call.tensor(position) for position in range(1, 5)))
    flops = 2 * rows * (w_input.elements + w_state.elements)
    written = total(sized(rows * w_state.shape[1], x.dtype), states)
    return Work("rnn.one_layer", flops, total(stored(x), weights, states), written, x.dtype, "matrix")


@MODELS.add("rnn.one_layer_backward", "mkldnn_rnn_layer_backward")
def one_layer_backward(call: Call, _: Conventions) -> Work | None:
    """Backward of one layer in one direction as oneDNN runs it: twice the forward's operations. Reads what the forward
    read, the output, its gradient and the workspace; writes the gradients of input, weights and states."""
    x, w_input, w_state = call.given(0, 1, 2)
    if not x.shape:
        return None
    rows = x.elements // max(1, x.shape[-1])
    weights_and_states = stored(*(call.tensor(position) for position in range(1, 7)))
    others = stored(*(call.tensor(position) for position in (7, 10, 22)))
    flops = 4 * rows * (w_input.elements + w_state.elements)
    read = total(stored(x), weights_and_states, others)
    return Work("rnn.one_layer_backward", flops, read, total(dense(x), weights_and_states), x.dtype, "matrix")


@MODELS.add("rnn.layers_of_torch", "lstm gru rnn_tanh rnn_relu", composites="lstm gru rnn_tanh rnn_relu")
def layers_of_torch(call: Call, _: Conventions) -> Work | None:
    """A network as torch's `lstm`, `gru`, `rnn_tanh`, `rnn_relu` are called: 2·rows·(elements of weights). Every weight
    matrix is applied to every sample of every step once. Biases, which are vectors, do not count. torch calls other
    operators for it, which are counted if they have a model."""
    (x,), (weights,) = call.given(0), call.listed(2)
    if len(x.shape) not in (2, 3):
        return None
    rows = x.elements // max(1, x.shape[-1])
    matrices = sum(tensor.elements for tensor in weights if len(tensor.shape) == 2)
    read = stored(x, *weights)
    return Work("rnn.layers_of_torch", 2 * rows * matrices, read, None, x.dtype, "matrix")


@MODELS.add(
    "rnn.cell",
    "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
    composites="lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
)
def cell(call: Call, _: Conventions) -> Work | None:
    """One step of a cell, `lstm_cell(x, states, w_ih, w_hh, ...)`: 2·(samples)·(elements of weights)."""
    x, w_input, w_state = call.given(0, 2, 3)
    if not x.shape or not w_state.shape:
        return None
    samples = x.elements // max(1, x.shape[-1])
    results = 2 if "lstm" in call.name else 1
    state = sized(samples * w_state.shape[-1] * results, x.dtype)
    flops = 2 * samples * (w_input.elements + w_state.elements)
    return Work("rnn.cell", flops, total(stored(x, w_input, w_state), state), state, x.dtype, "matrix")


@MODELS.add("rnn.fused_gates", "_thnn_fused_lstm_cell _thnn_fused_gru_cell")
def fused_gates(call: Call, _: Conventions) -> Work | None:
    """The element-wise part of a cell, `_thnn_fused_lstm_cell(input_gates, hidden_gates, state, ...)`. For each unit an
    LSTM adds the two products of its four gates (4), computes three sigmoids (12) and two hyperbolic tangents (2), and
    c = f·c + i·g, h = o·tanh(c) (4): 22. A GRU adds those of two gates (2), computes two sigmoids (8) and n = tanh(a +
    r·b) (3), h = n + z·(h - n) (3): 16. Each bias adds one for each gate and unit. Reads gates, biases and state;
    writes the states and what the backward needs (the gates, or five values for each unit of a GRU)."""
    gates, hidden_gates, state = call.given(0, 1, 2)
    bias = [tensor for tensor in (call.tensor(3), call.tensor(4)) if tensor is not None]
    lstm = "lstm" in call.name
    saved = dense(gates) if lstm else dense(*[state] * 5)
    flops = state.elements * (22 if lstm else 16) + len(bias) * gates.elements
    written = total(dense(*[state] * (2 if lstm else 1)), saved)
    return Work("rnn.fused_gates", flops, stored(gates, hidden_gates, state, *bias), written, gates.dtype)
