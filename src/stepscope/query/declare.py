"""Declares a question, once.

A question is a function that takes a `Scope` (the tables of an open store, narrowed to the requested
ranks and steps) and returns an Arrow table, with a declaration beside it; one that compares recordings
takes a `ComparedRun` for each. The command line, the Python method, the JSON, the report's section and
the documentation page are made from the declaration.

To add a question, add a file with one `@question(...)` function to `stepscope.questions` and name the
file in `stepscope.questions.ALL`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from stepscope.base.plugins import PlugIn
from stepscope.formats.evidence import MEANINGS, Evidence

if TYPE_CHECKING:
    import pyarrow as pa

Type = Literal["int", "float", "text", "bool"]
Unit = Literal["", "ns", "bytes", "bytes/s", "flop", "flop/s", "ratio", "count"]
Drawing = Literal[
    "table",
    "tree",
    "text",
    "roofline",
    "map",
    "overview",
    "paragraphs",
    "comparison",
    "measured",
    "runs",
    "rows",
    "plan",
]
"""How a terminal shows an answer, and which pictures it offers: `Declaration` explains each."""
Recordings = Literal["one", "two", "several"]
"""How many recordings a question takes; `several` is any number from one on."""
Need = Literal["host", "device"]
Steps = Literal["trace", "all"]
Filter = Literal["name", "under", "window"]
"""Filters of events, as on the command line and in Python."""
Group = Literal["steps", "operators and kernels", "memory", "ranks", "host", "limits", "compare", "data"]
"""The headings under which lists show the questions, in order."""
About = Literal["events", "time", "recording"]
"""What an answer is about, and so which filters keep it true. An answer about `events` counts and adds up some
of them and takes every filter; one about `time` says what happened in it, which depends on all events,
and takes a window; one about the `recording` (its files, its steps as a population, what a job measured
of itself) takes none."""

SHARED = frozenset(
    {
        "source", "sources", "job", "rank", "ranks", "step", "steps", "name", "under", "window", "top",
        "columns", "sort", "width", "parquet", "strict", "json", "as_json", "csv", "as_csv", "spaces",
        "as_spaces", "markdown", "as_markdown", "capture", "no_cache", "plot", "plot_file",
    }
)  # fmt: skip
"""What every question takes, here, in Python or on the command line: no parameter may have these names."""

RESERVED: set[str] = set()
"""Names that no question may have, because they mean something else where it would be asked: subcommands, and the
attributes of an open recording. The packages that have these add them."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def unit_of(name: str) -> Unit:
    """The unit that a column's name ends in; empty if it ends in none."""
    endings: dict[str, Unit] = {
        "_ns": "ns", "_bytes": "bytes", "_ratio": "ratio", "_bytes_per_s": "bytes/s", "_flop_per_s": "flop/s",
    }  # fmt: skip
    return next((unit for ending, unit in endings.items() if f"_{name}".endswith(ending)), "")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer.

    Args:
        name: its name, which contains the unit (`_ns`, `_bytes`, `_ratio`) if it has one.
        type: int, float, text or bool.
        meaning: one line for people: what the value is.
        unit: ns, bytes, bytes/s, flop, flop/s, ratio (1 is 100 %), count, or empty; by default the one that its
            name ends in.
        visible: whether the terminal shows it if no columns were requested; `varying`: only if its values
            differ between rows.
        sums: whether it is the total that other columns explain: it is shown first if not all columns fit.
        advises: whether its texts are ours and may contain commands to type next.
        moment: whether its times are points in time, which need more digits than durations.
        kernels: whether its texts are kernel names, which a terminal shortens.
    """

    name: str
    type: Type
    meaning: str
    unit: Unit = None  # type: ignore[assignment]  # that of its name
    visible: bool | Literal["varying"] = True
    sums: bool = False
    advises: bool = False
    moment: bool = False
    kernels: bool = False

    def __post_init__(self) -> None:
        """Takes the unit from the name."""
        if self.unit is None:
            object.__setattr__(self, "unit", unit_of(self.name))


JOB = Column("job", "text", "job that the row is about: its files' folder or name")
"""The first column of an answer about files of several jobs."""

RANK = Column("rank", "int", "rank of the process")
SPAN = Column("span", "int", "which of the rank's recordings, from 0", visible="varying")
DEVICE = Column("device", "int", "index of the device in its process")
STEP = Column("step", "int", "number of the step, as the program counts")

MAX_NUMBER = (1 << 63) - 1
"""The largest number in SQL and arrays."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a question, besides `--rank`, `--step`, `--top` and `--columns`.

    Args:
        name: as in Python; the command-line option has `-` for `_`.
        type: int, float, text or bool.
        meaning: one line for people.
        default: its value if none is given.
        choices: its possible values, if they are a few words.
        within: its smallest and largest number.
        form: whether its choices are different answers, so that a report contains each; for a convention, a limit or a
            filter, a report contains only the default.
        picks: if the value picks some of the rows unchanged, so that a report can pick them from the rows that it
            contains: the column with the value, or, for a moment, the two columns with the start and end of a row
            (empty: unbounded).
    """

    name: str
    type: Type
    meaning: str
    default: Any = None
    choices: tuple[str, ...] = ()
    within: tuple[float, float] = (0, MAX_NUMBER)
    form: bool = False
    picks: tuple[str] | tuple[str, str] | None = None


def by_form(meaning: str, *forms: str) -> Parameter:
    """The parameter `--by`, which says what a row of the answer is about; the first form is the default."""
    return Parameter("by", "text", meaning, forms[0], forms, form=True)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The declaration of a question, which decorates the function that answers it.

    Args:
        name: as on the command line (`device-time`).
        asks: the question in one line, as a person would ask it.
        columns: every column that any of its forms can return, in order. A form may leave some out.
        rests_on: the evidence without which the answer is unreliable, besides the file, on which all answers
            rest; `formats/evidence.py` has the kinds. A check that finds one damaged marks the answer.
        group: the heading under which lists show it; empty: after all others.
        parameters: its parameters.
        about: whether its answer is about some events, about time, or about the recording, which decides
            which filters it takes (`About`); by the value of its parameter `by` if that decides.
        needs: `device` if it has no answer for a recording without device events.
        steps: `all` if it can be asked about steps that have phases but no trace.
        drawing: how a terminal shows its answer. `table` is a grid, in which `tree` indents the
            first text by `depth` and `text` keeps sentences complete; `roofline` is a grid and can
            be drawn into a file; `map` is like `text`, or with a measure a map of ranks and steps. `overview`,
            `paragraphs`, `comparison`, `measured` and `runs` are layouts for the columns of summary, findings, diff,
            inline and scaling. `rows` and `plan` show the results of SQL that people typed.
        recordings: how many recordings it takes.
        gates: whether its rows are those of a comparison (`compare.rows`) that has a parameter `by`, so
            that a CI job can fail on a change (`--fail-if`).
        across_ranks: whether a row that names a rank depends on the other ranks, too. Ranks with damaged recordings
            (`query.rank_exclusion`) are then left out of all its forms; otherwise only of those whose rows name no rank.
        fills: which recording option would fill an empty answer.
        on_overview: whether the first view of a page asks it, so that a server prepares its answer.

    Raises:
        TypeError, ValueError: the question could not be asked or shown.
    """

    name: str
    asks: str
    columns: tuple[Column, ...]
    _: KW_ONLY
    rests_on: tuple[Evidence, ...]
    group: Group | Literal[""] = ""
    parameters: tuple[Parameter, ...] = ()
    about: About | Mapping[str | None, About] = "recording"
    needs: Need = "host"
    steps: Steps = "trace"
    drawing: Drawing = "table"
    recordings: Recordings = "one"
    gates: bool = False
    across_ranks: bool = False
    fills: str = ""
    on_overview: bool = False

    def __post_init__(self) -> None:
        """Refuses a declaration that could not be asked or shown, of a plug-in too."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not a name for a question: write it like device-time")
        for kind, declared in ((Column, self.columns), (Parameter, self.parameters)):
            for item in declared:
                if not isinstance(item, kind) or item.type not in get_args(Type):
                    raise TypeError(f"{self.name}: {item!r} is no {kind.__name__} of a known type")
        if taken := SHARED.intersection(parameter.name for parameter in self.parameters):
            raise ValueError(f"{self.name}: every question has {', '.join(sorted(taken))} already")
        if self.group not in ("", *get_args(Group)):
            raise ValueError(f"{self.name}: the groups of questions are {', '.join(get_args(Group))}")
        if unknown := set(self.rests_on) - set(MEANINGS):
            raise ValueError(f"{self.name} rests on {', '.join(sorted(unknown))}, which is not a kind of evidence")
        for text in (self.asks, self.fills):
            if not isinstance(text, str):
                raise TypeError(f"{self.name}: {text!r} is not text")

    def __call__(self, answer: Callable[..., pa.Table]) -> Question:
        """Returns the question that the decorated function answers."""
        declared = {field.name: getattr(self, field.name) for field in fields(self)}
        return Question(**declared, answer=answer, explanation=answer.__doc__ or "")

    @property
    def method(self) -> str:
        """The name of its Python method: `trace.device_time()` for `device-time`."""
        return self.name.replace("-", "_")

    def column(self, name: str) -> Column:
        """Returns the declaration of a column.

        Raises:
            KeyError: the question has no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


question = Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Declaration):
    """A declared question.

    Args:
        answer: takes a scope or several `ComparedRun`s, and the parameters by keyword.
        explanation: its docstring, for the question's page: definitions, sources of formulas, and differences
            from other tools.
        added_by: the plug-in that added it, if it is not one of ours.
    """

    answer: Callable[..., pa.Table]
    explanation: str = ""
    added_by: PlugIn | None = None
