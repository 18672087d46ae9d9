"""Records inside a training job: one event per iteration, the phases of every step, or a trace of a few steps.

Nothing in this package raises into the job, waits for a device inside a step, or stays behind when the recording ends.
It imports the standard library and, when a recording starts, torch.

Terms: a loop drives a *recording* (`recording`). What the job runs once per batch or accumulated batch is an
*iteration* in plans and a *step* in traces and phases. An *event* is what a label of a plan names. *Targets* are
installed to observe the job, and report to the *watch* of the running iteration. An iteration whose watch notes
everything is *observed*; one whose watch times chosen events is *armed*. `stepscope plan` *surveys* a script. An inline
recording is a *session*, one with torch's profiler a *profiling*.
"""
