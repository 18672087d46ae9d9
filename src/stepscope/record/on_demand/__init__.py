"""Records a trace of a running job on request, on all ranks at once."""
