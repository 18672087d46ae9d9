"""Hardware counters of kernels: reports of Nsight Compute, and the same counters under other tools' names."""
