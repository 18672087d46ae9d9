"""A function for each question that compares recordings, made from its declaration; `comparisons.pyi` has their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepscope.api.question_methods import described, docstring
from stepscope.api.several import Source, ask_of_several
from stepscope.base.errors import UsageError
from stepscope.query.table import Table
from stepscope.questions import find

SOURCES = {
    "two": {
        "before": "a folder, file, store, open trace or result of `parse_result`",
        "after": "the recording to compare with `before`, made in the same way",
    },
    "several": {"sources": "a folder, file, store, open trace or result of `parse_result` for each recording"},
}
"""The positional arguments of a comparison, by how many recordings it takes."""


def __getattr__(name: str) -> Callable[..., Table]:
    try:
        question = find(name)
    except UsageError:
        question = None
    if question is None or question.recordings == "one":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def compare_two(before: Source, after: Source, **arguments: Any) -> Table:
        return ask_of_several(question.name, (before, after), **arguments)

    def compare_several(sources: Sequence[Source], **arguments: Any) -> Table:
        return ask_of_several(question.name, sources, **arguments)

    sources = SOURCES[question.recordings]
    function = compare_two if question.recordings == "two" else compare_several
    return described(function, question, list(sources), docstring(question, sources))
