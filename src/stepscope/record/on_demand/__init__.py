"""Asking a running job for a trace, on all ranks at once."""
