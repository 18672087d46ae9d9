"""CUPTI's records in the databases of nvprof and Nsight Systems."""
