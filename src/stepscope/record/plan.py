"""Reads a plan, which says what to measure and how often, from TOML, JSON or a Python dict.

    warmup = 10
    repetitions = 50
    events = ["input_wait", "forward", "backward", "optimizer.step", "TopMLP.*.forward"]

    [layers."BottomMLP.fc1"]
    forward_events = ["forward", "aten::addmm"]
    backward_events = ["backward"]

Layers may also be at the top level, as in HugeCTR's schedules: `{"BottomMLP.fc1":
{"forward_events": [...], "backward_events": [...]}}`.
"""

from __future__ import annotations

import bisect
import importlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepscope.base.complete_file import complete_output
from stepscope.base.errors import UsageError
from stepscope.base.known_names import did_you_mean
from stepscope.base.quoting import toml_string
from stepscope.record.labels import Direction, Label, label_in_layer, parse_label

_DIRECTIONS: tuple[tuple[str, Direction], ...] = (("forward_events", "forward"), ("backward_events", "backward"))
_MODES = ("one_at_a_time", "in_rounds", "one_shot")
AUTO = "auto"
"""Stands for a plan that the recording makes itself from what it watches."""

_QUOTED = re.compile(r'"([^"]*)"|\'([^\']*)\'')
_KEY = re.compile(r"^\s*\[?(?:layers\.)?([\w.-]+)()\s*[\]=]")

_AUTO_WARMUP = 3
_MAX_BYTES = 1 << 22

ERRORS = {"bad-plan": "The plan of an inline measurement cannot be used; the message names the line."}


