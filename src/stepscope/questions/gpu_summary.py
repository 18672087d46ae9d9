"""`gpu-summary`: the device's time in one table of kernels, copies and fills."""

from __future__ import annotations

from stepscope.formats.evidence import DEVICE_WORK
from stepscope.query.declare import Column, by_form, question
from stepscope.query.durations import STATISTICS, statistics
from stepscope.query.rows import ArrowTable
from stepscope.query.scope import Scope
from stepscope.schema.device_work import WORK

_KEYS = {"name": "operation, name", "operation": "operation"}


@question(
    "gpu-summary",
    "How long did kernels, copies and fills take, as in nvprof and nsys stats?",
    (
        Column("name", "text", "name of the kernel; Memcpy with its direction, Memset", kernels=True),
        Column("operation", "text", "computation, communication, copy with its direction, or fill"),
        *statistics("kernels, copies and fills"),
    ),
    group="operators and kernels",
    rests_on=DEVICE_WORK,
    about="events",
    parameters=(by_form("what a row is: a name, or an operation", *_KEYS),),
    needs="device",
    fills="Record with nvprof, with nsys --trace=cuda, or with torch.profiler.ProfilerActivity.CUDA.",
)
def gpu_summary(scope: Scope, by: str = "name") -> ArrowTable:
    """Everything that the devices did, of all requested ranks together, the largest summed duration first. It is the
    part `GPU activities` of nvprof's summary, and `cuda_gpu_sum` of `nsys stats` (`gpusum` until 2022): their `Time
    (%)` is `share_ratio`, a share of the time of all rows and never of wall time.

    Kernels are separated by their names with all parameters, copies by their direction. `kernels` has more about
    kernels (operators, launch shapes, occupancy, tensor cores), `copies` about copies (sizes, bandwidth, host memory),
    and `gpu-trace` each single one. A CUDA graph that was recorded as one event is one row here.
    """
    keys = _KEYS[by]
    return scope.sql(
        f"""
        SELECT {keys}, {STATISTICS}
        FROM (
            SELECT dur_ns, CASE kind WHEN 'copy' THEN 'copy ' || coalesce(copy_kind, 'unknown') ELSE kind END AS operation,
                CASE kind WHEN 'copy' THEN 'Memcpy ' || coalesce(copy_kind, 'unknown')
                    WHEN 'fill' THEN 'Memset' ELSE name END AS name
            FROM device_event WHERE {WORK}
        )
        GROUP BY {keys} ORDER BY total_ns DESC, {keys}
        """
    )
