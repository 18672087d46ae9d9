"""The tables for profiles of sampled stacks."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from stepscope.base.errors import SourceError
from stepscope.formats.container import Member
from stepscope.formats.frames import Frame
from stepscope.formats.tables import from_rows

MAX_FRAMES = 1024
_LATEST = 1 << 60


class Samples:
    """Rows of `stack_sample`, `call_stack` and `thread`, as a reader adds them.

    Args:
        clock: the time over which samples are spread, as in `stack_sample.clock`.
    """

    def __init__(self, clock: str | None = None) -> None:
        self._clock = clock
        self._stacks: dict[str, int] = {}
        self._threads: dict[tuple[str, str], tuple[int, str | None]] = {}
        self._rows: dict[tuple[int | None, int | None, str | None, tuple[bool, ...]], list[int | None]] = {}

    def thread(self, pid: str, tid: str, name: str | None = None) -> int:
        """The number of a thread, by the file's names of its process and itself."""
        number, _ = self._threads.setdefault((pid, tid), (len(self._threads), name))
        return number

    def add(
        self,
        frames: Iterable[Frame],
        phase: str | None = None,
        /,
        *,
        thread: int | None = None,
        weight: int | None = None,
        sampled_ns: int | None = None,
        instructions: int | None = None,
        cycles: int | None = None,
    ) -> None:
        """Adds samples of one stack, innermost frame first, on one thread; repeated ones are added up."""
        texts = [frame.text() for frame in frames][:MAX_FRAMES]
        stack = self._stacks.setdefault(";".join(texts), len(self._stacks)) if texts else None
        figures = [weight, sampled_ns, instructions, cycles]
        # Samples that count other things get another row: a sum over rows that lack a value would be unknown.
        key = thread, stack, phase, tuple(figure is None for figure in figures)
        sums = self._rows.get(key, [0] * len(figures))
        self._rows[key] = [
            None if figure is None else min(figure + (before or 0), _LATEST)
            for before, figure in zip(sums, figures, strict=True)
        ]

    @property
    def pids(self) -> set[str]:
        """The processes, by the file's names."""
        return {pid for pid, _ in self._threads}

    def __len__(self) -> int:
        """How many rows of `stack_sample` there are."""
        return len(self._rows)

    def tables(self) -> dict[str, pa.Table]:
        """The tables by name."""
        rows = [
            {
                "thread": thread,
                "stack_id": stack,
                "weight": weight,
                "clock": self._clock,
                "sampled_ns": sampled_ns,
                "instructions": instructions,
                "cycles": cycles,
                "phase": phase,
            }
            for (thread, stack, phase, _), (weight, sampled_ns, instructions, cycles) in self._rows.items()
        ]
        threads = [
            {"thread": number, "pid": pid, "tid": tid, "thread_name": name, "kind": "thread"}
            for (pid, tid), (number, name) in self._threads.items()
        ]
        stacks = [{"stack_id": number, "frames": text} for text, number in self._stacks.items()]
        return {
            "stack_sample": from_rows("stack_sample", rows),
            "call_stack": from_rows("call_stack", stacks),
            "thread": from_rows("thread", threads),
        }


def none_sampled(member: Member) -> SourceError:
    """The error for a profile without any sample."""
    return SourceError(
        f"{member.label}: there is no sample in this profile",
        hint="the command ended before it was sampled, or did nothing but wait; let it run longer",
        slug="no-recording",
    )
