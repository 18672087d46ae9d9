"""The command line: declares arguments, calls one function, prints where the result is."""
