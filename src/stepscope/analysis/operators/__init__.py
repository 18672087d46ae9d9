"""Operators: which call did which work, how much of it there was, and what the device could have done."""
