"""Starts and stops another profiler around chosen steps, and names for it what runs in them.

`steps` is the recording that a loop drives, `signals` sends the profiler its signals, `libraries` finds the libraries
for them, and `region` does the same for a script that knows its steps itself.
"""
