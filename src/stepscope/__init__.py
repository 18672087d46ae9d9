"""StepScope: where a training step's time goes, and how far that is from the hardware's limit."""

__version__ = "0.1.0"
