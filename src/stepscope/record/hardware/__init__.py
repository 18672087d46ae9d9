"""Measures what a job uses of its machine while it trains: of the host, and of its model's device."""
