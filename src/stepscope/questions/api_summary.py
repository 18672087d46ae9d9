"""`api-summary`: host time in calls to the device's runtime and driver."""

from __future__ import annotations

from stepscope.query.declare import Column, question
from stepscope.query.durations import STATISTICS, statistics
from stepscope.query.rows import ArrowTable
from stepscope.query.scope import Scope


@question(
    "api-summary",
    "How long did each call to the device's runtime and driver take on the host?",
    (
        Column("name", "text", "name of the call"),
        Column("api", "text", "cuda_runtime, cuda_driver, ..., as Kineto spells it", visible=False),
        *statistics("calls"),
    ),
    group="operators and kernels",
    rests_on=("host-times",),
    about="events",
    fills="Record with nvprof, with nsys --trace=cuda, or with torch.profiler.ProfilerActivity.CUDA.",
)
def api_summary(scope: Scope) -> ArrowTable:
    """Every call to the runtime and the driver that the recording has, of all requested ranks and threads together, the
    largest summed duration first. It is the part `API calls` of nvprof's summary, and `cuda_api_sum` of `nsys stats`
    (`cudaapisum` until 2022); `share_ratio` is their `Time (%)`, a share of the time of all listed calls.

    A call's duration is the host's: one that launches work returns before the work is done, and one that waits lasts as
    long as the device does. A driver call made by a runtime call counts in both rows if both were recorded. `launches`
    shows how long launches take until their kernels are done. Kineto records the calls that have to do with device
    work, and only if it recorded the device; nvprof and Nsight Systems record all of them.
    """
    return scope.sql(
        f"""
        SELECT name, category AS api, {STATISTICS}
        FROM host_event WHERE kind = 'runtime'
        GROUP BY name, category ORDER BY total_ns DESC, name, api
        """
    )
