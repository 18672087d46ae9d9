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

_MAX_LISTED = 60


def check_name(name: str, names: Collection[str], what: str, *, of: str = "") -> str:
    """Returns the name if it is known; `what` says what it names, `of` adds whose it is.

    Raises:
        UsageError: it is unknown. Suggests the nearest and lists the rest.
    """
    if name in names:
        return name
    raise UsageError(
        f"no {what} {name!r}{of and f' of {of}'}",
        hint=did_you_mean(name, names, max_listed=_MAX_LISTED),
        slug=f"unknown-{what}",
    )


def did_you_mean(name: str, existing: Iterable[str], *, max_listed: int = 0) -> str:
    """A hint for an unknown name: the nearest known ones, and which there are.

    >>> did_you_mean("stepz", ["kernels", "steps"])
    'did you mean steps?'
    >>> did_you_mean("all", ["kernels", "steps"])
    'there is: kernels, steps'
    """
    names = list(dict.fromkeys(existing))
    near = nearest(name, names)
    words = [f"did you mean {' or '.join(near)}?"] if near else []
    listed = names[: max(max_listed, 0 if near else 5)]
    if listed:
        further = len(names) - len(listed)
        words.append(f"there is: {', '.join(listed)}{f' and {further} more' if further else ''}")
    return " ".join(words)


def nearest(name: str, existing: Iterable[str], *, limit: int = 3) -> list[str]:
    """The known names most similar to an unknown one, ignoring case: similar spellings first, then
    names that contain it, the shortest first.

    >>> nearest("Kernel", ["kernels", "steps", "gpu-kernels"])
    ['kernels', 'gpu-kernels']
    """
    by_folded: dict[str, str] = {}
    for candidate in existing:
        by_folded.setdefault(candidate.casefold(), candidate)
    folded = name.casefold()
    import difflib  # imported here: it is rarely needed

    near = difflib.get_close_matches(folded, by_folded, n=limit)
    if len(folded) > 1:
        near += sorted((candidate for candidate in by_folded if folded in candidate), key=len)
    return [by_folded[candidate] for candidate in dict.fromkeys(near)][:limit]
