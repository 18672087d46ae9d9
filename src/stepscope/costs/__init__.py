"""What operators had to do, what devices can do, and what kernels are: the data behind efficiency.

Pure functions over names, shapes and types; nothing here knows traces, stores or files but its own.

* `work` and `work_table` count the operations and bytes of operator calls; `formulas` explains how.
* `is_composite` and `answering` say which of two nested rows did the work, so that none counts twice.
* `load_hardware` knows the peaks of devices by name, with the datasheet each number comes from.
* `tensor_core_use`, `kernel_class`, `library` and `element_type` read a kernel's name, `misaligned` finds
  the sizes that keep a product from the fast kernels.
"""

from __future__ import annotations

from stepscope.costs.communication import collective, collective_name
from stepscope.costs.composite import answering, is_composite
from stepscope.costs.hardware import Hardware, Limits, load_hardware
from stepscope.costs.kernel_name import CLASSES, class_of, element_type, kernel_class, library
from stepscope.costs.registry import (
    Formula,
    Row,
    formulas,
    model_of,
    of_row,
    wants_related,
    why_not,
    work,
    work_table,
)
from stepscope.costs.tensor_cores import (
    TensorCoreUse,
    alignment,
    arithmetic_type,
    is_eligible,
    misaligned,
    tensor_core_use,
)
from stepscope.costs.work import DEFAULT_CONVENTIONS, FAMILIES, Conventions, Model, Work

__all__ = [
    "CLASSES",
    "DEFAULT_CONVENTIONS",
    "FAMILIES",
    "Conventions",
    "Formula",
    "Hardware",
    "Limits",
    "Model",
    "Row",
    "TensorCoreUse",
    "Work",
    "alignment",
    "answering",
    "arithmetic_type",
    "class_of",
    "collective",
    "collective_name",
    "element_type",
    "formulas",
    "is_composite",
    "is_eligible",
    "kernel_class",
    "library",
    "load_hardware",
    "misaligned",
    "model_of",
    "of_row",
    "tensor_core_use",
    "wants_related",
    "why_not",
    "work",
    "work_table",
]
