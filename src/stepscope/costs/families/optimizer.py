"""Fused optimizers: one kernel that reads parameters, gradients and states and writes them back.

Operations for each parameter are those of the update rule as written:

* SGD: p - lr·g is 2; weight decay g + wd·p adds 2, momentum buf·m + (1 - d)·g adds 2 (3 with
  dampening), Nesterov's g + m·buf adds 2.
* Adam: m + (1 - b1)·(g - m) is 3, v·b2 + (1 - b2)·g·g is 4, sqrt(v)/c + eps is 3, p - s·m/denominator
  is 3: 13. Weight decay adds 2 to Adam and 1 to AdamW, the maximum of AMSGrad adds 1.
* Adagrad: sum + g·g is 2, p - lr·g/(sqrt(sum) + eps) is 5: 7; weight decay adds 2.

Maximising and unscaling gradients add 1 each. Sources: Kingma and Ba (2015), Loshchilov and Hutter
(2019), Reddi et al. (2018), Duchi et al. (2011), torch's documentation of each optimizer.
"""

from __future__ import annotations

from stepscope.costs.call import Call, Tensor
from stepscope.costs.work import Conventions, Models, Work, of_lists, stored, total

MODELS = Models()


def _times(size: int | None, count: int) -> int | None:
    return None if size is None else size * count


def _work(formula: str, parameters: tuple[Tensor, ...], each: int, read: int | None, written: int | None) -> Work:
    elements = sum(tensor.elements for tensor in parameters)
    return of_lists(formula, parameters, each * elements, read, written)


def _scaled(call: Call, position: int) -> bool:
    """Whether the kernel unscales gradients (a scale is given) and writes them back."""
    return call.tensor(position) is not None


@MODELS.add("optimizer.adam", "_fused_adam_ _fused_adamw_ _fused_adam _fused_adamw", over_lists=True)
def adam(call: Call, _: Conventions) -> Work | None:
    """Fused Adam or AdamW: 13 operations per parameter, more with options. Reads parameter, gradient and two moments,
    writes parameter and moments; AMSGrad reads and writes a third, unscaling writes the gradient."""
    parameters, gradients = call.listed(0, 1)
    decay, largest, maximise = call.number(9), call.flag(11), call.flag(12)
    each = 13
    if decay:
        each += 1 if "adamw" in call.name else 2
    each += bool(largest) + bool(maximise) + _scaled(call, 13)
    size, grads = stored(*parameters), stored(*gradients)
    states = 3 if largest else 2
    read = total(_times(size, 1 + states), grads)
    written = total(_times(size, 1 + states), grads if _scaled(call, 13) else 0)
    return _work("optimizer.adam", parameters, each, read, written)


@MODELS.add("optimizer.sgd", "_fused_sgd_ _fused_sgd", over_lists=True)
def sgd(call: Call, _: Conventions) -> Work | None:
    """Fused SGD: 2 operations per parameter, more with options. Reads parameter and gradient, writes the parameter; a
    momentum buffer is read (not in the first step) and written, unscaling writes the gradient."""
    parameters, gradients = call.listed(0, 1)
    decay, momentum, dampening = call.number(3), call.number(4), call.number(6)
    nesterov, maximise, first = call.flag(7), call.flag(8), call.flag(9)
    each = 2 + (2 if decay else 0) + bool(maximise) + _scaled(call, 10)
    size, grads = stored(*parameters), stored(*gradients)
    read, written = total(size, grads), size
    if momentum:
        each += 0 if first else 3 if dampening else 2
        each += 2 if nesterov else 0
        read = total(read, 0 if first else size)
        written = total(written, size)
    if _scaled(call, 10):
        written = total(written, grads)
    return _work("optimizer.sgd", parameters, each, read, written)


@MODELS.add("optimizer.adagrad", "_fused_adagrad_ _fused_adagrad", over_lists=True)
def adagrad(call: Call, _: Conventions) -> Work | None:
    """Fused Adagrad: 7 operations per parameter, 2 more with weight decay. Reads parameter, gradient and sum, writes
    parameter and sum; unscaling writes the gradient."""
    parameters, gradients = call.listed(0, 1)
    each = 7 + (2 if call.number(6) else 0) + bool(call.flag(8)) + _scaled(call, 9)
    size, grads = stored(*parameters), stored(*gradients)
    read = total(_times(size, 2), grads)
    written = total(_times(size, 2), grads if _scaled(call, 9) else 0)
    return _work("optimizer.adagrad", parameters, each, read, written)
