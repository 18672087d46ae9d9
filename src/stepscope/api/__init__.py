"""The Python interface: open a recording, ask questions, run SQL."""
