"""The command line: declares arguments, calls one function, prints the result."""
