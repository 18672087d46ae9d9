"""Gives a trace a method for each question, made from its declaration; `question_methods.pyi` has their types."""

from __future__ import annotations

import inspect
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from stepscope.base.errors import UsageError
from stepscope.query.declare import Question
from stepscope.query.table import Table
from stepscope.questions import all_questions, find, of_one_recording

_WIDTH = 116


class QuestionMethods(ABC):
    """Base of the classes that have a method for each question about one recording, those of plug-ins too."""

    @abstractmethod
    def ask(self, question: str, **arguments: Any) -> Table:
        """Asks a question by its name."""

    def __getattr__(self, name: str) -> Callable[..., Table]:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            question = of_one_recording(find(name))
        except UsageError as error:
            raise AttributeError(f"{error.message}; {error.hint}", name=name) from None

        def method(**arguments: Any) -> Table:
            return self.ask(question.name, **arguments)

        return described(method, question, [], docstring(question, {}))

    def __dir__(self) -> list[str]:
        questions = {question.method for question in all_questions() if question.recordings == "one"}
        return sorted(questions.union(super().__dir__()))


def described(function: Callable[..., Table], question: Question, sources: list[str], doc: str) -> Callable[..., Table]:
    """Gives a question's function the name, signature and docstring that `help` shows."""
    parameters = [
        *(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in sources),
        *(inspect.Parameter(p.name, inspect.Parameter.KEYWORD_ONLY, default=p.default) for p in question.parameters),
        inspect.Parameter("asked", inspect.Parameter.VAR_KEYWORD),
    ]
    function.__name__ = function.__qualname__ = question.method
    function.__doc__ = doc
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def docstring(question: Question, sources: dict[str, str]) -> str:
    """A question's docstring: the question, its arguments and columns.

    Args:
        sources: the meaning of each positional argument.
    """
    arguments = sources | {parameter.name: parameter.meaning for parameter in question.parameters}
    lines = [question.asks, ""]
    if arguments:
        lines.append("Args:")
        for name, meaning in arguments.items():
            lines += textwrap.wrap(f"{name}: {meaning}.", _WIDTH, initial_indent="    ", subsequent_indent="        ")
        lines.append("")
    lines += textwrap.wrap(f"Columns: {', '.join(column.name for column in question.columns)}.", _WIDTH)
    return "\n".join(lines) + "\n"
