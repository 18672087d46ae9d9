"""For Lightning: `Trainer(callbacks=[StepScopeCallback("runs/a", steps=3)])`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from stepscope.record.annotate import NO_REGION, region
from stepscope.record.callbacks.recordings import Recordings, never_raises
from stepscope.record.targets.patches import Patch


class StepScopeCallback(Callback):
    """Records training steps; options are those of `Recordings`.

    A step is an optimizer step with the trainer's `global_step`, also in a resumed run. With `accumulate_grad_batches`
    it has a range `micro_step` for each of its batches. Hooks are regions, named as for Lightning's own profilers:
    `[Callback]ModelCheckpoint.on_train_batch_end`.
    """

    def __init__(self, out: Any = "stepscope-out", **options: Any) -> None:
        self.recordings = Recordings(out, **options)
        self._hooks: Patch | None = None

    @never_raises
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Starts recording; a checkpoint, if there is one, has been loaded."""
        self.recordings.start(trainer.global_step, pl_module, list(trainer.optimizers), _callable_parts(pl_module))
        self._hooks = Patch(trainer.profiler, "profile", self._named)
        self._hooks.install()

    @never_raises
    def on_train_batch_start(self, trainer: Any, *_args: Any) -> None:
        if trainer.accumulate_grad_batches > 1:
            self.recordings.start_micro_step()

    @never_raises
    def on_train_batch_end(self, trainer: Any, *_args: Any) -> None:
        """A batch ends; a changed step number shows that the optimizer stepped."""
        self.recordings.end_micro_step()
        self.recordings.step(trainer.global_step)

    @never_raises
    def on_validation_start(self, *_args: Any) -> None:
        """A validation runs between two steps, and is part of the second one's time."""
        self.recordings.exclude_current()

    @never_raises
    def on_save_checkpoint(self, *_args: Any) -> None:
        self.recordings.exclude_current()

    @never_raises
    def on_train_end(self, *_args: Any) -> None:
        self._end()

    @never_raises
    def on_exception(self, *_args: Any) -> None:
        self._end()

    def _end(self) -> None:
        if self._hooks is not None:
            self._hooks.remove()
        self.recordings.stop()

    def _named(self, profile: Any) -> Any:
        @functools.wraps(profile)
        def named(action: str) -> Any:
            opened = NO_REGION if type(self).__name__ in action else region(action)
            return profile(action) if opened is NO_REGION else _within(profile(action), opened)

        return named


@contextlib.contextmanager
def _within(of_profiler: Any, opened: Any) -> Iterator[Any]:
    with of_profiler as entered, opened:
        yield entered


def _callable_parts(module: Any) -> list[Any]:
    """The module and those of its parts that `training_step` may call directly."""
    parts = [module]
    for part in module.children():
        # Lists and dictionaries of modules are not called, but their items may be.
        parts += _callable_parts(part)[1:] if type(part).__name__ in ("ModuleList", "ModuleDict") else [part]
    return parts
