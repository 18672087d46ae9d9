"""Makes a repaired event fit the types of its fields.

A damaged event may have a text where a number belongs. A value that cannot be converted becomes null and is counted, so
that one strange value does not cost the event.
"""

from __future__ import annotations

import math
from typing import Any

from stepscope.formats.kineto import fields
from stepscope.formats.tables import ReadReport

_LARGEST = 2**63 - 1


def conform(event: dict[str, Any], report: ReadReport) -> dict[str, Any]:
    """The event with its known fields converted to their declared types and spelling.

    Args:
        event: a parsed event; numbers with decimals may be texts.
        report: counts values of a wrong type, as `wrong_type`.
    """
    conformed: dict[str, Any] = {}
    for raw, value in event.items():
        key = fields.KNOWN_EVENT.get(raw.lower(), raw)
        if key == "args":
            if isinstance(value, dict):
                conformed[key] = {
                    name: converted
                    for name, converted in (_argument(*item, report) for item in value.items())
                    if converted is not None
                }
            elif value is not None:
                report.note("wrong_type")
            continue
        converted = _convert(value, fields.EVENT.get(key, "JSON"), report)
        if converted is not None:
            conformed[key] = converted
    return conformed


def _argument(raw: str, value: Any, report: ReadReport) -> tuple[str, Any]:
    key = fields.KNOWN_ARGS.get(raw.lower(), raw)
    return key, _convert(value, fields.ARGS.get(key, "JSON"), report)


def _convert(value: Any, kind: str, report: ReadReport) -> Any:
    if value is None:
        return None
    converted: Any = value
    if kind == "BIGINT":
        converted = integer(value)
    elif kind == "DOUBLE":
        converted = _decimal(value)
    elif kind == "VARCHAR" and not isinstance(value, (str, int, list, dict)):
        converted = str(value)
    if converted is None:
        report.note("wrong_type")
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
    return number if -_LARGEST <= number <= _LARGEST else None


def _decimal(value: Any) -> str | None:
    """The digits as text: a float would lose digits of a long time."""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return None
    return text if math.isfinite(number) else None
