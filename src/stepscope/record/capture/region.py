"""Capturing from a script: `with stepscope.capture(): ...` around what a profiler should record."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from stepscope.base.captured_steps import SIGNAL_VARIABLE, SIGNALS
from stepscope.record.capture.signals import Signal, signal_called, stop_after_device
from stepscope.record.job.at_end import AtEnd
from stepscope.record.trouble import warn_once


class Capture:
    """The profiler records between `start` and `stop`, or inside `with`."""

    __slots__ = ("_at_end", "_signal")

    def __init__(self, signal: Signal | None) -> None:
        self._signal = signal
        self._at_end: AtEnd | None = None

    def __enter__(self) -> Capture:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the profiler's recording; does nothing if it is recording, or no profiler waits for a signal."""
        if self._signal is None or self._at_end is not None:
            return
        self._at_end = AtEnd(stop=self.stop)
        self._send(self._signal.start)

    def stop(self) -> None:
        if self._at_end is None:
            return
        self._at_end.cancel()
        self._at_end = None
        if self._signal is not None:
            self._send(partial(stop_after_device, self._signal))

    def _send(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self._signal = None
            warn_once(f"nothing more is captured: {type(error).__name__}: {error}")


def _signal() -> Signal | None:
    word = os.environ.get(SIGNAL_VARIABLE)
    if not word:
        return None
    if word not in SIGNALS:
        warn_once(f"{SIGNAL_VARIABLE} is none of {', '.join(SIGNALS)}: nothing is captured")
        return None
    return signal_called(word)


_CAPTURE = Capture(_signal())


def capture() -> Capture:
    """Makes the profiler around this process record a part of it: `with stepscope.capture(): ...`.

    Whoever starts such a profiler names its signal in the environment: `STEPSCOPE_CAPTURE=cuda-profiler`, `nvtx`, `itt`
    or `roctx`, read at the first use. Without it this does nothing, in less than a microsecond. Captures do not nest.

    >>> with capture():
    ...     sum(range(3))
    3
    """
    return _CAPTURE
