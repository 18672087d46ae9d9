"""Recording for training frameworks: one line in the script, the same options for each of them.

Each file here imports its own framework and is imported by scripts that have it.
"""
