"""The list of the tools that `stepscope launch` knows, one file each."""

from __future__ import annotations

from stepscope.launch.tool import Tool
from stepscope.launch.tools.aps import APS
from stepscope.launch.tools.ncu import NCU
from stepscope.launch.tools.nsys import NSYS
from stepscope.launch.tools.nvprof import NVPROF
from stepscope.launch.tools.onednn import ONEDNN
from stepscope.launch.tools.perf import PERF
from stepscope.launch.tools.py_spy import PY_SPY
from stepscope.launch.tools.recorders import INLINE, PHASES, TORCH
from stepscope.launch.tools.rocprofv3 import ROCPROFV3
from stepscope.launch.tools.vtune import VTUNE

TOOLS: dict[str, Tool] = {
    tool.name: tool for tool in (NSYS, NCU, NVPROF, ROCPROFV3, VTUNE, APS, PY_SPY, PERF, ONEDNN, TORCH, PHASES, INLINE)
}
"""Tools by name, in the order of listings."""