class PlanError(UsageError):
    """A plan cannot be used; the message names the line if it is known."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, slug="bad-plan")


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, or several through wildcards, that the plan names; `line` counts from 1."""

    label: Label
    text: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Args:
        warmup: iterations before measuring.
        repetitions: counted measurements per event (in one-shot mode: measured iterations).
        mode: `one_at_a_time`; `in_rounds` for a few repetitions of each event, round after round, which ignores
            `repetitions`; `one_shot` for a small set that is measured in every iteration.
        unarmed_every: after this many measured iterations one runs unmeasured; 0 for never.
        stop_when_done: end `inline.iterate` when everything is measured. With several ranks set `stop_after` instead,
            which they share.
        stop_after: end `inline.iterate` after this many iterations.
        measured_iterations: in rounds: the number of the job's iterations; None if unknown.
        measured_seconds: in rounds: how long to measure; None until the job ends.
    """

    entries: tuple[Entry, ...]
    source: str = "plan"
    warmup: int = 10
    repetitions: int = 50
    mode: str = "one_at_a_time"
    unarmed_every: int = 4
    stop_when_done: bool = False
    stop_after: int | None = None
    measured_iterations: int | None = None
    measured_seconds: float | None = None

    @property
    def is_automatic(self) -> bool:
        """Whether the recording names the events itself."""
        return not self.entries

    def names(self, label: str, occurrence: int) -> bool:
        return any(entry.label.matches(label, occurrence) for entry in self.entries)


@dataclass(slots=True)
class _Reader:
    source: str
    lines: list[str]
    named: dict[str, list[int]] | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def where(self, line: int | None) -> str:
        return self.source if line is None else f"{self.source}, line {line}"

    def line_of(self, text: str, after: str | None = None) -> int | None:
        """The line that quotes `text` (bare for a TOML key), after the line that names `after`."""
        if self.named is None:
            self.named = {}
            for number, line in enumerate(self.lines, 1):
                for match in (*_QUOTED.finditer(line), *_KEY.finditer(line)):
                    self.named.setdefault(match[1] or match[2] or "", []).append(number)
        numbers = self.named.get(text, [])
        start = (self.line_of(after) or 1) if after is not None else 1
        first = bisect.bisect_left(numbers, start)
        return numbers[first] if first < len(numbers) else None

    def add(self, label: str, text: str, line: int | None) -> None:
        try:
            self.entries.setdefault(label, Entry(parse_label(label), text, line))
        except ValueError as error:
            raise PlanError(f"{self.where(line)}: {error}") from None

    def texts(self, value: object, key: str, after: str | None = None) -> list[str]:
        if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
            raise PlanError(
                f"{self.where(self.line_of(key, after))}: {key} is not a list of labels",
                hint=f'write {key} = ["forward", "backward"]',
            )
        return list(value)

    def layer(self, name: str, layer: Mapping[str, object]) -> None:
        for key in layer:
            if key not in dict(_DIRECTIONS):
                raise PlanError(
                    f'{self.where(self.line_of(key, name))}: layer "{name}" has "{key}"',
                    hint="a layer has forward_events and backward_events",
                )
        for key, direction in _DIRECTIONS:
            for event in self.texts(layer.get(key, []), key, name):
                line = self.line_of(event, name)
                self.add(label_in_layer(name, direction, event), event, line)

    def option(self, key: str, value: object) -> None:
        kind, expected, good = _OPTIONS[key]
        if type(value) is not kind or not good(value):
            raise PlanError(f"{self.where(self.line_of(key))}: {key} is {value!r}", hint=f"{key} is {expected}")
        self.options[key] = value

    def read(self, plan: Mapping[str, object]) -> Plan:
        for key, value in plan.items():
            if key == "events":
                for event in self.texts(value, key):
                    self.add(event, event, self.line_of(event))
            elif key == "layers" and isinstance(value, Mapping):
                for name, layer in value.items():
                    if not isinstance(layer, Mapping):
                        raise PlanError(
                            f'{self.where(self.line_of(name))}: layer "{name}" is not a table',
                            hint="a layer has forward_events and backward_events",
                        )
                    self.layer(str(name), layer)
            elif isinstance(value, Mapping):
                self.layer(str(key), value)
            elif key in _OPTIONS:
                self.option(key, value)
            else:
                raise PlanError(
                    f'{self.where(self.line_of(str(key)))}: a plan has no "{key}"',
                    hint=did_you_mean(str(key), ("events", "layers", *_OPTIONS)),
                )
        if not self.entries:
            raise PlanError(f"{self.source} names no events", hint='write events = ["forward", "backward"]')
        return Plan(tuple(self.entries.values()), source=self.source, **self.options)


_OPTIONS: dict[str, tuple[type, str, Any]] = {
    "warmup": (int, "a number of iterations, 0 or more", lambda value: value >= 0),
    "repetitions": (int, "a number of iterations, 1 or more", lambda value: value >= 1),
    "unarmed_every": (int, "a number of iterations, 0 for never", lambda value: value >= 0),
    "mode": (str, '"one_at_a_time", "in_rounds" or "one_shot"', lambda value: value in _MODES),
    "stop_when_done": (bool, "true or false", lambda _: True),
    "stop_after": (int, "a number of iterations, 1 or more", lambda value: value >= 1),
}


def plan_from(mapping: Mapping[str, object], *, source: str = "plan", text: str = "") -> Plan:
    """Makes a plan from a dict.

    Args:
        mapping: options, `events`, and layers with `forward_events` and `backward_events`.
        source: the plan's name in messages.
        text: the file's text, so that messages can name lines.

    Raises:
        PlanError: it is not a valid plan.

    >>> [entry.label.text for entry in plan_from({"fc1": {"forward_events": ["forward"]}}).entries]
    ['fc1.forward']
    """
    return _Reader(source, text.splitlines()).read(mapping)


def _text_of(path: Path) -> str:
    """Reads a file of text: OSError or ValueError for a pipe, a device, and what is too long for a plan."""
    if not path.is_file() and path.exists() and not path.is_dir():
        raise ValueError("it is no file")
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES >> 20} MiB")
    return data.decode("utf-8-sig")  # some editors put a byte order mark first


def read_plan(path: str | Path) -> Plan:
    """Reads a plan from a `.toml` or `.json` file.

    Raises:
        PlanError: it cannot be read or is not a plan; the message names the line.
    """
    path = Path(path)
    source = path.name
    try:
        text = _text_of(path)
    except (OSError, ValueError) as error:
        raise PlanError(
            f"cannot read the plan {path}: {getattr(error, 'strerror', None) or error}", hint="give a TOML or JSON file"
        ) from None
    read = _read_json if path.suffix.lower() == ".json" else _read_toml
    try:
        mapping = read(text, source)
    except RecursionError:
        raise PlanError(f"{source}: not a plan: nested too deep") from None
    except ValueError:
        raise PlanError(f"{source}: not a plan: a number has thousands of digits") from None
    if not isinstance(mapping, dict):
        raise PlanError(f"{source} is not a table", hint='write {"events": ["forward", "backward"]}')
    return plan_from(mapping, source=source, text=text)


def generate_schedule(plan: Mapping[str, object], directory: str | Path) -> Path:
    """Writes a plan into a folder as `prof.schedule`, as HugeCTR's function of that name does; returns the path.

    Args:
        plan: layers with `forward_events` and `backward_events`, and options, as in `plan_from`.

    Raises:
        PlanError: it is not a valid plan.
        OSError: the file cannot be written.
    """
    read = plan_from(plan)
    options = {key: getattr(read, key) for key in _OPTIONS if getattr(read, key) is not None}
    lines = [f"{key} = {json.dumps(value)}" for key, value in options.items()]
    labels = (entry.label for entry in read.entries)
    names = (label.text if label.occurrence is None else f"{label.text}#{label.occurrence}" for label in labels)
    lines += ["events = [", *(f"    {toml_string(name)}," for name in names)]
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    written = directory / "prof.schedule"
    with complete_output(written) as unfinished:
        unfinished.write_text("\n".join([*lines, "]", ""]), encoding="utf-8")
    return written


def _line_of_second(name: str, text: str) -> str:
    """`, line 7` for a name's second occurrence; empty if it has more, in other objects."""
    places = [place.start() for place in re.finditer(re.escape(json.dumps(name)), text)]
    return f", line {text.count(chr(10), 0, places[1]) + 1}" if len(places) == 2 else ""


