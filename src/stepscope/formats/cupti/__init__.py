"""What CUPTI recorded, as nvprof and Nsight Systems keep it in databases."""
