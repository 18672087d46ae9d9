"""Records inside a training job: one event per iteration, the phases of every step, or a trace of a few steps.

Nothing here raises into the job, waits for a device inside a step, or stays when the recording ends. It imports the
standard library and, when a recording starts, torch.

Terms: a loop drives a *recording*. What the job runs per batch or accumulated batch is an *iteration* in plans, a
*step* in traces and phases. An *event* is what a label of a plan names. *Targets* observe the job and report to the
*watch* of the running iteration: an *observed* one notes everything, an *armed* one times chosen events. `stepscope
plan` *surveys* a script. An inline recording is a *session*.
"""
