"""SQL that writes the tables as events of the Trace Event format, one text per row, as Kineto does.

The queries read `export.host` and `export.device`, which place each event of one rank (`id`, `seq` in file order, `pid`
and `tid` as JSON, `start_ns`), and take the parameters `$rank`, `$first` and `$last` (of `seq`), and `$shift`, which is
added to times.
"""

from __future__ import annotations

from stepscope.formats import vocabulary
from stepscope.formats.kineto.fields import FIELDS, SIZES, Field
from stepscope.schema.tables import TABLES


def microseconds(time: str) -> str:
    """SQL: a non-negative time in ns as microseconds with all its digits."""
    return f"(({time}) // 1000) || '.' || lpad((({time}) % 1000)::VARCHAR, 3, '0')"


def _object(values: dict[str, str], further: tuple[str, ...] = ()) -> str:
    """SQL: a JSON object of JSON values, without those that are NULL."""
    members = [f"'\"{name}\":' || ({value})" for name, value in values.items()]
    return f"'{{' || concat_ws(',', {', '.join((*members, *further))}) || '}}'"


def _text(column: str) -> str:
    return f"to_json({column})::VARCHAR"


def _json(column: str) -> str:
    """SQL: a text that should be JSON; if it is not, it becomes a JSON string."""
    return f"CASE WHEN json_valid({column}) THEN {column} ELSE to_json({column})::VARCHAR END"


def _number(column: str) -> str:
    return f"CASE WHEN isfinite({column}) THEN {column} END"


def _members(column: str) -> str:
    """SQL: the members of a text that is a JSON object; NULL if it is not or is empty."""
    inside = f"trim(substr(trim({column}), 2, length(trim({column})) - 2))"
    valid = f"json_valid({column}) AND json_type({column}) = 'OBJECT' AND {inside} <> ''"
    return f"CASE WHEN {valid} THEN {inside} END"


_CATEGORY = f"CASE WHEN e.category = 'none' THEN '' ELSE '\"cat\":' || {_text('e.category')} || ',' END"
_EVENT = " || ".join(
    (
        """',{"ph":"X",'""",
        _CATEGORY,
        f"""'"name":' || {_text("e.name")}""",
        """',"pid":' || place.pid || ',"tid":' || place.tid""",
        f"""',"ts":' || {microseconds("e.start_ns + $shift")}""",
        f"""',"dur":' || {microseconds("e.dur_ns")}""",
        """',"args":'""",
    )
)

_OURS = {"step": "e.step", "module": _text("module.path"), "direction": _text("e.direction")}
_LINKS = f"nullif({_object(_OURS)}, '{{}}')"
_REPLAYED = {"operator": f"CASE WHEN e.captured_id IS NOT NULL THEN {_text('e.operator_name')} END"}
"""The operator of replayed work did not run during the recording, so no slice of the file shows it."""
_DEVICE_LINKS = f"nullif({_object(_OURS | _REPLAYED)}, '{{}}')"


def _exported(alias: str, table: str, stored_in: str = "") -> dict[str, str]:
    """SQL of the arguments that a table's columns are read from, as far as the store has them.

    Args:
        table: the table whose columns name their arguments.
        stored_in: the table of the store that has these columns, if it is another one.
    """
    stored = TABLES[stored_in or table].column_names
    return {
        field.argument: _as_argument(f"{alias}.{field.column.quoted}", field)
        for field in FIELDS[table]
        if field.column.name in stored
    }


def _as_argument(column: str, field: Field) -> str:
    """SQL: a column's value as the JSON that Kineto writes."""
    kind = field.column.sql_type
    if kind == "VARCHAR":
        return _json(column) if field.column.is_json else _text(column)
    if kind == "BOOLEAN":
        return f"{column}::INTEGER"
    if kind == "DOUBLE":
        return _number(f"{column} * 100" if field.percent else column)
    return column


_HOST_ARGS = (
    _exported("e", "host_event")
    | _exported("input", "operator_input")
    | _exported("stack", "call_stack")
    | _exported("source", "kernel_source")
)
_DEVICE_ARGS = (
    _exported("e", "device_event")
    | {name: f"'[' || e.{name}_x || ',' || e.{name}_y || ',' || e.{name}_z || ']'" for name in SIZES}
    | _exported("c", "collective_args", "collective")
)
_EXTRAS = (_members("e.other_args"),)
_IN_CHUNK = "e.rank = $rank AND place.seq >= $first AND place.seq < $last"
_MODULE = """
    LEFT JOIN module ON (module.rank, module.span, module.module_id) = (e.rank, e.span, e.module_id)
"""

OURS = "stepscope"  # the argument that contains what StepScope found out about an event
HOST_EVENTS = f"""
    SELECT {_EVENT} || {_object({**_HOST_ARGS, OURS: _LINKS}, _EXTRAS)} || '}}\n' AS text
    FROM host_event AS e JOIN export.host AS place ON place.id = e.id {_MODULE}
    LEFT JOIN operator_input AS input
        ON (input.rank, input.span, input.input_id) = (e.rank, e.span, e.input_id)
    LEFT JOIN call_stack AS stack
        ON (stack.rank, stack.span, stack.stack_id) = (e.rank, e.span, e.stack_id)
    LEFT JOIN kernel_source AS source
        ON (source.rank, source.span, source.kernel_source_id) = (e.rank, e.span, e.kernel_source_id)
    WHERE {_IN_CHUNK} ORDER BY place.seq
"""

