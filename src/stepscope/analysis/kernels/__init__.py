"""Kernels: what their names and launch shapes show, and what counters measured."""
