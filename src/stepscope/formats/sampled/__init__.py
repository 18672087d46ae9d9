"""Profiles of sampled call stacks: py-spy, speedscope, collapsed stacks, Linux perf."""
