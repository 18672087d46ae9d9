"""The tools that `stepscope launch` knows: the core's, one file each, those that come with StepScope, and plug-ins'."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from stepscope.base.plugins import PlugIn, bundled, load, named
from stepscope.launch.tool import Request, Tool
from stepscope.launch.tools.ncu import NCU
from stepscope.launch.tools.nsys import NSYS
from stepscope.launch.tools.onednn import ONEDNN
from stepscope.launch.tools.perf import PERF
from stepscope.launch.tools.py_spy import PY_SPY
from stepscope.launch.tools.recorders import INLINE, PHASES, TORCH
from stepscope.launch.tools.rocprofv3 import ROCPROFV3
from stepscope.launch.tools.vtune import VTUNE

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        *(NSYS, NCU, ROCPROFV3, VTUNE, PY_SPY, PERF, ONEDNN, TORCH, PHASES, INLINE),
        *bundled("tools", Tool),
    )
}
"""Tools of StepScope by name, in the order of listings."""


def tool_named(name: str) -> Tool:
    """The tool with this name, which must be known; plug-ins are looked for only if it is not ours."""
    return TOOLS.get(name) or all_tools()[name]


@cache
def all_tools() -> dict[str, Tool]:
    """Tools by name, with those of plug-ins."""
    added = load("tools", Tool, lambda tool: [tool.name], TOOLS)
    return TOOLS | {tool.name: _guarded(plug_in, tool) for plug_in, tool in added}


def _guarded(plug_in: PlugIn, tool: Tool) -> Tool:
    """Wraps the tool so that a fault of its plug-in is named, and ends no job that runs."""

    def arguments(request: Request) -> list[str]:
        with named(plug_in):
            return tool.arguments(request)

    def environment(request: Request) -> dict[str, str]:
        with named(plug_in):
            return tool.environment(request)

    written = tuple(replace(kind, lacks=plug_in.or_else("", kind.lacks)) for kind in tool.written)
    finalize = tool.finalize and plug_in.or_else([], tool.finalize)
    return replace(tool, arguments=arguments, environment=environment, written=written, finalize=finalize)
