"""Operators: which call did which work, how much, and how fast the device could have done it."""
