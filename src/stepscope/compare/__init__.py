"""Several recordings beside each other: what changed between two, and what stops scaling over many."""
