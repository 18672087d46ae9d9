"""NVTX ranges of torch, PyProf and programs, whichever tool recorded them, as host events."""
