"""`stepscope mcp`: lets an agent ask recordings."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import click

from stepscope.base.errors import StepScopeError
from stepscope.cli.choices import reading_options, sources_argument
from stepscope.cli.opened import compare_option, opened_recordings, time_limit_option
from stepscope.cli.terminal.printing import print_err
from stepscope.store.memory import limited_data

if TYPE_CHECKING:
    from stepscope.serve.asking import Recordings

ERRORS = {"no-mcp": "`stepscope mcp` needs the SDK of the Model Context Protocol: `pip install 'mcp>=2'`."}

_AT_ONCE_SECONDS = 3.0
"""Waits this long for recordings to open before it answers the agent, so that early errors are reported at the
start."""


@click.command(name="mcp", short_help="Answers an agent over the Model Context Protocol.")
@sources_argument
@compare_option
@time_limit_option
@reading_options
def command(
    sources: tuple[str, ...], job: str | None, compare: tuple[str, ...], time_limit: float, reading: dict[str, Any]
) -> None:
    """Answers an agent over standard input and output, with the Model Context Protocol. The agent's program
    starts it: put this command into its settings.

    It has nine tools: every question, findings with their evidence, checks, the tables, read-only SQL. It
    reads only SRC, and writes only what every question caches: imported recordings, and answers in a store's
    folder `.results`. Names in a recording are marked as data.
    """
    try:
        from stepscope.serve.agent_server import serve_agent
    except ImportError as error:
        raise StepScopeError(
            f"agents need {error.name}, which is not installed", hint="pip install 'mcp>=2'", slug="no-mcp"
        ) from None

    with ExitStack() as stack:
        recordings = _opening(stack, sources, job, compare, **reading)
        with suppress(NotYet):
            recordings.result(_AT_ONCE_SECONDS)
        if sys.stdin.isatty():
            print_err("An agent's program starts this command and writes to it. Ctrl-C ends it.")
        with limited_data():
            serve_agent(recordings, limit_s=time_limit)


def _opening(
    stack: ExitStack, sources: tuple[str, ...], job: str | None, compare: tuple[str, ...], **reading: Any
) -> Future[Recordings]:
    """Opens recordings in a thread, because agents do not wait for a server that reads first."""
    from stepscope.serve.asking import Recordings

    opened: Future[Recordings] = Future()

    def work() -> None:
        try:
            opened.set_result(Recordings(opened_recordings(stack, sources, job, compare, **reading)))
        except BaseException as error:
            opened.set_exception(error)

    threading.Thread(target=work, name="stepscope-opening", daemon=True).start()
    return opened
