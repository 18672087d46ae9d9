"""What a package with plug-ins imports. Names stay here, or the CHANGELOG says what happened to them.

docs/plugins.md explains what each is for. A name is imported when it is first used, because a device needs no reader
of files, and a question no formulas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepscope.base.errors import SourceError
    from stepscope.costs.call import Call, Tensor
    from stepscope.costs.hardware import Hardware, parse_hardware
    from stepscope.costs.work import Conventions, Model, Work
    from stepscope.findings.declare import Finding, Threshold, rule
    from stepscope.findings.facts import Facts
    from stepscope.formats.container import Member
    from stepscope.formats.options import ReadOptions
    from stepscope.formats.registry import Format
    from stepscope.formats.tables import READ as READER_TABLES
    from stepscope.formats.tables import Facts as FileFacts
    from stepscope.formats.tables import RankTables, ReadReport
    from stepscope.launch.tool import Request, Tool, Written
    from stepscope.query.declare import Column, Parameter, question
    from stepscope.query.scope import Scope

__all__ = [
    "READER_TABLES", "Call", "Column", "Conventions", "Facts", "FileFacts", "Finding", "Format", "Hardware",
    "Member", "Model", "Parameter", "RankTables", "ReadOptions", "ReadReport", "Request", "Scope", "SourceError",
    "Tensor", "Threshold", "Tool", "Work", "Written", "parse_hardware", "question", "rule",
]  # fmt: skip

_HOMES = {
    "base.errors": ("SourceError",),
    "costs.call": ("Call", "Tensor"),
    "costs.hardware": ("Hardware", "parse_hardware"),
    "costs.work": ("Conventions", "Model", "Work"),
    "findings.declare": ("Finding", "Threshold", "rule"),
    "findings.facts": ("Facts",),
    "formats.container": ("Member",),
    "formats.options": ("ReadOptions",),
    "formats.registry": ("Format",),
    "formats.tables": ("RankTables", "ReadReport"),
    "launch.tool": ("Request", "Tool", "Written"),
    "query.declare": ("Column", "Parameter", "question"),
    "query.scope": ("Scope",),
}
_RENAMED = {"READER_TABLES": ("formats.tables", "READ"), "FileFacts": ("formats.tables", "Facts")}
"""Public name → module and its name there."""


def __getattr__(name: str) -> Any:
    homes = {name: (home, name) for home, names in _HOMES.items() for name in names} | _RENAMED
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, attribute = homes[name]
    return getattr(import_module(f"stepscope.{home}"), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
