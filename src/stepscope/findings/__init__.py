"""Judges a recording: facts, rules with one threshold each, and the verdict."""
