"""A trace of a few steps, through torch's profiler."""
