"""What every package may use, in the training job too; imports only the standard library."""
