"""Runs several things at once, the most valuable first, and of each group one before all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def run_in_turn(
    groups: Sequence[Sequence[T]], worth: Callable[[T], int], do: Callable[[T], R], at_once: int
) -> Iterator[tuple[T, R]]:
    """Runs everything, and yields each item with its result as it ends.

    Args:
        groups: the first of each must end before its others start.
        worth: lower values run earlier.
        do: runs one.
        at_once: the number of items at a time.
    """
    rest = {id(own[0]): list(own[1:]) for own in groups}
    ready = [own[0] for own in groups]
    running: dict[Future[R], T] = {}
    with ThreadPoolExecutor(at_once) as several:
        while ready or running:
            ready.sort(key=worth)
            while ready and len(running) < at_once:
                one = ready.pop(0)
                running[several.submit(do, one)] = one
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                one = running.pop(done)
                ready += rest.pop(id(one), [])
                yield one, done.result()
