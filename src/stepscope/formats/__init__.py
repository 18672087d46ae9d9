"""Readers: from the file of some tool to the rows of the canonical tables."""
