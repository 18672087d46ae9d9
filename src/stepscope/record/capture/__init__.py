"""Starts and stops another profiler around chosen steps, and names for it what runs in them.

`steps` is the recording that a loop drives, `signals` sends the profiler its signals, and `region` does the same for a
script that knows its steps itself.
"""
