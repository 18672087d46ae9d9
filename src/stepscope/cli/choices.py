"""The options that many subcommands share, and how their values are parsed."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from stepscope.base.chosen_numbers import numbers_typed, parse_numbers
from stepscope.base.chosen_ranks import EXAMPLES, parse_ranks
from stepscope.base.errors import UsageError
from stepscope.query.declare import Filter
from stepscope.query.event_filter import EVERYTHING, EventFilter, parse_window, window_typed

Command = TypeVar("Command", bound=Callable[..., Any])


def read_numbers(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...] | None:
    """The numbers of an option that may be repeated (`0,2-5`); None when it was not given."""
    try:
        numbers = {number for text in texts for number in parse_numbers(text)}
    except UsageError as error:
        raise click.BadParameter(f"{error.message}: {error.hint}", ctx, param) from None
    return tuple(sorted(numbers)) if texts else None


def recorded_ranks_option(words: str) -> Callable[[Command], Command]:
    """`--ranks`, for the ranks of a job that record; `words` say what they do."""
    return click.option(
        "--ranks", metavar="RANKS", callback=_check_recorded_ranks, help=f"{words}: {EXAMPLES} (default: all)."
    )


def _check_recorded_ranks(_ctx: click.Context, _param: click.Parameter, ranks: str | None) -> str | None:
    """Refuses an unreadable value before the job runs."""
    if ranks is not None:
        parse_ranks(ranks)
    return ranks


def out_option(words: str) -> Callable[[Command], Command]:
    """`-o`, by default the folder of all kinds of recordings; `words` describe it."""
    return click.option(
        "-o",
        "--out",
        default="stepscope-out",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help=f"{words} (default stepscope-out).",
    )


def file_option(words: str, **more: Any) -> Callable[[Command], Command]:
    """`-o`, for the one file that a command writes."""
    file = click.Path(dir_okay=False, path_type=Path)
    return click.option("-o", "--output", metavar="FILE", type=file, help=words, **more)


def top_option(default: int, words: str) -> Callable[[Command], Command]:
    """`--top`, for how many are taken."""
    return click.option(
        "--top", type=click.IntRange(1), default=default, metavar="N", help=f"{words} (default {default})."
    )


def tool_option(name: str, words: str, *, multiple: bool = False) -> Callable[[Command], Command]:
    """`--tool`, for the profilers that `stepscope launch` starts; `words` say what it does."""
    from stepscope.launch.tools import TOOLS

    tools = ", ".join(TOOLS)
    choice = _Tool(list(TOOLS))
    return click.option("--tool", name, type=choice, metavar="TOOL", multiple=multiple, help=f"{words}: {tools}.")


class _Tool(click.Choice):  # type: ignore[type-arg]  # generic from click 8.2 on
    """The name of a tool; plug-ins are looked for only if it is not one of ours."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the name, or fails with all names."""
        from stepscope.launch.tools import all_tools

        if value not in self.choices:
            self.choices = tuple(all_tools())
        return super().convert(value, param, ctx)


