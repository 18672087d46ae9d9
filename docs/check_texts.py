"""What each data-quality check looks for and what to do about it; `link/checks.py` runs them."""

from __future__ import annotations

CHECKS: dict[str, str] = {
    "stream_overlap": (
        "Device events of one stream that begin before an earlier one has ended. Kernels of a "
        "stream run one after another, except with programmatic dependent launch, where a kernel "
        "may start while the one it depends on finishes. Unions of intervals count such time once; "
        "sums of durations count it twice, and gaps are measured from the latest end so far."
    ),
    "duration_overrun": (
        "Device events whose recorded duration runs past the work after them on their stream. A "
        "handful of these can claim most of the device time. They are cut to the begin of the next "
        "event; `device_event.raw_dur_ns` keeps what was recorded."
    ),
    "zero_ts": (
        "Events whose time stamp is 0: the recorder lost it. They stay in the tables and count as "
        "launched, but take no part in times."
    ),
    "negative_dur": (
        "Events without a duration, or with a negative one, and ranges that begin and never end. "
        "Their end is taken from what encloses them, or from the end of the recording."
    ),
    "launch_without_kernel": (
        "Kernel launches on the host whose kernel is not in the recording. The device then looks "
        "idler than it was. Recorders lose device events when their buffers overflow or when "
        "another profiler holds the device."
    ),
    "first_step_starved": (
        "The first step launched kernels of which many are missing while later steps have theirs: "
        "the recorder was not ready. Give the profiler a warm-up cycle, or leave the step out."
    ),
    "graph_replay_unattributed": (
        "Device work replayed from CUDA graphs. One launch stands for all kernels of the graph, and "
        "the operators ran when the graph was captured, so the work belongs to no operator."
    ),
    "no_steps": (
        "No range marks the steps. Call `profiler.step()` after each step to have them; without it "
        "steps run from one optimizer call to the next, or the whole recording counts as one."
    ),
    "clock_skew": (
        "Device events that begin before the call that launched them. The clocks of host and device "
        "disagree by at least that much, and delays of launches are off by as much."
    ),
    "unlinked_kernel_fraction": (
        "Device work whose launch is not in the recording. It counts in every device time and belongs "
        "to no operator, module or range; nothing is dropped. Record host activity to have launches."
    ),
    "no_gpu_events": (
        "The recording has no device events. Where the host launched kernels all the same they were "
        "lost, and device times are unknown, not 0."
    ),
    "truncated": (
        "The file ends before its JSON does: the job was killed while it wrote, or the disk was full. "
        "Every event before the end is kept."
    ),
    "repaired": (
        "Events that had to be mended to be read, or could not be read. `stepscope sources SRC` says "
        "of each file how many, of which class of damage, and where the first begins."
    ),
    "left_out": (
        "A folder holds recordings that cannot be read: cut off, empty or changed after they were written. "
        "What they would tell, of a rank for instance, is in no answer. It has a row only where there are such."
    ),
}
