"""Starts other profilers around a command, on some ranks of a job: `stepscope launch`.

A rank that was not chosen becomes the command itself. Words mean one thing each: a *tool* is a profiler
that others make, or one of ours; the *command* is what the user runs; the *starter* (`started.py`) is what a
tool runs in its place, so that the command runs once and its exit code is known whatever the tool does.

Like `record`, this runs inside people's jobs: it imports the standard library and `floor`.
"""
