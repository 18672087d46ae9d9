"""When devices and streams were idle, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stepscope.formats.evidence import DEVICE_WORK
from stepscope.query.declare import DEVICE, RANK, SPAN, Column, Parameter, question
from stepscope.query.rows import ArrowTable, Row, answer_dicts
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.recording import Columns
    from stepscope.analysis.steps.gaps import Gap, Gaps
    from stepscope.link.intervals import Intervals

_COLUMNS = (
    RANK,
    SPAN,
    DEVICE,
    Column("stream", "int", "stream; empty for rows of the device"),
    Column("cause", "text", "host wait, kernel wait, other, unlinked, or no work follows"),
    Column("host", "text", "what the host did during most of these gaps; only in rows of the device"),
    Column("frame", "text", "innermost program frame during half of the longest gap; only in rows of the device"),
    Column("gaps", "int", "idle gaps", "count"),
    Column("idle_ns", "int", "their summed length", sums=True),
    Column("share_ratio", "float", "fraction of the idle time of the device or stream"),
    Column("max_gap_ns", "int", "longest gap"),
)


@question(
    "idle",
    "When was each device and stream idle, and why?",
    _COLUMNS,
    group="steps",
    rests_on=(*DEVICE_WORK, "launches", "own-launches", "host-times", "clocks"),
    about="time",
    parameters=(
        Parameter("kernel_wait_ns", "int", "a shorter gap is the device's delay between launches (ns)", 30_000),
    ),
    needs="device",
    fills="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
)
def idle(scope: Scope, kernel_wait_ns: int = 30_000) -> ArrowTable:
    """Idle time by cause: of each device (rows without a stream), and of each stream.

    A gap lies between the latest end of all work so far and the start of what runs next. With programmatic dependent
    launch a kernel may start before the previous one ends. The cause follows from what runs next:

    * **host wait**: its launch call started only after the gap had started, or was under way then and continued for 30
      µs or more and at least half of the gap. The device had caught up with the host. (The end of a call that copies
      does not count: such calls wait for the copy.)
    * **kernel wait**: it was launched in time, and the gap is shorter than `kernel_wait_ns`: the device's own delay
      from one piece of work to the next.
    * **other**: it was launched in time, and the gap is longer: it waited for another stream, for an event, or for
      another rank.
    * **unlinked**: its launch is unknown, so nothing can be said.
    * **no work follows**: only with `--step`, at the end of a recording.

    For the entire device, `host` is what the host did for the largest part of each gap, on any thread: wait for the
    DataLoader, synchronize, the profiler's own work, allocate, launch, another runtime call, communicate, run an
    operator, an annotated range, Python, or nothing that was recorded. Of several at once, the first in this list
    counts. `frame` is for recordings with Python stacks: of the frames of the program's own code, the innermost that
    covers at least half of the longest gap; if several threads have one, that of the thread recorded first.

    The sums are exact: a device's rows add up to the idle time in `device-time`, a stream's to its span minus its busy
    time. With `--step`, gaps are cut to the steps, and the time from a step's start to its first work counts as well;
    so with `--window`, in that stretch of time.

    The classes and the 30 µs are those of Holistic Trace Analysis, which uses only the start of a launch and measures
    from the end of the piece before: on overlapping work it sums negative gaps. It classifies gaps before unlinked work
    as kernel wait or other, and only examines single streams.
    """
    from stepscope.analysis.recording import every_step, groups, rank_batches, requested_windows
    from stepscope.analysis.steps.gaps import find_gaps, frames_in, host_activity, launched_work

    def rows(all_steps: Scope) -> Iterator[tuple[Row, Gap | None]]:
        for ranks in rank_batches(scope):
            host, device = host_activity(all_steps, ranks), launched_work(all_steps, ranks)
            requested = requested_windows(scope, all_steps, device, ranks)
            for key, work in device.items():
                if requested is not None and key not in requested:
                    continue
                times = None if requested is None else requested[key]
                for (index,), of_device in groups(work, "device").items():
                    gaps = find_gaps(of_device, kernel_wait_ns, times)
                    place = dict(zip(("rank", "span", "device"), (*key, index), strict=True))
                    yield from _device_rows(place, gaps, host.get(key))
                    for row in _stream_rows(of_device, kernel_wait_ns, times):
                        yield place | row, None

    with every_step(scope) as all_steps:
        gap_rows = list(rows(all_steps))
        frames = frames_in(all_steps, {gap for _, gap in gap_rows if gap is not None})
    return answer_dicts(_COLUMNS, (row | {"frame": gap and frames.get(gap)} for row, gap in gap_rows))


def _device_rows(place: dict[str, int], gaps: Gaps, host: list[Intervals] | None) -> Iterator[tuple[Row, Gap]]:
    from stepscope.analysis.steps.gaps import CAUSES, HOST_ACTIVITIES, Gap, main_activity

    names: tuple[str | None, ...] = (None,) if host is None else HOST_ACTIVITIES
    activity = 0 if host is None else main_activity(gaps, host)
    for code, figures, longest in _by_code(gaps, gaps.cause * len(names) + activity):
        cause, doing = divmod(code, len(names))
        gap = Gap(place["rank"], place["span"], int(gaps.start[longest]), int(gaps.end[longest]))
        yield place | {"cause": CAUSES[cause], "host": names[doing]} | figures, gap


def _stream_rows(work: Columns, kernel_wait_ns: int, steps: Columns | None) -> Iterator[Row]:
    from stepscope.analysis.recording import groups
    from stepscope.analysis.steps.gaps import CAUSES, find_gaps

    for (stream,), of_stream in groups(work, "stream").items():
        gaps = find_gaps(of_stream, kernel_wait_ns, steps)
        for cause, figures, _ in _by_code(gaps, gaps.cause):
            yield {"stream": stream, "cause": CAUSES[cause]} | figures


def _by_code(gaps: Gaps, code: Any) -> list[tuple[int, Row, int]]:
    """Number, sum, share and longest of the gaps of each code, and which one is the longest; largest loss first."""
    import numpy as np

    length = gaps.length
    total_ns = int(length.sum())
    result = []
    for value in np.unique(code).tolist():
        of_code = np.flatnonzero(code == value)
        longest = int(of_code[length[of_code].argmax()])
        idle_ns = int(length[of_code].sum())
        figures = {
            "gaps": len(of_code),
            "idle_ns": idle_ns,
            "share_ratio": idle_ns / total_ns,
            "max_gap_ns": int(length[longest]),
        }
        result.append((value, figures, longest))
    return sorted(result, key=lambda item: -item[1]["idle_ns"])
