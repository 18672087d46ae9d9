"""For loops with Hugging Face Accelerate, which has no callbacks: the loop iterates over `steps`.

with StepScopeSteps(accelerator, "runs/a", steps=3, model=model) as recording:
    for batch in recording.steps(loader):
        with accelerator.accumulate(model):
            ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from accelerate import Accelerator

from stepscope.record.callbacks.recordings import Recordings, never_raises

T = TypeVar("T")


class StepScopeSteps:
    """Records training steps of a loop; `model` is the result of `accelerator.prepare`, the rest as in `Recordings`.

    A step is an optimizer step: with gradient accumulation it ends where the accelerator synchronises gradients, and
    has a range `micro_step` for each of its batches.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        out: str | Path = "stepscope-out",
        *,
        model: Any = None,
        start_step: int = 0,
        **options: Any,
    ) -> None:
        self.recordings = Recordings(out, **options)
        self._accelerator = accelerator
        self._model = model
        self._number = start_step

    def __enter__(self) -> StepScopeSteps:
        self.recordings.start(self._number, self._model)
        return self

    def __exit__(self, *_: object) -> None:
        self.recordings.stop()

    def steps(self, loader: Iterable[T]) -> Iterator[T]:
        """Yields the batches of a loader; call it again for every epoch."""
        for batch in loader:
            self._start_batch()
            try:
                yield batch
            finally:
                self.recordings.end_micro_step()
            self._end_batch()

    @never_raises
    def _start_batch(self) -> None:
        if self._accelerator.gradient_accumulation_steps > 1:
            self.recordings.start_micro_step()

    @never_raises
    def _end_batch(self) -> None:
        if self._accelerator.sync_gradients:
            self._number += 1
            self.recordings.step(self._number)
