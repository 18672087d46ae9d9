"""Choices of ranks in a notation that no shell changes: the grammar of every `--ranks`.

    choice := term { "+" term }                  "+" means and
    term   := "all" | [ "local:" | "node:" ] list | "every:" NUMBER
    list   := range { "," range }                "," means or
    range  := NUMBER [ "-" NUMBER ]              both ends included

A list without a prefix names ranks; `local:0,1` names ranks on their node, `node:0-1` nodes, and
`every:16` every 16th rank from 0 on. A prefix holds up to the next `+`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscope.base.errors import StepScopeError, UsageError

if TYPE_CHECKING:
    from stepscope.base.ranks import Process

ERRORS = {
    "bad-ranks": (
        "Ranks of a job are chosen as numbers and ranges (`0,8`, `0-7`), as ranks on their node (`local:0,1`), "
        "by node (`node:0-1`), as every 16th rank (`every:16`), or as `all`; `+` means and, so that "
        "`local:0+0-7` is the first rank of each node among the ranks 0 to 7. "
        "[Which ranks](recording.md#which-ranks) has more."
    ),
    "rank-unknown": (
        "It is unknown whether a process is among the chosen ranks: its launcher does not state the local "
        "rank or the node, or two launchers state different ranks. Choose by what is known, such as `0,8`, or "
        "have the job set up torch.distributed, whose rank comes before those of launchers."
    ),
}

EXAMPLES = '"0,8", "0-7", "local:0,1", "node:0-1", "every:16" or "all"; "+" means and: "local:0+0-7"'

_NUMBER = re.compile(r"[0-9]+")
_WORD = re.compile(r"[A-Za-z_]+")
_BLANKS = re.compile(r"\s*")
_MAX_DIGITS = 18
_PREFIXES = ("local", "node", "every")
_NAMES = {"": "rank", "every": "rank", "local": "local rank", "node": "node"}


@dataclass(frozen=True, slots=True)
class Term:
    """A condition on one number of a process; `prefix` says on which.

    Args:
        prefix: "" and "every" for the rank, "local" for the rank on its node, "node" for the node.
        ranges: first and last number of each range; for "every" one, whose first number is the step.
    """

    prefix: str
    ranges: tuple[tuple[int, int], ...]

    def number(self, process: Process) -> int | None:
        """The number of a process that the term is about; None if unknown."""
        if self.prefix == "local":
            return process.local_rank
        return process.node if self.prefix == "node" else process.rank

    def holds(self, number: int) -> bool:
        """Whether the term names this number."""
        if self.prefix == "every":
            return number % self.ranges[0][0] == 0
        return any(first <= number <= last for first, last in self.ranges)


def chosen(ranks: str | None, process: Process) -> bool:
    """Whether `process` is among `ranks`; None chooses all.

    Raises:
        UsageError: the text cannot be read.
        StepScopeError: it depends on something unknown about the process.
    """
    terms = parse_ranks(ranks) if ranks is not None else ()
    if not terms:
        return True
    if process.disagreement:
        raise _unknown(f"the rank of this process is unclear: {process.disagreement}")
    numbers = [(term, term.number(process)) for term in terms]
    if any(number is not None and not term.holds(number) for term, number in numbers):
        return False
    for term, number in numbers:
        if number is None:
            raise _unknown(
                f'it is unknown whether rank {process.rank} is among "{ranks}": its {_NAMES[term.prefix]} '
                f"is not known from {process.rule}"
            )
    return True


def names_nobody(ranks: str | None, world_size: int) -> bool:
    """Whether a choice names only ranks that a job of this size does not have.

    >>> names_nobody("8", 8), names_nobody("7,8", 8), names_nobody("local:8", 8)
    (True, False, False)
    """
    return any(
        not term.prefix and all(first >= world_size for first, _ in term.ranges)
        for term in (parse_ranks(ranks) if ranks is not None else ())
    )


def may_be_chosen(ranks: str | None, process: Process) -> bool:
    """Whether `process` is or may be among `ranks`, if that depends on something not yet known about it.

    Raises:
        UsageError: the text cannot be read.
    """
    try:
        return chosen(ranks, process)
    except UsageError:
        raise
    except StepScopeError:
        return True


def parse_ranks(text: str) -> tuple[Term, ...]:
    """The terms of a choice, all of which must hold; none for `all`.

    >>> parse_ranks("local:0+0-7,16")
    (Term(prefix='local', ranges=((0, 0),)), Term(prefix='', ranges=((0, 7), (16, 16))))

    Raises:
        UsageError: the text is not a choice of ranks; names the character from which it cannot be read.
    """
    if not isinstance(text, str):
        raise UsageError(
            f'ranks={text!r} is not text: write for example "0,8"',
            hint=f"ranks are written as {EXAMPLES}",
            slug="bad-ranks",
        )
    terms: list[Term] = []
    reader = _Reader(text)
    while True:
        term = _term(reader)
        if term is not None:
            terms.append(term)
        if not reader.passed("+"):
            break
    if not reader.at_end():
        raise reader.unreadable(reader.expects, "local:0,1+0-7")
    return tuple(terms)


class _Reader:
    """A position in a text, never at a blank."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.expects = ""
        """What may come next, in case something else does."""
        self.move(0)

    def move(self, to: int) -> None:
        blanks = _BLANKS.match(self.text, to)
        self.at = to if blanks is None else blanks.end()

    def at_end(self) -> bool:
        return self.at >= len(self.text)

    def passed(self, sign: str) -> bool:
        """Passes a sign if it comes next."""
        matches = self.text.startswith(sign, self.at)
        if matches:
            self.move(self.at + len(sign))
        return matches

    def taken(self, pattern: re.Pattern[str]) -> str:
        """Passes and returns what matches here; empty if nothing does."""
        match = pattern.match(self.text, self.at)
        if match is None:
            return ""
        self.move(match.end())
        return match[0]

    def unreadable(self, why: str, example: str, at: int | None = None) -> UsageError:
        place = self.at if at is None else at
        remainder = self.text[place:]
        short = remainder if len(remainder) <= 20 else f"{remainder[:20]}…"
        where = f'"{short}"' if remainder else "where the text ends"
        return UsageError(
            f'ranks "{self.text}" cannot be read from character {place + 1}, {where}: {why}; '
            f'write for example "{example}"',
            hint=f"ranks are written as {EXAMPLES}",
            slug="bad-ranks",
        )


