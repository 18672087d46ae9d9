"""StepScope: where a training step's time goes, and how far that is from the hardware's limit.

    import stepscope

    with stepscope.open("traces/") as trace:
        print(trace.summary())
        print(trace.kernels(top=20).to_pandas())

Names are imported when they are first used: `import stepscope` costs milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepscope.errors import StepScopeError
    from stepscope.questions.table import Table
    from stepscope.questions.trace import Trace
    from stepscope.questions.trace import open_trace as open  # noqa: A004  # read as stepscope.open
    from stepscope.store.build import import_source

__version__ = "0.1.0"
__all__ = ["StepScopeError", "Table", "Trace", "__version__", "import_source", "open"]

_HOMES = {
    "StepScopeError": ("stepscope.errors", "StepScopeError"),
    "Table": ("stepscope.questions.table", "Table"),
    "Trace": ("stepscope.questions.trace", "Trace"),
    "import_source": ("stepscope.store.build", "import_source"),
    "open": ("stepscope.questions.trace", "open_trace"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, attribute = _HOMES[name]
    value = getattr(import_module(home), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
