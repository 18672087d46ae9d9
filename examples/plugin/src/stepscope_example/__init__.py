"""A format, a question, an operator's work model, a rule and a device for StepScope."""
