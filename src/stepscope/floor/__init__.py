"""What every part may stand on, the training job too: the standard library and nothing else."""
