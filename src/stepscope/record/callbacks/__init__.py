"""Recording for training frameworks: one line in the script, with the same options for each framework.

Each file here imports its own framework and is imported by scripts that have it.
"""
