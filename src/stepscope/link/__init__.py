"""Adds what no file states: nesting, launches, operators, modules, directions and steps."""
