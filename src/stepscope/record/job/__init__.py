"""Finds a job's loop, model and optimizers, and runs it as Python would."""
