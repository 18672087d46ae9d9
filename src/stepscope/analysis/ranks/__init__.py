"""Ranks: what they exchange, how they wait for one another, and why one is late."""
