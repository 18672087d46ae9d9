"""The questions that can be asked of a recording, or of several, one file each.

`ALL` names the files in the order in which answers are listed. A question's file is named like the
question, with `_` for `-`, and holds one `Question`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.answers.declare import Question

ALL = (
    "summary",
    "steps",
    "device_time",
    "operators",
    "kernels",
    "modules",
    "copies",
    "launches",
    "idle",
    "utilization",
    "classes",
    "roofline",
    "efficiency",
    "tensor_cores",
    "priorities",
    "prof",
    "annotations",
    "inline",
    "phases",
    "findings",
    "diff",
    "scaling",
    "checks",
    "sources",
)

ERRORS = {
    "several-recordings": (
        "The question compares recordings, and one was given. `stepscope diff` takes two, `stepscope "
        "scaling` any number; in Python they are functions, `stepscope.diff(before, after)`."
    ),
}


def names() -> tuple[str, ...]:
    """Every question's name, as on the command line."""
    return tuple(file.replace("_", "-") for file in ALL)


def find(name: str) -> Question:
    """The declaration of a question, by its name or by its method's.

    Raises:
        UsageError: there is no such question.
    """
    from stepscope.answers.declare import Question
    from stepscope.answers.selection import check_name

    known = check_name(name.replace("_", "-"), names(), "question")
    module = import_module(f"stepscope.questions.{known.replace('-', '_')}")
    declared = [value for value in vars(module).values() if isinstance(value, Question)]
    (found,) = (question for question in declared if question.name == known)
    return found


def every() -> tuple[Question, ...]:
    """Every question's declaration, in order."""
    return tuple(find(file) for file in ALL)


def of_one_recording(question: Question) -> Question:
    """The question, when it is asked of a single recording.

    Raises:
        UsageError: it compares recordings.
    """
    from stepscope.floor.errors import UsageError

    if question.recordings != "one":
        raise UsageError(
            f"{question.name} is asked of {question.recordings} recordings, and this is one",
            hint=f"compare with: stepscope {question.name}, or stepscope.{question.method}",
            slug="several-recordings",
        )
    return question


def affected(affects: str) -> str:
    """The questions on whose answers damage bears, as people read it.

    Args:
        affects: kinds of evidence, as in `data_check.affects`.

    Returns:
        Names separated by commas; `all` for all of them.
    """
    from stepscope.formats.evidence import bears_on

    if not affects:
        return ""
    asked = [question for question in every() if question.recordings == "one"]
    found = [question.name for question in asked if bears_on(affects, question.rests_on)]
    return "all" if len(found) == len(asked) else ",".join(found)
