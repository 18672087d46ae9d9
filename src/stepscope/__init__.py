"""StepScope: where a training step's time goes, and how far that is from the hardware's limit.

    import stepscope

    with stepscope.open("traces/") as trace:
        print(trace.steps())
        print(trace.kernels(top=20).to_pandas())

Names are imported when they are first used: `import stepscope` costs milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepscope.api.comparisons import diff, metrics_diff, scaling
    from stepscope.api.inline_profiles import parse_result, print_result
    from stepscope.api.trace import Trace
    from stepscope.api.trace import open_trace as open  # noqa: A004  # read as stepscope.open
    from stepscope.base.errors import StepScopeError
    from stepscope.query.table import Table
    from stepscope.record import inline
    from stepscope.record.annotate import region, traced, value
    from stepscope.record.capture.region import capture
    from stepscope.record.cpp import include_path
    from stepscope.record.on_demand.listener import on_demand
    from stepscope.record.plan import generate_schedule
    from stepscope.record.planning.listing import measurable, plan_text
    from stepscope.record.traces.tracing import trace
    from stepscope.report.chart import chart
    from stepscope.report.scaling_chart import scaling_chart
    from stepscope.report.timeline_chart import timeline_chart
    from stepscope.store.build import import_source

__version__ = "0.1.0"
__all__ = [
    "StepScopeError", "Table", "Trace", "__version__", "capture", "chart", "diff", "generate_schedule",
    "import_source", "include_path", "inline", "measurable", "metrics_diff", "on_demand", "open", "parse_result",
    "plan_text", "print_result", "region", "scaling", "scaling_chart", "timeline_chart", "trace", "traced", "value",
]  # fmt: skip

_HOMES: dict[str, tuple[str, str | None]] = {
    "StepScopeError": ("stepscope.base.errors", "StepScopeError"),
    "Table": ("stepscope.query.table", "Table"),
    "Trace": ("stepscope.api.trace", "Trace"),
    "capture": ("stepscope.record.capture.region", "capture"),
    "chart": ("stepscope.report.chart", "chart"),
    "diff": ("stepscope.api.comparisons", "diff"),
    "generate_schedule": ("stepscope.record.plan", "generate_schedule"),
    "import_source": ("stepscope.store.build", "import_source"),
    "include_path": ("stepscope.record.cpp", "include_path"),
    "inline": ("stepscope.record.inline", None),
    "measurable": ("stepscope.record.planning.listing", "measurable"),
    "metrics_diff": ("stepscope.api.comparisons", "metrics_diff"),
    "on_demand": ("stepscope.record.on_demand.listener", "on_demand"),
    "open": ("stepscope.api.trace", "open_trace"),
    "parse_result": ("stepscope.api.inline_profiles", "parse_result"),
    "plan_text": ("stepscope.record.planning.listing", "plan_text"),
    "print_result": ("stepscope.api.inline_profiles", "print_result"),
    "region": ("stepscope.record.annotate", "region"),
    "scaling": ("stepscope.api.comparisons", "scaling"),
    "scaling_chart": ("stepscope.report.scaling_chart", "scaling_chart"),
    "timeline_chart": ("stepscope.report.timeline_chart", "timeline_chart"),
    "trace": ("stepscope.record.traces.tracing", "trace"),
    "traced": ("stepscope.record.annotate", "traced"),
    "value": ("stepscope.record.annotate", "value"),
}
"""Public name → module, and its name there; None for the module itself."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, attribute = _HOMES[name]
    module = import_module(home)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
