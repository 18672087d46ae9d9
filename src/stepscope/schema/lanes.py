"""The tables that the timeline is drawn from if there are too many events to lay them out when it is opened."""

from __future__ import annotations

from stepscope.schema.declare import SMALLINT, By, Role, table
from stepscope.schema.declare import SchemaColumn as Column
from stepscope.schema.declare import rank_column as _rank
from stepscope.schema.declare import span_column as _span

# fmt: off
_BLOCK = (
    Column("lane", Role.KEY, "lane among those for overlapping events, from 0", type=SMALLINT),
    Column("start_ns", Role.MOMENT, "when the first of them starts (ns)"),
    Column("end_ns", Role.MOMENT, "when the last of them ends (ns)"),
    Column("events", Role.COUNT, "number of events in it", check="events > 0"),
    Column("busy_ns", Role.DURATION, "their summed durations (ns)", check="busy_ns >= 0"),
    Column("bin_ns", Role.DURATION, "stretch of time within which shorter events were merged (ns)", check="bin_ns > 0"),
    Column("max_ns", Role.DURATION, "duration of the longest of them (ns)"),
    Column("name", Role.WORD, "its name"),
    Column("kind", Role.WORD, "its kind"),
)
LANE_TABLES = (
    table(
        "host_block", "One row is what the timeline draws on the lane of a depth of a thread when it shows a long time: a host event, or several that are too short to be seen alone. Only recordings of a million host events have rows.",
        _rank("rank it is drawn for"),
        _span("recording that the events are of"),
        Column("thread", Role.KEY, "their host thread"),
        Column("depth", Role.KEY, "how many host events enclose each of them", type=SMALLINT),
        *_BLOCK,
        Column("role", Role.WORD, "its role", nullable=True),
        Column("max_event_id", Role.EVENT, "number of the longest of them", of="host_event"),
        measures=None, by=By.STORE,
    ),
    table(
        "device_block", "One row is what the timeline draws on the lane of a stream when it shows a long time: a device event, or several that are too short to be seen alone. Only recordings of a million device events have rows.",
        _rank("rank it is drawn for"),
        _span("recording that the events are of"),
        Column("device", Role.KEY, "their device"),
        Column("stream", Role.NUMBER, "their stream"),
        *_BLOCK,
        Column("max_event_id", Role.EVENT, "number of the longest of them", of="device_event"),
        measures=None, by=By.STORE,
    ),
    table(
        "event_lane", "One row is an event that overlaps others of its depth on its thread, or of its stream, so that the timeline draws it on a further lane. Only recordings with rows in host_block or device_block have rows.",
        _rank("rank of the event"),
        _span("recording of the event"),
        Column("event_id", Role.EVENT, "the event", of="host_event", or_of="device_event"),
        Column("lane", Role.KEY, "which further lane, from 1", type=SMALLINT),
        measures=None, by=By.STORE,
    ),
)
