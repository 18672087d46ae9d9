"""Asks a question about one or several recordings: checks the parameters and returns a `Table`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepscope.base.chosen_numbers import wrong_argument
from stepscope.base.errors import StepScopeError, UsageError
from stepscope.base.known_names import check_name
from stepscope.base.plugins import named
from stepscope.formats.evidence import SUBJECTS, bears_on
from stepscope.query.cached_answers import get_or_compute
from stepscope.query.declare import MAX_NUMBER, RANK, Parameter, Question
from stepscope.query.event_filter import EVERYTHING, EventFilter
from stepscope.query.rank_exclusion import all_damaged, damaged_ranks, ranks_without_their_device, without_ranks
from stepscope.query.rows import as_declared, note_of, rests_on_of
from stepscope.query.scope import ComparedRun, Scope
from stepscope.query.script import with_script
from stepscope.query.table import Table, sort_key
from stepscope.schema.device_work import WORK
from stepscope.store.manifest import damaged_store
from stepscope.store.open import Store

if TYPE_CHECKING:
    import pyarrow as pa


SOURCES = "SELECT path FROM source ORDER BY rank, span, path"

_OF_THE_OTHERS = "The figures are of the other ranks alone."
_OF_DAMAGED = "The figures are of damaged ranks alone."
_FAILED_CHECKS = """
SELECT * FROM data_check WHERE severity <> 'ok' ORDER BY rank, span, "check"
"""

ERRORS = {
    "bad-parameter": "A parameter of a question has a value of the wrong type, or a number that it cannot be.",
    "bad-top": "`--top` takes a number of rows, 1 or more. Leave it out to get all rows.",
    "column-twice": "`--columns` names a column twice.",
}


@contextmanager
def reading(*stores: Store) -> Iterator[None]:
    """Turns the errors of missing or truncated store files into a `StoreError`; other errors are defects of a question.

    Raises:
        StoreError: a file of the store cannot be read.
    """
    try:
        yield
    except (StepScopeError, OSError, MemoryError):
        raise
    except Exception as error:
        duckdb = sys.modules.get("duckdb")  # where it was not imported, its errors cannot occur
        if duckdb is not None and isinstance(error, duckdb.OutOfMemoryException):
            raise
        for store in stores:
            store.verify_rows()
        directories = [store.directory for store in stores if store.directory is not None]
        if not directories or duckdb is None or not isinstance(error, duckdb.Error):
            raise
        reason = str(error).splitlines()[0]
        if not isinstance(error, duckdb.IOException) and ".parquet" not in reason:
            raise
        named = [directory for directory in directories if str(directory) in reason]
        raise damaged_store((named or directories)[0], reason) from None


def ask(
    question: Question,
    store: Store,
    *,
    ranks: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
    part: EventFilter = EVERYTHING,
    top: int | None = None,
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    **parameters: Any,
) -> Table:
    """Answers a question about some ranks, steps and events, with these columns and the first rows.

    Args:
        sort: order the rows by this column (see `Table.sort`), which need not be among `columns`; `top`
            then takes the first of the ordered rows.
        **parameters: what the question declares; those left out or None take their default.

    Raises:
        StoreError: a file of the store cannot be read.
        UsageError: a rank, step, column, parameter or choice does not exist, or the question does not take
            this part.
        StepScopeError: the question comes from a plug-in, which failed.
    """
    arguments = check_asked(question, top=top, columns=columns, sort=sort, **parameters)
    part.check_allowed(question, arguments.get("by"))
    chosen_ranks, chosen_steps = (None if numbers is None else tuple(numbers) for numbers in (ranks, steps))

    def make() -> Table:
        with Scope(store, chosen_ranks, chosen_steps, part) as scope:
            return _table(question, scope, arguments)

    with named(question.added_by), reading(store):
        table = get_or_compute(question, store, chosen_ranks, chosen_steps, part, arguments, make)
    return _part(table, top, columns, sort)


def ask_within(question: Question, scope: Scope, **parameters: Any) -> Table:
    """Answers a question about an open scope; several questions then share intermediate results.

    Raises:
        StoreError: a file of the store cannot be read.
        UsageError: a parameter or choice does not exist, or the question does not take this part.
        StepScopeError: the question comes from a plug-in, which failed.
    """
    arguments = check_asked(question, **parameters)
    scope.part.check_allowed(question, arguments.get("by"))

    def make() -> Table:
        return _table(question, scope, arguments)

    with named(question.added_by), reading(scope.store):
        if not scope.is_complete:
            return make()
        return get_or_compute(question, scope.store, None, None, EVERYTHING, arguments, make)


def _table(question: Question, scope: Scope, arguments: Mapping[str, Any]) -> Table:
    rows_of_question, damaged, whose = _answered(question, scope, arguments)
    rows = as_declared(question, rows_of_question)
    note, entire = note_of(rows_of_question), not (scope.part or scope.steps is not None)
    if not rows.num_rows and not (note and entire and scope.ranks == scope.store.ranks):
        note = _note(question, scope)
    note = f"{scope.part.words()} {note}".strip()
    checks = failed_checks(scope, _rests_on(rows_of_question, question), damaged, whose)
    return Table(question, rows, _sources(scope), checks, note, arguments, ranks=len(scope.ranks))


def ask_several(
    question: Question,
    recordings: Sequence[ComparedRun],
    *,
    top: int | None = None,
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    **parameters: Any,
) -> Table:
    """Answers a question that takes several recordings; arguments as for `ask`.

    Raises:
        SourceError: the recordings lack what is to be compared.
        StoreError: a file of a store cannot be read.
        UsageError: a column, parameter or choice does not exist.
    """
    arguments = check_asked(question, top=top, columns=columns, sort=sort, **parameters)
    part = recordings[0].scope.part
    part.check_allowed(question, arguments.get("by"))
    with reading(*(recording.scope.store for recording in recordings)):
        rows_of_question = question.answer(recordings, **arguments)
        rests_on = _rests_on(rows_of_question, question)
        sources = [path for recording in recordings for path in _sources(recording.scope)]
        checks = [
            {**check, "explanation": f"{recording.role}: {check['explanation']}"}
            for recording in recordings
            for check in failed_checks(recording.scope, rests_on)
        ]
    rows = as_declared(question, rows_of_question)
    note = f"{part.words()} {note_of(rows_of_question)}".strip()
    table = Table(question, rows, tuple(sources), tuple(checks), note, arguments)
    return _part(table, top, columns, sort)


def check_asked(
    question: Question,
    *,
    top: int | None = None,
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    **parameters: Any,
) -> dict[str, Any]:
    """Returns all parameters of a question, with defaults for those left out or None.

    Raises:
        UsageError: a column, parameter or choice does not exist, or fewer than one row was asked for.
    """
    check_top(top)
    arguments = _complete(question, parameters)
    if columns is not None:
        _check_columns(columns, question)
    if sort is not None:
        _check_columns([sort_key(sort)[0]], question)
    return arguments


def _part(table: Table, top: int | None, columns: Sequence[str] | None, sort: str | None) -> Table:
    """Takes the requested rows and columns of an answer, in the requested order."""
    if sort is not None:
        table = table.sort(sort)
    rows = table.arrow if top is None else table.arrow.slice(0, min(top, len(table.arrow)))
    if columns is not None:
        for name in columns:
            if name not in rows.column_names:
                raise UsageError(
                    f"this form of {table.question.name} has no column {name!r}",
                    hint=f"it has: {', '.join(rows.column_names)}",
                    slug="unknown-column",
                )
        rows = rows.select(list(columns))
    return replace(table, arrow=rows)


def _sources(scope: Scope) -> tuple[str, ...]:
    return scope.cached(SOURCES, lambda: tuple(scope.sql(SOURCES).column("path").to_pylist()))


def _rests_on(rows: pa.Table, question: Question) -> tuple[str, ...]:
    stated = rests_on_of(rows)
    return question.rests_on if stated is None else stated


def failed_checks(
    scope: Scope, rests_on: Iterable[str], damaged: Iterable[int] = (), whose: str = ""
) -> tuple[dict[str, Any], ...]:
    """Returns the checks that found something and concern this evidence. Those of damaged ranks get a sentence that
    says which ranks the figures cover."""
    evidence = tuple(rests_on)
    checks = scope.cached(_FAILED_CHECKS, lambda: scope.sql(_FAILED_CHECKS).to_pylist())
    failed = tuple(check for check in checks if bears_on(check["affects"], evidence))
    if not whose:
        return failed
    return tuple(
        {**check, "explanation": f"{check['explanation']} {whose}"}
        if check["rank"] in damaged and SUBJECTS.get(check["check"]) != "job"
        else check
        for check in failed
    )


def _answered(question: Question, scope: Scope, arguments: Mapping[str, Any]) -> tuple[pa.Table, tuple[int, ...], str]:
    """Runs the question; returns its rows, the ranks with damaged recordings, and a sentence on which ranks it covers.

    Where ranks are combined or compared, damaged ones are left out if another rank has what was asked for. A row
    that names its rank shows it as recorded.
    """
    if question.steps == "trace":
        scope.check_traced()
    if not question.across_ranks:
        rows = question.answer(scope, **arguments)
        rests_on = _rests_on(rows, question)
        if all_damaged(scope, rests_on):
            return rows, scope.ranks, _OF_DAMAGED
        damaged = damaged_ranks(scope, rests_on)
        if not damaged or RANK.name in rows.column_names:
            return rows, (), ""
    elif all_damaged(scope, question.rests_on):
        return question.answer(scope, **arguments), scope.ranks, _OF_DAMAGED
    else:
        damaged = damaged_ranks(scope, question.rests_on)
    with without_ranks(scope, damaged) as undamaged:
        whose = "" if not damaged else _OF_DAMAGED if undamaged is scope else _OF_THE_OTHERS
        return question.answer(undamaged, **arguments), damaged, whose


def _check_columns(columns: Sequence[str], question: Question) -> None:
    declared = [c.name for c in question.columns]
    several = isinstance(columns, Iterable) and not isinstance(columns, str)
    if not several or not all(isinstance(name, str) for name in columns):
        raise wrong_argument(
            f"columns={columns!r} is not a list of names", f"give some, as in columns=[{declared[0]!r}]"
        )
    if not columns:
        raise UsageError("no columns", hint=f"there is: {', '.join(declared)}", slug="unknown-column")
    for position, name in enumerate(columns):
        check_name(name, declared, "column", of=question.name)
        if name in columns[:position]:
            raise UsageError(f"column {name!r} is named twice", hint="name it once", slug="column-twice")


def _complete(question: Question, given: dict[str, Any]) -> dict[str, Any]:
    by_name = {parameter.name: parameter for parameter in question.parameters}
    for name in given:
        check_name(name, tuple(by_name), "parameter", of=question.name)
    return {
        name: parameter.default if given.get(name) is None else _checked(parameter, given[name])
        for name, parameter in by_name.items()
    }


def _checked(parameter: Parameter, value: Any) -> Any:
    kinds: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "text": str, "bool": bool}
    is_flag = isinstance(value, bool) and parameter.type != "bool"  # in Python, True is an int
    if is_flag or not isinstance(value, kinds[parameter.type]):
        raise UsageError(
            f"{parameter.name}={value!r} is not of type {parameter.type}",
            hint=f"{parameter.name}: {parameter.meaning}",
            slug="bad-parameter",
        )
    low, high = parameter.within
    number: Any = value
    if parameter.type in ("int", "float") and not low <= number <= high:  # refuses NaN, too
        allowed = f"{low} or more" if high == MAX_NUMBER else f"{low} to {high}"
        raise UsageError(
            f"{parameter.name}={value} is not {allowed}",
            hint=f"{parameter.name}: {parameter.meaning}",
            slug="bad-parameter",
        )
    if parameter.choices:
        check_name(str(value), parameter.choices, "choice", of=f"--{parameter.name}")
    return value


def check_top(top: int | None) -> None:
    """Refuses to show no rows at all.

    Raises:
        UsageError: fewer than one row was asked for.
    """
    if top is not None and (isinstance(top, bool) or not hasattr(top, "__index__")):
        raise wrong_argument(f"top={top!r} is not a number of rows", "give one, as in top=10")
    if top is not None and top < 1:
        raise UsageError(
            f"cannot show the top {top}",
            hint="give a number of rows of 1 or more, or leave it out to get all",
            slug="bad-top",
        )


def _note(question: Question, scope: Scope) -> str:
    """Explains why there is nothing to show."""
    if scope.part:
        from stepscope.query.narrow import why_nothing

        return why_nothing(scope)
    if scope.steps is not None or scope.ranks != scope.store.ranks:
        reason = "No matching rows in the chosen ranks and steps."
    elif question.needs == "device" and not scope.value(f"SELECT count(*) FROM device_event WHERE {WORK}"):
        reason = "The recording has no device events."
    else:
        reason = "No matching rows in this recording."
    if "device-work" in question.rests_on and ranks_without_their_device(scope):
        return f"{reason} Its device work was lost, or lies beyond where its file is cut off: `stepscope checks`."
    return f"{reason} {with_script(scope, question.fills)}".strip()
