"""Declarations of questions and tables as data: for `--json`, for the page, and for agents."""

from __future__ import annotations

import inspect
from typing import Any

from stepscope.query.declare import Question
from stepscope.query.event_filter import filters_of
from stepscope.report.renderers import renderer_of
from stepscope.schema.declare import SchemaTable


def declaration(question: Question) -> dict[str, Any]:
    """A question's declaration as JSON: name, question, parameters, columns."""
    return {
        **_as_data(question, "name", "asks", "group", "recordings", "needs", "drawing"),
        "added_by": str(question.added_by) if question.added_by else None,
        "parameters": [
            _as_data(p, "name", "type", "meaning", "default") | {"choices": list(p.choices)}
            for p in question.parameters
        ],
        "columns": [_as_data(c, "name", "type", "unit", "meaning") for c in question.columns],
    }


def _as_data(declared: object, *names: str) -> dict[str, Any]:
    return {name: getattr(declared, name) for name in names}


def table_declaration(table: SchemaTable) -> dict[str, Any]:
    """A store's table and its columns as JSON."""
    return {
        "name": table.name,
        "meaning": table.meaning,
        "columns": [
            {"name": c.name, "type": c.sql_type, "nullable": c.nullable, "meaning": c.meaning} for c in table.columns
        ],
    }


def page_declaration(question: Question) -> dict[str, Any]:
    """A question's declaration with everything that a page needs to draw an answer unknown to it."""
    declared = declaration(question)
    for column, data in zip(question.columns, declared["columns"], strict=True):
        data |= _as_data(column, "visible", "sums", "advises", "moment", "kernels")
    for parameter, taken in zip(question.parameters, declared["parameters"], strict=True):
        taken |= _as_data(parameter, "form", "picks")
    filters = filters_of(question)
    return declared | {
        "explanation": inspect.cleandoc(question.explanation),
        "fills": question.fills,
        "chart": renderer_of(question.drawing).chart,
        "filters": {by or "": list(taken) for by, taken in filters.items()},
    }
