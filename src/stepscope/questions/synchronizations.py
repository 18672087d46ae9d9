"""`synchronizations`: waits that the recorder shows on the device, and who waited for whom."""

from __future__ import annotations

from stepscope.formats.evidence import DEVICE_WORK
from stepscope.query.declare import DEVICE, RANK, Column, question
from stepscope.query.rows import ArrowTable
from stepscope.query.scope import Scope


@question(
    "synchronizations",
    "Which streams waited for which, and how often did the host wait for the device?",
    (
        RANK,
        DEVICE,
        Column("kind", "text", "Stream Wait Event, Event Sync, Stream Sync, Context Sync, ..."),
        Column("waits", "text", "host for device (all streams), for stream or for event; stream for event"),
        Column("stream", "int", "stream that waited, or was waited for; empty where it is all or none"),
        Column("on_stream", "int", "stream that recorded the event which was waited for"),
        Column("count", "int", "number of waits", "count"),
        Column("total_ns", "int", "summed duration"),
        Column("mean_ns", "float", "mean duration"),
        Column("max_ns", "int", "longest duration"),
    ),
    group="operators and kernels",
    rests_on=DEVICE_WORK,
    about="events",
    needs="device",
    fills="torch.profiler records synchronisations with experimental_config="
    "torch.profiler._ExperimentalConfig(enable_cuda_sync_events=True).",
)
def synchronizations(scope: Scope) -> ArrowTable:
    """Synchronisations as CUPTI records them, those with the largest summed duration of a rank first.

    * **Stream Wait Event** (stream for event): work on `stream` waits for the event that was recorded on `on_stream`.
      The device waits, not the host; the duration is that of the request.
    * **Event Sync** (host for event): the host waits for an event recorded on `on_stream`.
    * **Stream Sync** (host for stream): the host waits for all work on `stream`.
    * **Context Sync** (host for device): the host waits for all work of the device, on all streams.
    * What other devices queue to order streams (`event_wait` of MTIA, `NOTIFY_WAIT` of Ascend, barriers and markers of
      HIP and Level Zero) under its own name: its time is that in which the stream waited. Events that only mark a
      moment have no `waits`.

    Waits are not work: no other answer counts them as such. `findings` judges the time that the host waits by the calls
    themselves (`cudaStreamSynchronize`, ...).
    """
    return scope.sql(
        """
        SELECT rank, device, name AS kind, role AS waits, nullif(stream, -1) AS stream, wait_on_stream AS on_stream, count(*) AS count,
            sum(dur_ns)::BIGINT AS total_ns, avg(dur_ns) AS mean_ns, max(dur_ns) AS max_ns
        FROM device_event WHERE kind = 'sync'
        GROUP BY rank, device, name, role, device_event.stream, wait_on_stream
        ORDER BY rank, total_ns DESC, device, name, device_event.stream, wait_on_stream
        """
    )
