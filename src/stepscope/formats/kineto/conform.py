"""Makes a repaired event fit the types of its fields, so that one strange value does not cost the event."""

from __future__ import annotations

import math
from typing import Any

from stepscope.formats.kineto import fields
from stepscope.formats.kineto.repair import NumberText
from stepscope.formats.tables import ReadReport

_MAX = 2**63 - 1


def conform(event: dict[str, Any], report: ReadReport) -> dict[str, Any]:
    """The event with its known fields converted to their declared types and spelling.

    A value that cannot be converted is left out and counted as `wrong_type`. Numbers with decimals may be texts.
    """
    conformed = _converted(event, fields.KNOWN_EVENT, fields.EVENT, report)
    if isinstance(args := conformed.get("args"), dict):
        conformed["args"] = _converted(args, fields.KNOWN_ARGS, fields.ARGS, report)
    elif args is not None:
        report.note("wrong_type")
        del conformed["args"]
    return conformed


def _converted(
    values: dict[str, Any], spelling: dict[str, str], types: dict[str, str], report: ReadReport
) -> dict[str, Any]:
    converted = {}
    for raw, value in values.items():
        if value is None:
            continue
        key = spelling.get(raw.lower(), raw)
        kind, typed = types.get(key, "JSON"), value
        if kind == "BIGINT":
            typed = integer(value)
        elif kind == "DOUBLE":
            typed = _decimal(value)
        elif kind == "JSON" and isinstance(value, NumberText):
            typed = float(value)
        elif kind == "VARCHAR" and not isinstance(value, (str, int, list, dict)):
            typed = str(value)
        if typed is None:
            report.note("wrong_type")
        else:
            converted[key] = typed
    return converted


def integer(value: Any) -> int | None:
    """A JSON value as a 64-bit integer, None if it is none."""
    if isinstance(value, bool):
        return None
    try:
        number = int(value) if not isinstance(value, str) else int(value.strip())
    except (ValueError, OverflowError, TypeError):
        try:
            decimal = float(value)
        except (ValueError, TypeError, OverflowError):
            return None
        if not math.isfinite(decimal) or not decimal.is_integer():
            return None
        number = int(decimal)
    return number if -_MAX <= number <= _MAX else None


def _decimal(value: Any) -> str | None:
    """The digits as text: a float would lose digits of a long time."""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return None
    return text if math.isfinite(number) else None
