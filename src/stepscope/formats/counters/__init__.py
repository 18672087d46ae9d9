"""Hardware counters of kernels: reports of Nsight Compute, and what tools call the same counters."""
