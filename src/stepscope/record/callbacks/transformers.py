"""For the Trainer of Hugging Face: `Trainer(..., callbacks=[StepScopeCallback("runs/a", steps=3)])`."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from stepscope.record.callbacks.recordings import Recordings, never_raises


class StepScopeCallback(TrainerCallback):
    """Records training steps; options are those of `Recordings`.

    A step is an optimizer step with the trainer's `global_step`, also in a resumed run. With
    `gradient_accumulation_steps` it has a range `micro_step` for each of its batches.
    """

    def __init__(self, out: Any = "stepscope-out", **options: Any) -> None:
        self.recordings = Recordings(out, **options)

    @never_raises
    def on_train_begin(self, _args: Any, state: Any, *_: Any, **options: Any) -> None:
        """Starts recording; a checkpoint, if there is one, has been loaded."""
        self.recordings.start(state.global_step, options.get("model"))

    @never_raises
    def on_step_begin(self, args: Any, *_: Any, **_options: Any) -> None:
        if args.gradient_accumulation_steps > 1:
            self.recordings.start_micro_step()

    @never_raises
    def on_substep_end(self, *_: Any, **_options: Any) -> None:
        """A batch ends without an optimizer step: the next batch starts."""
        self.recordings.end_micro_step()
        self.recordings.start_micro_step()

    @never_raises
    def on_pre_optimizer_step(self, *_: Any, **_options: Any) -> None:
        self.recordings.end_micro_step()

    @never_raises
    def on_step_end(self, _args: Any, state: Any, *_: Any, **_options: Any) -> None:
        self.recordings.step(state.global_step)

    @never_raises
    def on_evaluate(self, *_: Any, **_options: Any) -> None:
        """An evaluation ran between two steps, and is part of the second one's time."""
        self.recordings.exclude_current()

    @never_raises
    def on_save(self, *_: Any, **_options: Any) -> None:
        self.recordings.exclude_current()

    @never_raises
    def on_train_end(self, *_: Any, **_options: Any) -> None:
        self.recordings.stop()
