"""The life of a script that `stepscope record` or `stepscope plan` runs: its start, its end and its files."""
