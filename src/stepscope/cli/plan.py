"""`stepscope plan`: lists what an inline recording could measure, as a plan to cut down."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.base.complete_file import check_output, complete_output, descriptor_of
from stepscope.base.errors import StepScopeError, UsageError
from stepscope.cli.choices import file_option, top_option
from stepscope.cli.terminal.printing import print_err, print_out

if TYPE_CHECKING:
    from stepscope.record.planning.listing import Listed

_PHASES = ("input_wait", "forward", "backward", "optimizer.step")

ERRORS = {
    "no-model": (
        "`stepscope plan` takes a script, a recording, or a model as `train.py:Model` or "
        "`package.module:Model`, where `Model` is a module or makes one when it is called without "
        "arguments."
    )
}


class _Plan(click.Command):
    """Explains where the script's own options belong if it is given one of them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As in click."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"{error.format_message()} A script's own options go after --: stepscope plan -- train.py ARGS", ctx
            ) from None


@click.command(name="plan", cls=_Plan, short_help="Writes a plan of the events that can be measured.")
@click.argument("source", metavar="SRC | MODEL | -- SCRIPT [ARGS]...", nargs=-1, type=click.UNPROCESSED)
@file_option("Write the plan to this file, as TOML, or as JSON if its name ends in .json (default: print it).")
@top_option(20, "List the N heaviest modules")
@click.option(
    "--repetitions", type=click.IntRange(1), default=50, metavar="N", help="Measurements per event (default 50)."
)
@click.option(
    "--iterations",
    type=click.IntRange(1),
    default=3,
    metavar="N",
    help="For a script: watch each event in this many iterations (default 3).",
)
@click.option("--operators", is_flag=True, help="For a script: list all operators of a module, not just the 4 longest.")
def command(
    source: tuple[str, ...], output: Path | None, top: int, repetitions: int, iterations: int, operators: bool
) -> None:
    """Writes a plan for `stepscope record --inline`: one event per line, to cut down.

    It can be made from three things:

    A script with its arguments: `stepscope plan -- train.py ARGS`, or `-- -m MODULE ARGS`, also under
    torchrun, mpiexec or srun. The script runs as under `stepscope record` and is ended after about 15
    iterations, most of them watched. The plan names what they ran, in that order, with rough times. The
    script's output goes to stderr.

    A recording with modules (a trace file, a folder, a store). The heaviest modules come first.

    A model as FILE.py:NAME or PACKAGE.MODULE:NAME, with modules in the order of their definition. NAME is a
    module, or a callable that returns one.
    """
    from stepscope.record.planning.listing import Listed, plan_json, plan_text

    def write(listed: list[Listed], header: list[str]) -> None:
        if output is not None and output.suffix.lower() == ".json":
            text = plan_json(listed, repetitions=repetitions)
        else:
            if place is not None:  # the lines are pasteable commands
                name = shlex.quote(str(output))
                header = [line.replace("PLAN.toml", name, 1) for line in header]
            text = plan_text(listed, repetitions=repetitions, header=header, all_operators=operators)
        _write_plan(text, place, stdout)
        if output is not None:
            events = sum(event.events for event in listed)
            print_err(f"{output}: {events} events")

    # Absolute, because a script may change its directory.
    place = None if output is None or descriptor_of(output) == 1 else output.absolute()
    stdout: int | None = None
    if not source:
        raise _no_model(
            "nothing was given to make a plan of", "name a script, a recording, or a model as train.py:Model"
        )
    # Only a script takes arguments.
    if len(source) > 1 or source[0].endswith(".py") or source[0] == "-m":
        from stepscope.cli.script.planned import ScriptPlan, stdout_apart

        _check_writable(output)
        stdout = stdout_apart()
        module = source[0] == "-m"
        script = source[1:] if module else source
        ScriptPlan(script, module, write, top, iterations, repetitions).make()
        return
    if Path(source[0]).exists():
        from stepscope.cli.recorded_plan import recorded_plan

        labels, header = recorded_plan(source[0], top)
    else:
        labels, header = _from_model(source[0], top), []
    phases = [Listed(label) for label in _PHASES]
    write([*phases, *(event for event in labels if _is_label(event.label))], header)


def _write_plan(text: str, output: Path | None, stdout: int | None) -> None:
    if output is not None:
        if stdout is not None:
            os.close(stdout)
        with complete_output(output) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    elif stdout is not None:
        from stepscope.cli.script.planned import write_all

        write_all(stdout, text)
    else:
        print_out(text)


def _check_writable(output: Path | None) -> None:
    """Refuses an unwritable output before a script runs for it."""
    if output is None:
        return
    if not output.parent.is_dir():
        raise StepScopeError(
            f"{output}: cannot be written (there is no folder {output.parent})",
            hint="choose a folder that exists and that you may write to",
            slug="cannot-write",
        )
    check_output(output)


def _is_label(text: str) -> bool:
    from stepscope.record.labels import parse_label

    try:
        parse_label(text)
    except ValueError:
        return False
    return text.isprintable()


def _from_model(source: str, top: int) -> list[Listed]:
    from stepscope.record.planning.listing import Listed

    place, colon, name = source.rpartition(":")
    if not colon or not place or not name:
        raise _no_model(f"{source}: no such file, and no model", "name a recording, or a model as train.py:Model")
    value = _imported(place)
    for part in name.split("."):
        value = getattr(value, part, None)
        if value is None:
            raise _no_model(f"{place} has no {name}", "name a model that it defines")
    model = value if _is_model(value) else _call_model(value, source)
    paths = [path for path, _ in model.named_modules() if path]
    return [Listed(f"{path}.{way}") for path in paths[:top] for way in ("forward", "backward")]


def _imported(place: str) -> Any:
    path = Path(place)
    try:
        if path.suffix == ".py":
            if not path.is_file():
                raise _no_model(f"there is no file {path}", "check the path")
            sys.path.insert(0, str(path.resolve().parent))
            spec = importlib.util.spec_from_file_location(path.stem, path)
            if spec is None or spec.loader is None:
                raise ImportError(f"{path} is no Python file")
            module = importlib.util.module_from_spec(spec)
            sys.modules[path.stem] = module
            spec.loader.exec_module(module)
            return module
        sys.path.insert(0, "")
        return importlib.import_module(place)
    except StepScopeError:
        raise
    except Exception as error:
        raise _no_model(f"{place}: {type(error).__name__}: {error}") from error


def _call_model(make: Callable[[], Any], source: str) -> Any:
    try:
        model = make()
    except Exception as error:
        raise _no_model(f"{source}: {type(error).__name__}: {error}") from error
    if not _is_model(model):
        raise _no_model(f"{source} makes a {type(model).__name__}, which is not a module")
    return model


def _no_model(
    message: str, hint: str = "name a torch.nn.Module, or a function without arguments that returns one"
) -> UsageError:
    return UsageError(message, hint=hint, slug="no-model")


def _is_model(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "named_modules")