DEVICE_EVENTS = f"""
    SELECT {_EVENT} || {_object({**_DEVICE_ARGS, OURS: _DEVICE_LINKS}, _EXTRAS)} || '}}\n' AS text
    FROM device_event AS e JOIN export.device AS place ON place.id = e.id {_MODULE}
    LEFT JOIN (SELECT * FROM collective WHERE rank = $rank) AS c ON c.id = e.id
    WHERE {_IN_CHUNK} ORDER BY place.seq
"""


_ENCLOSED = ',"bp":"e"'  # binds the end of an arrow to the slice around it


def _end(phase: str, category: str, place: str, more: str = "") -> str:
    """SQL: one end of an arrow at an event; the arrow gets a new number in the file."""
    return f"""
        concat(',{{"ph":"{phase}"{more},"cat":"{category}","name":"{category}","id":', $number + place.seq,
            ',"pid":', {place}.pid, ',"tid":', {place}.tid, ',"ts":',
            {microseconds(f"{place}.start_ns + $shift")}, '}}\n')
    """


def _arrow(category: str) -> str:
    """SQL: an arrow from the start of `origin` to the start of `place`."""
    return f"{_end('s', category, 'origin')} || {_end('f', category, 'place', _ENCLOSED)}"


LAUNCH_ARROWS = f"""
    SELECT {_arrow("ac2g")} AS text
    FROM device_event AS e JOIN export.device AS place ON place.id = e.id
    JOIN export.host AS origin ON origin.id = e.launch_id
    WHERE {_IN_CHUNK} ORDER BY place.seq
"""
"""From each launch to its device work; also takes `$number`, the number of arrows before."""

BACKWARD_ARROWS = f"""
    SELECT {_arrow("fwdbwd")} AS text
    FROM host_event AS e JOIN export.host AS place ON place.id = e.id
    JOIN export.host AS origin ON origin.id = e.forward_id
    LEFT JOIN host_event AS above ON (above.rank, above.id) = (e.rank, e.parent_id)
    WHERE {_IN_CHUNK} AND above.forward_id IS DISTINCT FROM e.forward_id ORDER BY place.seq
"""
"""From each forward operator to the outermost event of its backward; also takes `$number`."""

MEMORY = f"""
    SELECT concat(',{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"{vocabulary.MEMORY_INSTANT}","pid":',
        track.pid, ',"tid":', track.tid, ',"ts":', {microseconds("e.time_ns + $shift")}, ',"args":',
        {
    _object(
        {
            **_exported("e", "memory_event"),
            "Device Type": "kind.code",
            "Device Id": "coalesce(e.device, -1)",
        }
    )
}, '}}\n') AS text
    FROM memory_event AS e
    JOIN export.thread AS track ON (track.span, track.thread) IS NOT DISTINCT FROM (e.span, e.thread)
    JOIN export.kind AS kind ON kind.name = e.device_kind
    WHERE e.rank = $rank ORDER BY e.time_ns
"""
"""Allocations and releases; reads `export.thread` and `export.kind`, the codes of kinds of devices."""

INSTANTS = f"""
    SELECT concat(',{{"ph":"i","s":"t",', CASE WHEN e.category IS NOT NULL
            THEN concat('"cat":', {_text("e.category")}, ',') END,
        '"name":', {_text("e.name")}, ',"pid":', track.pid, ',"tid":', track.tid, ',"ts":',
        {microseconds("e.time_ns + $shift")}, ',"args":{{', {_EXTRAS[0].replace("other_args", "args")}, '}}}}\n') AS text
    FROM instant AS e JOIN export.spelled AS track ON (track.spelled_pid, track.spelled_tid) = (e.pid, e.tid)
    WHERE e.rank = $rank ORDER BY e.time_ns
"""
"""Events without a duration; reads `export.spelled`, the tracks by their recorded ids."""

COUNTERS = f"""
    SELECT concat(',{{"ph":"C","name":', {_text("e.track")}, ',"pid":', process.pid, ',"ts":',
        {microseconds("e.time_ns + $shift")}, ',"args":{{', {_text("e.series")}, ':',
        coalesce(({_number("e.value")})::VARCHAR, 'null'), '}}}}\n') AS text
    FROM counter AS e JOIN export.process AS process ON process.spelled = coalesce(e.pid, '')
    WHERE e.rank = $rank ORDER BY e.track, e.series, e.time_ns
"""
"""Recorded counters; reads `export.process`, the processes by their recorded ids."""


def added_slice(query: str, pid: str, tid: str) -> str:
    """SQL: the slices of a query of `added_tracks` for the track `$track`."""
    return f"""
        SELECT concat(',{{"ph":"X","cat":"{vocabulary.EXPORTED_TRACKS}","name":', {_text("name")},
            ',"pid":{pid},"tid":{tid},"ts":', {microseconds("start_ns + $shift")}, ',"dur":',
            {microseconds("dur_ns")}, ',"args":', args, '}}\n') AS text
        FROM ({query}) WHERE track = $track
    """


def added_counter(query: str, pid: str) -> str:
    """SQL: the counters of a query of `added_tracks`."""
    return f"""
        SELECT concat(',{{"ph":"C","cat":"{vocabulary.EXPORTED_TRACKS}","name":', {_text("track")},
            ',"pid":{pid},"ts":', {microseconds("start_ns + $shift")}, ',"args":{{"', name, '":', value,
            '}}}}\n') AS text
        FROM ({query})
    """
