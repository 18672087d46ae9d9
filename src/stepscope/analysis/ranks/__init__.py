"""Ranks: what they exchange, how long they wait for one another, and why one is late."""
