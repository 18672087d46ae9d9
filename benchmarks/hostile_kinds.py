"""The list of kinds of hostile input that `fuzz.py` makes, and what a kind makes its inputs from."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """Where an input is made, and from what.

    Attributes:
        folder: an empty folder of its own.
        rng: chooses among variants; the same seed makes the same input.
        scale: 1 for sizes that only bounded readers survive, less for quick runs.
    """

    folder: Path
    rng: random.Random
    scale: float = 1.0

    def size(self, full: int) -> int:
        """A size of the input: `full` in a full run."""
        return max(1, int(full * self.scale))

    def write(self, name: str, data: bytes) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.write_bytes(data)
        return path


DEFAULT_QUESTIONS: tuple[tuple[str, ...], ...] = (("checks", "--json"), ("summary",))


@dataclass(frozen=True)
class Laid:
    """An input that lies ready.

    Attributes:
        source: SRC, as it is typed.
        asked: commands and their options, which get SRC as their first argument; the first of them
            answers with the checks as JSON where `lost` is stated.
        stdout: where the command's standard output leads: kept, a pipe that nobody reads, or nowhere.
    """

    source: Path | str | bytes
    asked: tuple[tuple[str, ...], ...] = DEFAULT_QUESTIONS
    stdout: str = field(default="kept")


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    Attributes:
        name: what it is called.
        make: lays an input.
        lost: whether an answer must come with a check that found something; None where some
            inputs lose nothing.
    """

    name: str
    make: Callable[[Place], Laid]
    lost: bool | None = None


KINDS: list[Kind] = []


def kind(name: str, *, lost: bool | None = None) -> Callable[[Callable[[Place], Laid]], Callable[[Place], Laid]]:
    """Declares a function as a kind of input."""

    def declare(make: Callable[[Place], Laid]) -> Callable[[Place], Laid]:
        KINDS.append(Kind(name, make, lost))
        return make

    return declare