def read_window(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """The ends of a time interval in ns, as `parse_window` reads it; None when it was not given."""
    try:
        return None if text is None else parse_window(text)
    except UsageError as error:
        raise click.BadParameter(f"{error.message}: {error.hint}", ctx, param) from None


class Seconds(click.FloatRange):
    """A time that a clock can show: neither `inf` nor `nan`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parses the seconds."""
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds


def seconds_option(flag: str, default: float, words: str) -> Callable[[Command], Command]:
    """An option for a time that may be 0."""
    return click.option(flag, type=Seconds(min=0), default=default, show_default=True, metavar="SECONDS", help=words)


_SIZE = re.compile(r"(\d+(?:\.\d+)?(?:e\d{1,2})?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)


def read_size(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """Bytes from a size such as `2GB` or `512MiB`; None when it was not given."""
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise click.BadParameter(f"{text!r} is not a size: write 2GB or 512MB", ctx, param)
    return int(float(match[1]) * (1024 if match[3] else 1000) ** " kmgt".index(match[2].lower() or " "))


def numbers_option(flag: str, name: str, words: str) -> Callable[[Command], Command]:
    """An option for numbers and ranges, which may be repeated."""
    return click.option(flag, name, multiple=True, metavar="N,A-B,...", callback=read_numbers, help=words)


def column_names(text: str | None) -> list[str] | None:
    """Splits `a, b` into names; None when it was not given."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


source_argument = click.argument("source", metavar="SRC", type=click.Path())
sources_alone = click.argument("sources", metavar="SRC...", nargs=-1, required=True, type=click.Path())


def typed_sources(
    sources: Sequence[str],
    job: str | None = None,
    captures: Sequence[str] = (),
    *,
    ranks: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    part: EventFilter = EVERYTHING,
) -> str:
    """Files and folders, the job, captures of graphs and filters, written as they were typed; standard input, which is
    consumed, becomes `SRC`."""
    # A file name that looks like an option is written with its folder.
    named = ["SRC" if path == "-" else f"./{path}" if path.startswith("-") else path for path in sources]
    given = [
        ("--job", job),
        *(("--capture", capture) for capture in captures),
        ("--rank", None if ranks is None else numbers_typed(ranks)),
        ("--step", None if steps is None else numbers_typed(steps)),
        ("--name", part.name),
        ("--under", part.under),
        ("--window", None if part.window is None else window_typed(part.window)),
    ]
    options = [word for option, value in given if value is not None for word in (option, value)]
    return shlex.join([*named, *options])


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Adds several options, listed in this order by help."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


sources_argument = together(
    sources_alone,
    click.option("--job", metavar="NAME", help="Only this job, if the files are of several; answers name the jobs."),
)
"""Files and folders that are read together, and their job."""

form_options = together(
    click.option("--json", "as_json", is_flag=True, help="Answer as one JSON object."),
    click.option("--csv", "as_csv", is_flag=True, help="Answer as CSV."),
    click.option(
        "--parquet",
        "parquet",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Write the answer to a Parquet file.",
    ),
)

capture_option = click.option(
    "--capture",
    multiple=True,
    metavar="FILE",
    type=click.Path(),
    help="A trace of the capture of the job's CUDA graphs: their replays get operators and modules from it. "
    "May be repeated.",
)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for reading files that are not in a store yet; a command gets them as `reading`, named as in
    `stepscope.open`.
    """

    @wraps(command)
    def run(*, capture: tuple[str, ...], no_cache: bool, strict: bool, **given: Any) -> Any:
        reading = {"capture": capture, "cache": not no_cache, "strict": strict}
        return command(reading=reading, **given)

    return together(
        capture_option,
        click.option("--no-cache", is_flag=True, help="Read the files again and cache nothing."),
        click.option("--strict", is_flag=True, help="Treat any damage in a file as an error."),
    )(run)


def window_option(*, hidden: bool = False) -> Callable[[Command], Command]:
    """`--window`, for a time interval."""
    return click.option(
        "--window",
        metavar="START:END",
        callback=read_window,
        hidden=hidden,
        help="Only this time window, counted from the run's start, as in 1.5:2, 10ms:20ms or 1.5s:. Events that "
        "cross its edges are cut.",
    )


def filter_options(*taken: Filter) -> Callable[[Command], Command]:
    """The filters of events. Those not `taken` are hidden from help, and refused with an explanation."""
    return together(
        click.option(
            "--name",
            metavar="GLOB|/REGEX/",
            hidden="name" not in taken,
            help="Only operators, ranges, kernels and calls of this name, and the kernels that such operators "
            "launched themselves: aten::mm, '*gemm*', '/sgemm|hgemm/'.",
        ),
        click.option(
            "--under",
            metavar="MODULE|OPERATOR|RANGE",
            hidden="under" not in taken,
            help="Only what ran in this module (with its backward), or inside this operator or range. "
            "Takes * and ?, or /REGEX/.",
        ),
        window_option(hidden="window" not in taken),
    )


narrowing_options = together(
    numbers_option("--rank", "ranks", "Only these ranks, as in 0,2-5."),
    numbers_option("--step", "steps", "Only these steps, as in 3 or 3-5."),
)
