"""Starts other profilers around a command on some ranks of a job: `stepscope launch`.

A rank that was not chosen executes the command itself. Terms: a *tool* is a profiler; the *command* is what the user
runs; the *starter* (`started.py`) is what a tool runs in its place, so that the command runs once and its exit code is
known. This runs inside users' jobs, so it imports only the standard library and `base`.
"""
