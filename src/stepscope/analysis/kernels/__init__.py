"""Kernels: what their names and launch shapes tell, and what counters measured of them."""
