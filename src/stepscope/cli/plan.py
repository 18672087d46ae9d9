"""`stepscope plan`: what an inline recording could measure, as a plan to cut down."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stepscope.errors import SourceError, StepScopeError, UsageError

_WHOLE = ("input_wait", "forward", "backward", "optimizer.step")


@click.command(name="plan", short_help="Writes a plan of what can be measured, to cut down.")
@click.argument("source", metavar="MODEL_OR_SRC")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the plan; by default it is printed.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=20,
    metavar="N",
    help="Modules to name; 20 by default.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(1),
    default=50,
    metavar="N",
    help="Measurements per event; 50 by default.",
)
def command(source: str, output: Path | None, top: int, repetitions: int) -> None:
    """Writes a plan for `stepscope record --inline`: labels to cut down, one per line.

    MODEL_OR_SRC is a recording with modules (a trace file, a folder, a store), whose modules come
    heaviest first, or a model as FILE.py:NAME or PACKAGE.MODULE:NAME, whose modules come in the order
    of their definition. NAME is a module, or something that makes one when it is called.
    """
    from stepscope.record.listing import plan_text
    from stepscope.record.watch import Surveyed

    labels = _from_recording(source, top) if Path(source).exists() else _from_model(source, top)
    events = [
        Surveyed(label, 0, 0, 0, "host", place, place)
        for place, label in enumerate((*_WHOLE, *filter(_is_label, labels)))
    ]
    text = plan_text(events, repetitions=repetitions)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StepScopeError(
            f"{output}: cannot be written ({error.strerror or error})",
            hint="choose a folder that exists and that you may write to",
            slug="cannot-write",
        ) from None
    click.echo(f"{output}: {len(events)} events", err=True)


def _is_label(text: str) -> bool:
    from stepscope.record.labels import parse_label

    try:
        parse_label(text)
    except ValueError:
        return False
    return text.isprintable()


def _from_recording(source: str, top: int) -> list[str]:
    from stepscope.questions.trace import open_trace

    with open_trace(source) as trace:
        rows = trace.ask("modules").rows()
    rows = [row for row in rows if row.get("path") and "(" not in row["path"]]
    outermost = [row for row in rows if row["depth"] == 0]
    if len(outermost) == 1:  # the model itself, whose label is `forward` alone
        rows.remove(outermost[0])
    if not rows:
        raise SourceError(
            f"{source}: the recording names no modules",
            hint="record with stepscope record --trace, which keeps their paths, or name the model",
            slug="no-modules",
        )
    on_device = any(row.get("device_self_ns") for row in rows)
    kind = "device" if on_device else "host"
    rows.sort(key=lambda row: -(row.get(f"{kind}_self_ns") or 0))
    return [
        f"{row['path']}.{direction}"
        for row in rows[:top]
        for direction in ("forward", "backward")
        if direction == "forward" or row.get(f"backward_{kind}_ns")
    ]


def _from_model(source: str, top: int) -> list[str]:
    place, colon, name = source.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(
            f"{source}: no such file, and no model",
            hint="name a recording, or a model as train.py:Model",
            slug="no-model",
        )
    found = _imported(place)
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise UsageError(
                f"{place} has no {name}", hint="name a model that it defines", slug="no-model"
            )
    model = found if _is_model(found) else _made(found, source)
    paths = [path for path, _ in model.named_modules() if path]
    return [f"{path}.{way}" for path in paths[:top] for way in ("forward", "backward")]


def _imported(place: str) -> Any:
    path = Path(place)
    try:
        if path.suffix == ".py":
            if not path.is_file():
                raise UsageError(f"there is no file {path}", hint="check the path", slug="no-model")
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
        raise _no_model(place, error) from error


def _made(make: Callable[[], Any], source: str) -> Any:
    try:
        model = make()
    except Exception as error:
        raise _no_model(source, error) from error
    if not _is_model(model):
        raise UsageError(
            f"{source} makes a {type(model).__name__}, which is no module",
            hint="name a torch.nn.Module, or a function without arguments that returns one",
            slug="no-model",
        )
    return model


def _no_model(source: str, error: Exception) -> UsageError:
    return UsageError(
        f"{source}: {type(error).__name__}: {error}",
        hint="name a torch.nn.Module, or a function without arguments that returns one",
        slug="no-model",
    )


def _is_model(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "named_modules")
