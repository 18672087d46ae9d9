"""Recording from inside a training job: one event per iteration, or a trace of a few steps.

Nothing in this package raises into the job, waits for a device inside a step, or stays behind when
recording is over. It imports the standard library and, when a recording starts, torch.
"""
