"""Recording from inside a training job: one event per iteration, or a trace of a few steps.

Nothing in this package raises into the job, waits for a device inside a step, or stays behind when
recording is over. It imports the standard library and, when a recording starts, torch.

Words that mean one thing in all its rooms: a loop drives a *recording* (`recording`); what the job runs once per
batch or accumulated batch is an *iteration* in plans and a *step* in traces and phases. An *event* is what a
label of a plan names. *Targets* are installed to listen, and report to the *watch* of the running iteration; an
iteration in which a watch notes everything is *observed*, one whose watch times chosen events is *armed*. A
*survey* is what `stepscope plan` does to a script. A *session* is inline's; torch's profiler has a *profiling*.
"""
