"""Combines the answers about several jobs into one table with a column `job`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepscope.base.errors import UsageError
from stepscope.query.declare import JOB
from stepscope.query.table import Table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

ERRORS = {
    "several-jobs": (
        "The files hold recordings of several jobs, and this takes one. SQL, charts and `check` pick it "
        "with `--job NAME`, as `stepscope.open` does with `job=`. `diff` and `scaling` take it once for all "
        "recordings, or once for each in order. For a plan name the files of one job, or keep a store of "
        "each with `stepscope import`. Jobs are told apart by device, world size, versions, host and time."
    )
}


PICK_EACH = "pick one with --job NAME, once for all recordings or once for each in order (in Python job=)"
NAME_FILES = "name the files of one job, or keep a store of each: stepscope import SRC -o DIR, then DIR/NAME"


def several_jobs(
    names: Collection[str],
    hint: str = "pick one with --job NAME (in Python job=), or name the files of one job",
    *,
    whose: str = "the files",
) -> UsageError:
    """The error for several jobs where only one is possible."""
    return UsageError(
        f"{whose} are of {len(names)} jobs, and this takes one: {', '.join(names)}", hint=hint, slug="several-jobs"
    )


def without_job(columns: Sequence[str] | None) -> Sequence[str] | None:
    """The requested columns that the answer about one job has."""
    return None if columns is None else [name for name in columns if name != JOB.name]


def joined(answers: Mapping[str, Table], note: str) -> Table:
    """Joins the answers to one question about several jobs, by the job's name; each also stays in `Table.jobs`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [
        answer.arrow.add_column(0, JOB.name, pa.array([name] * len(answer), pa.string()))
        for name, answer in answers.items()
    ]
    columns = {*parts[0].column_names}
    if {"path", _LEFT_OUT} <= columns:
        parts = _of_no_job_once(parts, pc.field(_LEFT_OUT).is_valid(), "path", _LEFT_OUT)
    if {"explanation", "check"} <= columns:
        parts = _of_no_job_once(parts, pc.field("check") == _LEFT_OUT, "explanation", "check")
    first = next(iter(answers.values()))
    question = replace(first.question, columns=(JOB, *first.question.columns))
    rows = pa.concat_tables(parts, promote_options="default").combine_chunks()
    return replace(
        first,
        question=question,
        arrow=rows,
        sources=tuple(path for answer in answers.values() for path in answer.sources),
        checks=tuple(_checks(answers)),
        note="\n".join(filter(None, (_notes(answers), note))),
        jobs=dict(answers),
        ranks=max(answer.ranks for answer in answers.values()),
    )


def _checks(answers: Mapping[str, Table]) -> Iterator[dict[str, Any]]:
    """The checks of all answers, each with its job's name; of files that belong to no job once, without a name."""
    texts = set()
    for name, answer in answers.items():
        for check in answer.checks:
            words = check["explanation"]
            if check["check"] != _LEFT_OUT:
                yield {**check, "explanation": f"{name}: {words}"}
            elif words not in texts:
                texts.add(words)
                yield check


_LEFT_OUT = "left_out"
"""Column that says why a file is in no answer: such a file belongs to no job, and each job's store lists it."""


def _of_no_job_once(parts: Sequence[pa.Table], chosen: pc.Expression, key: str, value_column: str) -> list[pa.Table]:
    """The parts without the chosen rows that all of them have, then these rows once, without a job."""
    import pyarrow as pa
    import pyarrow.compute as pc

    named = [
        set(zip(*(rows[n].to_pylist() for n in (key, value_column)), strict=True))
        for rows in (part.filter(chosen) for part in parts)
    ]
    common = pa.array(sorted(rows for rows, _ in set.intersection(*named)), pa.string())
    everyone = chosen & pc.field(key).isin(common)
    once = parts[0].filter(everyone)
    nobody = pa.nulls(len(once), pa.string())
    return [*(part.filter(~everyone) for part in parts), once.set_column(0, JOB.name, nobody)]


def _notes(answers: Mapping[str, Table]) -> str:
    """The notes of all answers; a note that all share is not repeated."""
    notes = {answer.note for answer in answers.values()}
    if len(notes) == 1:
        return notes.pop()
    return "\n".join(f"{name}: {answer.note}" for name, answer in answers.items() if answer.note)
