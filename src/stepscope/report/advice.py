"""Completes the commands in an answer's text so that they can be pasted where it is read."""

from __future__ import annotations

import re
import shlex
from typing import get_args

from stepscope.query.declare import Filter
from stepscope.query.event_filter import filters_of
from stepscope.query.text_grid import Line, wrapped
from stepscope.questions import OURS, find
from stepscope.report.renderers import Layout

_ADVISED = re.compile(r"`stepscope ([a-z-]+)((?: SRC)?)((?:[^a-z`-][^`]*)?)`")
"""Text between backquotes is a command that we advise, never a name from a file."""


def typed(text: str | None, command: str, source: str) -> str | None:
    """Returns a text with its commands completed.

    Args:
        command: the command that starts this StepScope here.
        source: the recording as the user typed it; empty if none was typed.

    Example:
        >>> typed("see `stepscope idle`", "stepscope", "'my run'")
        "see `stepscope idle 'my run'`"
    """

    def completed(advised: re.Match[str]) -> str:
        return f"`{_command(advised, command, source) or advised[0][1:-1].replace('stepscope', command, 1)}`"

    return text and _ADVISED.sub(completed, text)


def advice_lines(label: str, text: str, layout: Layout) -> list[Line]:
    """Formats advice as lines: first the questions to ask next, each on a line that can be pasted, then the text.

    Args:
        label: put before the commands, or before the text if there are none.
        layout: its width does not break commands.
    """
    width, command, source = layout.width, layout.command, layout.source
    commands = list(
        dict.fromkeys(
            command_line
            for line_command in _ADVISED.finditer(text)
            if (command_line := _command(line_command, command, source))
        )
    )
    if not commands:
        return [Line(part) for part in wrapped(f"{label}{typed(text, command, source)}", width, "  ")]
    before = [label, *[" " * len(label)] * (len(commands) - 1)]
    lines = [Line(f"{start}{line_command}", "command") for start, line_command in zip(before, commands, strict=True)]

    def named(advised: re.Match[str]) -> str:
        command_line = _command(advised, command, source)
        return f"`{advised[1]}`" if command_line else typed(advised[0], command, source) or ""

    words = _ADVISED.sub(named, text)
    return lines + [Line(f"  {part}") for part in wrapped(words, width - 2)]


def asked_of(name: str, command: str, source: str) -> str:
    """The command line of a question, with `SRC` if no recording was typed."""
    return f"{command} {name} {_asked_again(name, source or 'SRC')}"


def _command(advised: re.Match[str], command: str, source: str) -> str | None:
    """The command line of a question about the recording; None for other commands."""
    if not source or advised[1] not in OURS or find(advised[1]).recordings != "one":
        return None
    return f"{command} {advised[1]} {_asked_again(advised[1], source, advised[3])}"


def _asked_again(name: str, source: str, options: str = "") -> str:
    """The recording as it was typed, with those filters of the present question that the other takes and its own
    options do not set."""
    given_options = options.split()
    question = find(name)
    declared = (str(filter_name.default) for filter_name in question.parameters if filter_name.name == "by")
    by = given_options[given_options.index("--by") + 1] if "--by" in given_options[:-1] else next(declared, None)
    taken = filters_of(question)
    refused = {f"--{filter_name}" for filter_name in get_args(Filter)}
    refused -= {f"--{filter_name}" for filter_name in taken.get(by, taken.get(None, ()))}
    words, words_taken = iter(shlex.split(source)), []
    for word in words:
        given = [word, next(words)] if word.startswith("--") else [word]
        words_taken += given if word not in refused.union(given_options) else []
    return shlex.join(words_taken) + options