def _term(reader: _Reader) -> Term | None:
    start = reader.at
    prefix = reader.taken(_WORD)
    if prefix == "all":
        reader.expects = 'only "+" can follow "all"'
        return None
    if prefix and prefix not in _PREFIXES:
        why = f'"{prefix}" is none of "all", "local:", "node:" and "every:"'
        raise reader.unreadable(why, "local:0", start)
    if prefix and not reader.passed(":"):
        raise reader.unreadable(f'a ":" is missing after "{prefix}"', f"{prefix}:1")
    if prefix == "every":
        number = reader.at
        step = _number(reader)
        if not step:
            raise reader.unreadable('"every:" takes a number from 1 on', "every:16", number)
        reader.expects = '"every:" takes one number, which only "+" can follow'
        return Term(prefix, ((step, step),))
    ranges = [_range(reader)]
    while reader.passed(","):
        ranges.append(_range(reader))
    return Term(prefix, tuple(ranges))


def _range(reader: _Reader) -> tuple[int, int]:
    start = reader.at
    first = _number(reader)
    reader.expects = 'only ",", "-" or "+" can follow a number'
    last = first
    if reader.passed("-"):
        last = _number(reader)
        reader.expects = 'only "," or "+" can follow a range'
    if last < first:
        raise reader.unreadable("the range runs backwards", f"{last}-{first}", start)
    return first, last


def _number(reader: _Reader) -> int:
    start = reader.at
    digits = reader.taken(_NUMBER)
    if not digits:
        raise reader.unreadable("a number is missing", "0,8")
    if len(digits) > _MAX_DIGITS:
        raise reader.unreadable("the number is too long", "0,8", start)
    return int(digits)


def _unknown(message: str) -> StepScopeError:
    return StepScopeError(message, hint='choose by what is known, or all ranks: "all"', slug="rank-unknown")
