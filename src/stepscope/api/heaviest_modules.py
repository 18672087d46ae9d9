"""Modules by the work of their own, under paths by which a program finds them in its model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscope.floor.errors import SourceError

if TYPE_CHECKING:
    from stepscope.api.trace import Trace

# torch.profiler's own names for modules, which no model has.
_BY_CLASS = re.compile(r"[A-Z]\w*_\d+")
_HINT = "record with stepscope record --trace, which keeps their paths, or name the model"

ERRORS = {
    "no-modules": (
        "`stepscope plan` was given a recording that names no modules of the model, or names them "
        "only by their classes (`Linear_3`). `stepscope record --trace` keeps their paths; or "
        "name the script or the model itself."
    ),
}


@dataclass(frozen=True, slots=True)
class HeavyModule:
    """A module; its times (ns) are with those of the modules inside, None where nothing ran."""

    path: str
    forward_ns: int | None
    backward_ns: int | None


@dataclass(frozen=True, slots=True)
class HeaviestModules:
    """The modules with the most work of their own, the heaviest first.

    Args:
        modules: they, without the model itself.
        on_device: whether times are device work; host time where no device work has a module.
    """

    modules: tuple[HeavyModule, ...]
    on_device: bool


def heaviest_modules(trace: Trace, *, top: int, source: str) -> HeaviestModules:
    """The modules of a recording that take the most themselves, not counting modules inside.

    Args:
        top: how many modules at most.
        source: what errors call the recording.

    Raises:
        SourceError: it names no modules, or only by their classes.
    """
    rows = _parts_of_the_model(trace.ask("modules").rows())
    if not rows:
        raise _no_modules(f"{source}: the recording names no modules")
    if all(_BY_CLASS.fullmatch(part) for row in rows for part in row["path"].split(".")):
        path = rows[-1]["path"]
        raise _no_modules(f"{source}: the recording names modules by their classes ({path})")
    on_device = any(row["device_self_ns"] for row in rows)
    kind = "device" if on_device else "host"
    rows.sort(key=lambda row: -(row[f"{kind}_self_ns"] or 0))
    return HeaviestModules(
        tuple(
            HeavyModule(row["path"], row[f"forward_{kind}_ns"], row[f"backward_{kind}_ns"] or None)
            for row in rows[:top]
        ),
        on_device,
    )


def _parts_of_the_model(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # Also without the row of what belongs to no module.
    named = [row for row in rows if row["path"] and "(" not in row["path"]]
    outermost = [row for row in named if row["depth"] == 0]
    # A single one is the model itself, whose path is empty in the program.
    return [row for row in named if len(outermost) > 1 or row["depth"] != 0]


def _no_modules(message: str) -> SourceError:
    return SourceError(message, hint=_HINT, slug="no-modules")
