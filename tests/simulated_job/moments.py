"""Moments that wait for one another, and what decided when each came."""

from dataclasses import dataclass

START_NS = 100_000_000_000
"""Where a job starts, after the epoch of its traces: clocks may be off by less."""


@dataclass(frozen=True)
class Link:
    """A part of the critical path: `ns` of a kind of work, named, on a rank, until `end_ns`."""

    kind: str
    name: str
    rank: int
    ns: int
    end_ns: int


class Moments:
    """Moments that wait for one another: each is the latest of those before it plus what lies between."""

    def __init__(self) -> None:
        self.before: list[list[tuple[int, int, str, str]]] = []
        self.rank: list[int] = []
        self.at: list[int] = []

    def after(self, rank: int, *edges: tuple[int, int, str, str]) -> int:
        self.before.append(list(edges))
        self.rank.append(rank)
        return len(self.before) - 1

    def settle(self) -> None:
        """Works out when each is; what waits for another comes after it, across ranks too."""
        waiting = [len(edges) for edges in self.before]
        behind: list[list[int]] = [[] for _ in waiting]
        for moment, edges in enumerate(self.before):
            for edge in edges:
                behind[edge[0]].append(moment)
        self.at = [START_NS] * len(waiting)
        ready = [moment for moment, count in enumerate(waiting) if not count]
        for moment in ready:
            if self.before[moment]:
                self.at[moment] = max(self.at[edge[0]] + edge[1] for edge in self.before[moment])
            for later in behind[moment]:
                waiting[later] -= 1
                if not waiting[later]:
                    ready.append(later)
        assert len(ready) == len(waiting), "ranks wait for one another in a circle"

    def path(self, end: int) -> list[Link]:
        """The chain of work that decided when `end` is, the latest first."""
        links = []
        while edges := self.before[end]:
            edge = next(edge for edge in edges if self.at[edge[0]] + edge[1] == self.at[end])
            if edge[1]:
                links.append(Link(edge[2], edge[3], self.rank[end], edge[1], self.at[end]))
            end = edge[0]
        return links
