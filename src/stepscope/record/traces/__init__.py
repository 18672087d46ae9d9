"""Traces a few steps with torch's profiler."""
