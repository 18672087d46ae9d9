"""Times the phases of every step, always on."""
