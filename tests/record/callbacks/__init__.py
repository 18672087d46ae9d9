"""Callbacks against the real frameworks; each file is skipped where its framework is absent."""
