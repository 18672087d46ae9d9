"""Databases of nvprof, with the markers that PyProf and torch's `emit_nvtx` put into them."""
