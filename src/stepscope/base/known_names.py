"""Compares a name that somebody typed with the existing ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stepscope.base.errors import UsageError

ERRORS = {
    "unknown-answer": (
        "The SQL names `answer.NAME`, and there is no question of that name. `stepscope "
        "questions` lists them; `-` is written `_`, as in `answer.device_time`."
    ),
    "unknown-argument": "An agent's call has an argument that the tool does not take; the hint lists those it takes.",
    "unknown-choice": "An option has a value that is not one of its choices; the hint lists them.",
    "unknown-column": (
        "The question has no such column, or not in the requested form (`--by`). `stepscope questions` lists "
        "every column."
    ),
    "unknown-job": "`--job` names a job that is not in the recording; the hint lists those it has.",
    "unknown-parameter": "The question has no such parameter; the hint lists those it has.",
    "unknown-question": "There is no such question. `stepscope questions` lists them.",
    "unknown-rule": ("`findings --id` names a rule that does not exist; [findings](findings.md) lists them."),
    "unknown-table": "There is no such table. `stepscope schema` lists them.",
    "unknown-tool": "An agent called a tool that `stepscope mcp` does not have; the hint lists those it has.",
}

_MOST_LISTED = 60


def check_name(name: str, known: Collection[str], what: str, *, of: str = "") -> str:
    """Returns the name if it is known; `what` says what it names, `of` adds whose it is.

    Raises:
        UsageError: it is unknown. Suggests the nearest and lists the rest.
    """
    if name in known:
        return name
    raise UsageError(
        f"no {what} {name!r}{of and f' of {of}'}",
        hint=did_you_mean(name, known, most_listed=_MOST_LISTED),
        slug=f"unknown-{what}",
    )


def did_you_mean(name: str, known: Iterable[str], *, most_listed: int = 0) -> str:
    """A hint for an unknown name: the nearest known ones, and which there are.

    Args:
        known: the existing names.
        most_listed: so many of them are listed beside the nearest; if none is near, a few always are.

    >>> did_you_mean("stepz", ["kernels", "steps"])
    'did you mean steps?'
    >>> did_you_mean("all", ["kernels", "steps"])
    'there is: kernels, steps'
    """
    names = list(dict.fromkeys(known))
    near = nearest(name, names)
    words = [f"did you mean {' or '.join(near)}?"] if near else []
    shown = names[: max(most_listed, 0 if near else 5)]
    if shown:
        further = len(names) - len(shown)
        words.append(f"there is: {', '.join(shown)}{f' and {further} more' if further else ''}")
    return " ".join(words)


def nearest(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """The known names most similar to an unknown one, ignoring case: similar spellings first, then
    names that contain it, the shortest first.

    >>> nearest("Kernel", ["kernels", "steps", "short-kernels"])
    ['kernels', 'short-kernels']
    """
    by_folded: dict[str, str] = {}
    for one in known:
        by_folded.setdefault(one.casefold(), one)
    folded = name.casefold()
    import difflib  # imported here: it is rarely needed

    near = difflib.get_close_matches(folded, by_folded, n=most)
    if len(folded) > 1:
        near += sorted((one for one in by_folded if folded in one), key=len)
    return [by_folded[one] for one in dict.fromkeys(near)][:most]
