"""The questions about one or several recordings, one file each.

`ALL` names the files in the order in which answers are listed. A question's file is named like the
question, with `_` for `-`, and contains one `Question`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, get_args

from stepscope.base.plugins import load

if TYPE_CHECKING:
    from stepscope.query.declare import Question

ALL = (
    "summary", "findings", "steps", "phases", "throughput", "inline", "device_time", "idle", "critical_path",
    "what_if", "operators", "kernels", "modules", "call_tree", "annotations", "classes", "durations", "launches",
    "copies", "synchronizations", "gpu_summary", "gpu_trace", "api_summary", "prof", "memory", "rank_overview",
    "stragglers", "communication", "overlap", "hotspots", "host_metrics", "onednn", "roofline", "efficiency",
    "tensor_cores", "utilization", "metrics", "counters", "diff", "metrics_diff", "scaling", "drift", "checks",
    "sources",
)  # fmt: skip

ERRORS = {
    "several-recordings": (
        "The question compares recordings, and one was given. `stepscope diff` takes two, `stepscope "
        "scaling` any number; in Python they are functions, `stepscope.diff(before, after)`."
    )
}


OURS = tuple(file.replace("_", "-") for file in ALL)
"""The names of our questions, as on the command line."""


def names() -> tuple[str, ...]:
    """Every question's name, as on the command line: ours, then those of plug-ins."""
    return (*OURS, *_added())


def find(name: str) -> Question:
    """Finds the declaration of a question, by its name or its method's.

    Plug-ins are loaded only if the name is none of ours.

    Raises:
        UsageError: there is no such question.
    """
    from stepscope.base.known_names import check_name
    from stepscope.query.declare import Question

    name = name.replace("_", "-")
    if name not in OURS:
        return _added()[check_name(name, names(), "question")]
    module = import_module(f"stepscope.questions.{name.replace('-', '_')}")
    (question,) = (value for value in vars(module).values() if isinstance(value, Question) and value.name == name)
    return question


def all_questions() -> tuple[Question, ...]:
    """Every question's declaration, in order: ours, then those of plug-ins."""
    return tuple(find(name) for name in names())


def grouped() -> dict[str, list[Question]]:
    """Every question by its group, in order; those of plug-ins without one under `others`."""
    from stepscope.query.declare import Group

    groups: dict[str, list[Question]] = {name: [] for name in (*get_args(Group), "others")}
    for question in all_questions():
        groups[question.group or "others"].append(question)
    return {name: questions for name, questions in groups.items() if questions}


@cache
def _added() -> dict[str, Question]:
    from stepscope.query.declare import JOB, RESERVED, Question

    def names_of(question: Question) -> list[str]:
        if question.recordings != "one":
            raise ValueError("a plug-in's question is asked of one recording")
        if question.drawing not in ("table", "tree", "text"):
            raise ValueError(f"{question.drawing!r} draws the columns of a question of ours")
        if any(column.name == JOB.name for column in question.columns):
            raise ValueError(f"the column {JOB.name} is that of answers about several jobs")
        return [question.name]

    added = load("questions", Question, names_of, {*OURS, *RESERVED})
    return {question.name: replace(question, added_by=plug_in) for plug_in, question in added}


def of_one_recording(question: Question) -> Question:
    """Returns a question about a single recording.

    Raises:
        UsageError: the question compares recordings.
    """
    from stepscope.base.errors import UsageError

    if question.recordings != "one":
        raise UsageError(
            f"{question.name} is asked of {question.recordings} recordings, and this is one",
            hint=f"compare with: stepscope {question.name}, or stepscope.{question.method}",
            slug="several-recordings",
        )
    return question


def affected(affects: str) -> str:
    """Names the questions whose answers the damage affects, as readable text.

    Args:
        affects: kinds of evidence, as in `data_check.affects`.

    Returns:
        Names separated by commas; `all` for all of them.
    """
    from stepscope.formats.evidence import bears_on

    if not affects:
        return ""
    questions = [question for question in all_questions() if question.recordings == "one"]
    names = [question.name for question in questions if bears_on(affects, question.rests_on)]
    return "all" if len(names) == len(questions) else ",".join(names)
