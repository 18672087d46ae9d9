"""A script that `stepscope record` or `stepscope plan` runs: how it starts and ends, and what it has written."""
