"""The `stepscope` command: finds the subcommand, and turns errors into messages and exit codes.

Exit codes: 0 answered, 1 an error, 2 wrong usage, 3 a check or gate failed, 130 interrupted. Only the answer goes to
stdout.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import click

from stepscope import __version__, questions
from stepscope.base.errors import StepScopeError
from stepscope.base.known_names import nearest
from stepscope.base.plugins import are_none
from stepscope.cli.terminal.invoked_as import invoked_as
from stepscope.cli.terminal.printing import print_err, print_out
from stepscope.cli.terminal.streams import accept_any_text, flush, open_closed_streams, write_no_more
from stepscope.cli.terminal.termination import end_by, unwind_on_termination
from stepscope.query.declare import RESERVED
from stepscope.questions import OURS, grouped
from stepscope.serve.user_errors import to_user_error
from stepscope.store.worker_process import limit_imports

COMMANDS = {
    "record": "record",
    "launch": "launch",
    "trigger": "trigger",
    "view": "view",
    "report": "report",
    "import": "import_source",
    "export": "export",
    "sql": "sql",
    "demo": "demo",
    "questions": "list_questions",
    "schema": "schema",
    "check": "check",
    "plan": "plan",
    "replay": "replay",
    "timeline-chart": "timeline_chart",
    "mcp": "mcp",
    "doctor": "doctor",
    "jobscript": "jobscript",
    "calibrate": "calibrate",
    "completion": "completion",
}
"""Subcommands that are not questions, with their files in `stepscope.cli`. Each file has a click command named
`command`."""
RESERVED.update(COMMANDS)

_COMMANDS_WITH_A_LINE = 10
"""The first commands, each with a line in help; the others are named."""

INTERRUPTED = 130
BROKEN_PIPE = 141

ERRORS = {"system": "The operating system reported an error; its reason is in the message."}


def question_names() -> tuple[str, ...]:
    """The names of all questions, none of which is that of a command or of a recording's method."""
    if not are_none():
        import_module("stepscope.api.trace")  # it reserves the names of its methods
    return questions.names()


class Commands(click.Group):
    """Finds subcommands by name, so that each imports only what it needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names of all subcommands, the questions first."""
        return [*question_names(), *COMMANDS]

    def get_command(  # click's signature
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """Imports the subcommand with that name."""
        if cmd_name in COMMANDS:
            return import_module(f"stepscope.cli.{COMMANDS[cmd_name]}").command
        if cmd_name in OURS or cmd_name in question_names():
            from stepscope.cli.question_command import question_command
            from stepscope.questions import find

            return question_command(find(cmd_name))
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the typed subcommand; suggests the nearest name if it does not exist."""
        typed = args[0]
        ours = typed in OURS or typed in COMMANDS or typed.startswith("-")
        if not ours and typed not in (names := self.list_commands(ctx)):
            near = nearest(typed, names)
            suggestion = f" Did you mean {' or '.join(near)}?" if near else ""
            if typed and Path(typed).exists():
                words = f"{invoked_as()} {shlex.join(['summary', *args])}"
                suggestion = f" It is a file or folder; to ask about it: {words}"
            ctx.fail(f"No such command {typed!r}.{suggestion}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the questions by group, then the other subcommands."""
        by_group = {group: [question.name for question in members] for group, members in grouped().items()}
        with formatter.section("Questions (stepscope QUESTION SRC; `stepscope questions` says what they ask)"):
            _write_names(formatter, by_group, max(map(len, by_group)))
        names = list(COMMANDS)
        lines = names[:_COMMANDS_WITH_A_LINE]
        with formatter.section("Commands"):
            for name in lines:
                command = self.get_command(ctx, name)
                if command is not None:
                    formatter.write(f"  {name:<10}  {command.get_short_help_str(limit=80)}\n")
            _write_names(formatter, {"others": names[len(lines) :]}, 10)


def _write_names(formatter: click.HelpFormatter, lists: Mapping[str, Sequence[str]], label_width: int) -> None:
    """Writes lists of names, each with its label; a name is never broken."""
    for label, names in lists.items():
        lines = textwrap.wrap(", ".join(names), formatter.width - label_width - 4, break_on_hyphens=False)
        for number, line in enumerate(lines):
            formatter.write(f"  {'' if number else label:<{label_width}}  {line}\n")


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name="stepscope", message="%(prog)s %(version)s")
@click.pass_context
def commands(ctx: click.Context) -> None:
    """Shows where a training step's time goes, and how far that is from the hardware's limit.

    SRC is a trace of torch.profiler, a file of another profiler or of `stepscope record`, a store, a folder of
    these, a URL (s3://bucket/run/, https://host/trace.json.gz), or - for standard input. Several SRC are read
    together; if they are of several jobs, each job gets its own answer.
    """
    if ctx.invoked_subcommand is None:
        print_out(ctx.get_help() + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line (the process's own by default) and returns the exit code."""
    open_closed_streams()
    accept_any_text()
    if arguments is None and not _RUNS_OTHERS_CODE & set(sys.argv[1:2]):
        limit_imports()
        unwind_on_termination()
    try:
        code = _run(arguments)
        flush(sys.stdout)
    except StepScopeError as error:
        return _print_error(error)
    except click.ClickException as error:
        words = io.StringIO()
        error.show(words)
        print_err(words.getvalue().rstrip("\n").expandtabs(4))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort) as error:
        print_err("stepscope: interrupted")
        end_by(error)
        exec("")  # noqa: S102 - Python kills itself after an interrupted `exec`, unless one completed since
        return INTERRUPTED
    except BrokenPipeError:
        write_no_more(sys.stdout)
        return BROKEN_PIPE
    except OSError as error:
        write_no_more(sys.stdout)
        where = f"{error.filename}: " if error.filename else ""
        return _print_error(
            StepScopeError(
                f"{where}{error.strerror or error}",
                hint="check the path, its permissions and the free space",
                slug="system",
            )
        )
    except Exception as error:
        user_error = to_user_error(error, "the output of the same command under STEPSCOPE_DEBUG=1")
        if not user_error.slug and os.environ.get("STEPSCOPE_DEBUG") == "1":
            raise
        return _print_error(user_error)
    return code


COMPLETE_VARIABLE = "_STEPSCOPE_COMPLETE"
"""The variable with which a shell asks click for completions."""

_RUNS_OTHERS_CODE = frozenset({"record", "demo", "calibrate", "plan", "launch"})
"""Commands that run other code, which shares their process, environment and signals."""


def _run(arguments: Sequence[str] | None) -> int:
    """Runs click, but handles interruptions and closed pipes here."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(commands, {}, "stepscope", COMPLETE_VARIABLE, instruction)
    try:
        with commands.make_context("stepscope", given) as context:
            commands.invoke(context)
    except click.exceptions.Exit as done:
        return int(done.exit_code)
    return 0


def _print_error(error: StepScopeError) -> int:
    """Prints an error and its hint, a line each; returns the exit code."""
    slug = f" [{error.slug}]" if error.slug else ""
    lines = [f"stepscope: {error.message}{slug}"]
    if error.hint:
        lines.append(f"  {error.hint}")
    print_err("\n".join(lines))
    return error.exit_code
