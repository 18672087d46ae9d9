"""What operators had to do, what devices can do, and what kernels are: the data behind efficiency.

Pure functions over names, shapes and types; nothing here knows traces, stores or files but its own.

* `work` and `work_table` count the operations and bytes of operator calls; `formulas` explains how.
* `is_composite` and `answering` say which of two nested rows did the work, so that none counts twice.
* `Hardware` knows the peaks of devices by name, with the datasheet each number comes from.
* `tensor_cores` and `kernel_class` read a kernel's name.
"""

from __future__ import annotations

from stepscope.costs.communication import collective, collective_name
from stepscope.costs.composite import answering, is_composite
from stepscope.costs.registry import Formula, Row, formulas, model_of, of_row, work, work_table
from stepscope.costs.work import DEFAULT_CONVENTIONS, FAMILIES, Conventions, Model, Work

__all__ = [
    "DEFAULT_CONVENTIONS",
    "FAMILIES",
    "Conventions",
    "Formula",
    "Model",
    "Row",
    "Work",
    "answering",
    "collective",
    "collective_name",
    "formulas",
    "is_composite",
    "model_of",
    "of_row",
    "work",
    "work_table",
]
