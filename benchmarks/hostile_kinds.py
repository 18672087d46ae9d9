"""The list of kinds of hostile input for `fuzz.py`, and the tools to make inputs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """Where and from what an input is made.

    Attributes:
        folder: an empty folder.
        rng: chooses among variants; the same seed makes the same input.
        scale: 1 for sizes that only bounded readers survive, less for quick runs.
    """

    folder: Path
    rng: random.Random
    scale: float = 1.0

    def size(self, full: int) -> int:
        """A size, `full` in a full run."""
        return max(1, int(full * self.scale))

    def write(self, name: str, data: bytes) -> Path:
        """Writes a file into the folder."""
        path = self.folder / name
        path.write_bytes(data)
        return path


DEFAULT_QUESTIONS: tuple[tuple[str, ...], ...] = (("checks", "--json"), ("summary",))


@dataclass(frozen=True)
class Laid:
    """An input that has been made.

    Attributes:
        source: SRC, as it is typed.
        asked: commands and their options, which get SRC as first argument; the first one answers with the checks as
            JSON if `lost` is given.
        stdout: the command's standard output: kept, a pipe that nobody reads, or nowhere.
    """

    source: Path | str | bytes
    asked: tuple[tuple[str, ...], ...] = DEFAULT_QUESTIONS
    stdout: str = field(default="kept")


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    Attributes:
        name: its name.
        make: makes an input.
        lost: whether an answer must have a failed check; None if some inputs lose nothing.
        grows: whether its bytes grow with the scale, and what it costs to read them may grow no faster.
    """

    name: str
    make: Callable[[Place], Laid]
    lost: bool | None = None
    grows: bool = False


KINDS: list[Kind] = []


def kind(
    name: str, *, lost: bool | None = None, grows: bool = False
) -> Callable[[Callable[[Place], Laid]], Callable[[Place], Laid]]:
    """Declares a function as a kind of input."""

    def declare(make: Callable[[Place], Laid]) -> Callable[[Place], Laid]:
        KINDS.append(Kind(name, make, lost, grows))
        return make

    return declare
