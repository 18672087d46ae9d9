"""What people call from Python: open a recording, ask it, query it."""
