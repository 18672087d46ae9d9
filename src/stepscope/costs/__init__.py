"""The work of operators, the limits of devices and the classes of kernels: pure functions over names, shapes and types.

* `model_of` finds an operator's model; `work` and `count_work` count operations and bytes, `formulas` explains how.
* `is_composite` and `answering` decide which of two nested rows did the work, so that it counts once.
* `known_devices` knows the peaks of devices by name, each with its datasheet.
* `tensor_core_use`, `kernel_class`, `gradient_of`, `library`, `element_type`, `product_type` read a kernel's name;
  `misaligned` finds sizes that keep a product from fast kernels.
* `index_bound` says which integer inputs are indices, `DEFINED_BY_TEXT` which operators need a text, to run a call
  again.
"""

from __future__ import annotations

from stepscope.costs.calibration import known_devices
from stepscope.costs.composite import answering
from stepscope.costs.families.communication import bus_factor, collective, collective_name
from stepscope.costs.families.generated import fused_words
from stepscope.costs.hardware import Hardware, Limits
from stepscope.costs.kernel_name import (
    CLASSES,
    class_of,
    element_type,
    gradient_of,
    kernel_class,
    library,
    product_type,
)
from stepscope.costs.registry import (
    NOT_RECORDED,
    Row,
    count_work,
    formulas,
    forward_hints,
    is_composite,
    missing_reason,
    model_of,
    our_model_of,
    work,
)
from stepscope.costs.tensor_cores import (
    TensorCoreUse,
    alignment,
    arithmetic_type,
    lacks_tensor_cores,
    misaligned,
    tensor_core_use,
)
from stepscope.costs.unrecorded import DEFINED_BY_TEXT, index_bound
from stepscope.costs.work import FAMILIES, PRODUCTS, Conventions, Model, Work, summed

__all__ = [
    "CLASSES", "DEFINED_BY_TEXT", "FAMILIES", "NOT_RECORDED", "PRODUCTS", "Conventions", "Hardware", "Limits", "Model",
    "Row", "TensorCoreUse", "Work", "alignment", "answering", "arithmetic_type", "bus_factor", "class_of", "collective",
    "collective_name", "count_work", "element_type", "formulas", "forward_hints", "fused_words", "gradient_of",
    "index_bound", "is_composite", "kernel_class", "known_devices", "lacks_tensor_cores", "library", "misaligned",
    "missing_reason", "model_of", "our_model_of", "product_type", "summed", "tensor_core_use", "work",
]  # fmt: skip
