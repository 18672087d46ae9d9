"""Starting and stopping another profiler around the steps that matter, and naming for it what runs in them.

`steps` is the recording that a loop drives, `signals` what reaches the profiler, `libraries` where that comes
from, and `region` the same for a script that knows its steps itself.
"""
