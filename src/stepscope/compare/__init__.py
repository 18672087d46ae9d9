"""Compares recordings: what changed between two, and what stops scaling over several."""
