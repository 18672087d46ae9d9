"""Tracks collectives on the CPU that are running when the profiler is to stop.

gloo writes the end of a collective into the profiler's records from its own thread, or from the one that waits for it,
but torch frees those records when the profiler stops. A later end writes into memory that belongs to the job again
(torch 2.13: in one of ten stops under DistributedDataParallel). So the profiler stops only when gloo's threads are idle
and everything started has ended.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepscope.record.targets.patches import Patches
from stepscope.record.trouble import Guard

_TASKS = Path("/proc/self/task")
_LOOK_SECONDS = 0.002
_QUIET_LOOKS = 5  # in a row, because a thread may just be waiting for a lock
_BLIND_SECONDS = 0.02  # if threads have no names
_PATIENCE_SECONDS = 1.0

# Methods of a process group. The second kind returns something that ends only when somebody waits for it, and with its
# last reference.
_COLLECTIVES = (
    *("allreduce", "allreduce_coalesced", "reduce", "broadcast", "gather", "scatter", "barrier"),
    *("allgather", "_allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced"),
    *("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced"),
    *("alltoall", "alltoall_base"),
)
_MESSAGES = ("send", "recv", "recv_anysource")


class InFlight:
    """Knows what was started on gloo and has not ended."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._patches = Patches()
        self._works: list[Callable[[], Any]] = []
        """Each returns what a process group returned; None if that has been freed."""

    def listen(self) -> None:
        """Starts observing if the job uses gloo."""
        if not _uses_gloo():
            return
        from torch.distributed import ProcessGroup

        for names, reference in ((_COLLECTIVES, _hold), (_MESSAGES, weakref.ref)):
            track = functools.partial(self._track, reference)
            self._patches.install(ProcessGroup, dict.fromkeys(names, track))

    def stop_listening(self) -> None:
        """Ignores new work; work known so far still counts."""
        self._patches.remove()

    def forget(self) -> None:
        self.stop_listening()
        self._works = []

    def any(self) -> bool:
        """Whether something that the job started from Python has not ended."""
        self._works = [work for work in self._works if _runs(work())]
        return bool(self._works)

    def settle(self) -> bool:
        """Waits, at most a second and only with gloo, for what ends without the job's help; True when all has ended."""
        if not _uses_gloo():
            return True
        states = gloo_threads()
        if not states:
            time.sleep(_BLIND_SECONDS)
            return not self.any()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        looks = 0
        while looks < _QUIET_LOOKS:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
            quiet = not self.any() and "R" not in gloo_threads()
            looks = looks + 1 if quiet else 0
        return True

    def _track(self, reference: Callable[[Any], Callable[[], Any]], original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def launch(*args: Any, **kwargs: Any) -> Any:
            work = original(*args, **kwargs)
            if work is not None and not self._guard.tripped and _on_the_cpu(args[1:]):
                try:
                    self.any()
                    self._works.append(reference(work))
                except Exception as error:
                    self._guard.trip(error)
            return work

        return launch


def gloo_threads() -> list[str]:
    """The states of gloo's threads in Linux's /proc, `"R"` is running; torch before 2.6 does not name them."""
    states = []
    try:
        tasks = list(_TASKS.iterdir())
    except OSError:
        return []
    for task in tasks:
        try:
            # "123 (pt_gloo_runloop) S 1 ...": a name may contain spaces and parentheses.
            name, _, state = (task / "stat").read_text(errors="replace").rpartition(")")
        except OSError:
            continue  # it has ended
        if "gloo" in name:
            states.append(state.split()[0])
    return states


def _uses_gloo() -> bool:
    """Whether torch.distributed has a process group on gloo, alone or with others."""
    try:
        from torch import distributed

        if not (distributed.is_available() and distributed.is_initialized()):
            return False
        groups = distributed.distributed_c10d._world.pg_backend_config
        return any("gloo" in str(backends) for backends in groups.values())
    except Exception:
        # Differs between builds and versions of torch.
        return bool(gloo_threads())


def _hold(work: Any) -> Callable[[], Any]:
    return lambda: work


def _runs(work: Any) -> bool:
    return work is not None and not work.is_completed()


def _on_the_cpu(arguments: tuple[Any, ...]) -> bool:
    """Whether a collective's first tensor, if any, is on the CPU: a reference would keep GPU memory."""
    for argument in arguments:
        while isinstance(argument, list | tuple) and argument:
            argument = argument[0]
        device = getattr(argument, "device", None)
        if device is not None:
            return bool(getattr(device, "type", None) == "cpu")
    return True
