"""What no file says outright: nesting, launches, operators, modules, directions and steps."""
