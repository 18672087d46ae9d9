"""What finds a job's loop, its model and its optimizers, and runs it as Python would."""