def _read_json(text: str, source: str) -> Any:
    def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # Python's reader would keep the last of two.
        table = dict(pairs)
        if len(table) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise PlanError(
                f'{source}{_line_of_second(twice, text)}: "{twice}" is there twice',
                hint="put what belongs to it in one place",
            )
        return table

    try:
        return json.loads(text, object_pairs_hook=each_once)
    except json.JSONDecodeError as error:
        raise PlanError(f"{source}, line {error.lineno}: not JSON: {error.msg}") from None


def _read_toml(text: str, source: str) -> dict[str, Any]:
    # tomllib exists since Python 3.11; tomli is the same reader for 3.10.
    toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        mapping: dict[str, Any] = toml.loads(text)
    except toml.TOMLDecodeError as error:
        match = re.search(r"at line (\d+)", str(error))
        line = f", line {match[1]}" if match else ""
        what = str(error).partition(" (at ")[0]
        raise PlanError(f"{source}{line}: not TOML: {what}") from None
    return mapping


def as_plan(plan: Plan | Mapping[str, object] | str | Path) -> Plan:
    """Makes a plan from a plan, a dict, or a file's name; `"auto"` is one that the recording makes itself.

    Raises:
        PlanError: it is not a valid plan.

    >>> as_plan("auto").is_automatic
    True
    """
    if isinstance(plan, Plan):
        return plan
    if plan == AUTO:
        return Plan((), source="the plan made here", mode="in_rounds", warmup=_AUTO_WARMUP)
    if isinstance(plan, Mapping):
        return plan_from(plan)
    return read_plan(plan)
