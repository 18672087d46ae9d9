"""For Lightning: `Trainer(callbacks=[StepScopeCallback("runs/a", steps=3)])`."""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from stepscope.record.callbacks.steps import StepRecording, never_raises


class StepScopeCallback(Callback):
    """Records training steps; options are those of `StepRecording`.

    A step is an optimizer step and has the trainer's `global_step`, also in a run that was resumed.
    With `accumulate_grad_batches` it has a range `micro_step` for each of its batches.
    """

    def __init__(self, out: Any = "stepscope-out", **options: Any) -> None:
        self.recording = StepRecording(out, **options)

    @never_raises
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The checkpoint, if there is one, has been loaded."""
        self.recording.begin(
            trainer.global_step, pl_module, list(trainer.optimizers), _called(pl_module)
        )

    @never_raises
    def on_train_batch_start(self, trainer: Any, *_args: Any) -> None:
        """A batch is here."""
        if trainer.accumulate_grad_batches > 1:
            self.recording.micro_step_begins()

    @never_raises
    def on_train_batch_end(self, trainer: Any, *_args: Any) -> None:
        """The batch is through; whether the optimizer stepped shows in the number."""
        self.recording.micro_step_ends()
        self.recording.step(trainer.global_step)

    @never_raises
    def on_validation_start(self, *_args: Any) -> None:
        """A validation runs between two steps, and lies in the time of the second."""
        self.recording.not_this_one()

    @never_raises
    def on_save_checkpoint(self, *_args: Any) -> None:
        """A checkpoint is written, likewise."""
        self.recording.not_this_one()

    @never_raises
    def on_train_end(self, *_args: Any) -> None:
        """Training is over."""
        self.recording.end()

    @never_raises
    def on_exception(self, *_args: Any) -> None:
        """Training broke off; what was recorded until then is written."""
        self.recording.end()


def _called(module: Any) -> list[Any]:
    """The module and the parts that `training_step` may call without calling the module itself."""
    called = [module]
    for part in module.children():
        # Lists and dictionaries of modules are not called; what is in them may be.
        called += (
            _called(part)[1:] if type(part).__name__ in ("ModuleList", "ModuleDict") else [part]
        )
    return called
