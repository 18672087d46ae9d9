"""Literal recordings of ranks that meet in collectives whose last rank is known."""

from collections.abc import Mapping
from typing import Any

MS = 1_000_000


class Meetings:
    """A job whose ranks compute, do other things, and meet; times are ms since its start."""

    def __init__(self, end: int, *, steps: int = 1) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("device_event", "host_event", "collective", "step")
        }
        self.end, self.steps = end, steps
        self.ranks: set[int] = set()

    def compute(self, rank: int, start: int, end: int, name: str = "gemm", **more: Any) -> None:
        """A kernel, or with `kind` other device work."""
        self._add("device_event", rank, start, end, name=name, **more)

    def on_host(self, rank: int, start: int, end: int, name: str, **more: Any) -> None:
        """An operator, or with `kind` and `role` something else of the host."""
        self._add("host_event", rank, start, end, **{"kind": "operator", "name": name, **more})

    def meet(
        self,
        arrivals: Mapping[int, int],
        end: int,
        *,
        told: bool = True,
        stream: int = 20,
        operation: str = "all_reduce",
        launch_ns: int | None = None,
    ) -> None:
        """A collective that ranks reach at these times and leave together; on all of them it was launched at a time (ns)."""
        last = max(arrivals.values())
        match = len(self.tables["collective"])
        for rank, start in arrivals.items():
            number = self._add(
                "device_event", rank, start, end, name="nccl", kind="communication", stream=stream, launch_ns=launch_ns
            )  # fmt: skip
            self.tables["collective"].append(
                {
                    "rank": rank,
                    "id": number,
                    "start_ns": start * MS,
                    "end_ns": end * MS,
                    "operation": operation,
                    "match_id": match,
                    "matched_ranks": len(arrivals),
                    "wait_ns": (last - start) * MS,
                    "transfer_ns": (end - last) * MS,
                    "last_rank": max(arrivals, key=arrivals.__getitem__) if told else None,
                }
            )

    def rows(self) -> dict[str, Any]:
        """The tables; steps divide the time evenly."""
        length = self.end * MS // self.steps
        steps = [
            {"rank": rank, "step": step, "start_ns": step * length, "end_ns": (step + 1) * length}
            for rank in sorted(self.ranks)
            for step in range(self.steps)
        ]
        return {**self.tables, "step": steps}

    def _add(self, table: str, rank: int, start: int, end: int, **more: Any) -> int:
        self.ranks.add(rank)
        number = sum(len(self.tables[name]) for name in ("device_event", "host_event"))
        times = {"start_ns": start * MS, "dur_ns": (end - start) * MS}
        self.tables[table].append({"rank": rank, "id": number, **times, **more})
        return number
