"""The phases of every step, always on."""
