"""The stages, the most valuable first. Each is a module of this folder, run in its own process."""

from gpu.runner import Stage

STAGES = (
    Stage("device", "which device, driver, versions and tools are here", 90, needed=True),
    Stage("jobs", "real trainings recorded in each mode: nothing hangs, losses equal, recordings kept", 190),
    Stage(
        "events",
        "inline events against torch.profiler's kernels; one at a time against all; graphs, streams, syncs",
        80,
    ),
    Stage("tests", "the tests marked gpu", 100),
    Stage("counters", "work of products and attention by formula against ncu's counters", 90),
    Stage("peaks", "what calibrate measures against the data sheet", 45),
    Stage("overhead", "what each way to record costs, paired", 90),
    Stage("tools", "a training under nsys and ncu, started by stepscope launch", 80),
    Stage("demo", "stepscope demo", 60),
)
