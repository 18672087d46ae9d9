"""What the store has about one event, and which other events belong to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.base.errors import UsageError
from stepscope.schema.declare import Role
from stepscope.schema.tables import TABLES
from stepscope.store.write import SPAN_IDS

if TYPE_CHECKING:
    from stepscope.query.scope import Scope
    from stepscope.schema.declare import SchemaColumn
    from stepscope.timeline.recording import Timeline
    from stepscope.timeline.tracks import Track

ERRORS = {"no-such-event": "The timeline was asked about an event that the recording does not have."}

MAX_LINKS = 50
"""Events of one relation that are listed; for more, only their number is given."""


def _columns(table: str, *hidden: str) -> tuple[str, ...]:
    return tuple(name for name in TABLES[table].column_names if name not in ("rank", "span", *hidden))


_JOINED = {
    "module": ("module_id", ("path", "class")),
    "operator_input": ("input_id", _columns("operator_input", "input_id")),
    "call_stack": ("stack_id", _columns("call_stack", "stack_id")),
    "kernel_source": ("kernel_source_id", _columns("kernel_source", "kernel_source_id")),
}
"""Tables that events refer to by number, and the columns shown instead of the number."""
_COLLECTIVE = _columns(
    "collective", "id", "host_id", "start_ns", "end_ns", "communicator", "sent", "received", "match_rule",
    "match_confidence",
)  # fmt: skip
_HIDDEN = {"rank", "span", "id", "name", "parent_id", "launch_id", "operator_id", "forward_id", "captured_id"}
"""Columns that an event's title or links already show."""
_UNITS = {Role.MOMENT: "moment", Role.DURATION: "ns", Role.BYTES: "bytes"}


def _joined(table: str) -> list[str]:
    names = {column.name for column in TABLES[table].columns}
    return [other for other, (key, _) in _JOINED.items() if key in names]


def details_query(table: str) -> str:
    """SQL: everything that the store has about events of `host_event` or `device_event`, as `e`, in columns
    `table.column`."""
    selected = [f'e.{column.quoted} AS "{table}.{column.name}"' for column in TABLES[table].columns]
    joins = []
    for other in _joined(table):
        key, columns = _JOINED[other]
        selected += [f'{other}."{column}" AS "{other}.{column}"' for column in columns]
        joins.append(f"LEFT JOIN {other} ON ({other}.rank, {other}.span, {other}.{key}) = (e.rank, e.span, e.{key})")
    selected += [f'c."{column}" AS "collective.{column}"' for column in _COLLECTIVE]
    key, only = ("id", "") if table == "device_event" else ("host_id", " AND c.id IS NULL")
    joins.append(f"LEFT JOIN collective AS c ON (c.rank, c.{key}) = (e.rank, e.id){only}")
    return f"SELECT {', '.join(selected)} FROM {table} AS e {' '.join(joins)}"


def described(table: str) -> list[dict[str, Any]]:
    """The columns of `details_query` that become fields: `name`, `title`, `unit` and `meaning`."""
    hidden = _HIDDEN | {key for key, _ in _JOINED.values()}
    parts = [(table, [column.name for column in TABLES[table].columns if column.name not in hidden])]
    parts += [(other, list(_JOINED[other][1])) for other in _joined(table)]
    fields = []
    for of, names in [*parts, ("collective", list(_COLLECTIVE))]:
        declared = {column.name: column for column in TABLES[of].columns}
        prefix = "" if of == table else f"{_TITLES.get(of, of)} "
        fields += [{"name": f"{of}.{name}", **_field(declared[name], prefix)} for name in names]
    return fields


def _field(column: SchemaColumn, prefix: str = "") -> dict[str, str]:
    unit = "ratio" if column.name.endswith("_ratio") else _UNITS.get(column.role, "")
    return {"title": prefix + _title(column), "unit": unit, "meaning": column.meaning}


def _title(column: SchemaColumn) -> str:
    words = column.name.removesuffix("_ns").removesuffix("_ratio").replace("_", " ")
    if column.role is Role.DURATION:
        return words.replace("dur", "duration") if words.endswith("dur") else f"{words} time"
    return words


_TITLES = {"operator_input": "input", "call_stack": "call stack", "kernel_source": "generated code"}


def details(timeline: Timeline, track: Track, event: int) -> dict[str, Any]:
    """The details of an event, by its number in tiles.

    Returns:
        `name` in full, its `place`, `table`, `fields` (`title`, `value`, `unit`, `meaning`) that were measured, and
        `links`: `relation`, `total`, and up to `MAX_LINKS` `places`.

    Raises:
        UsageError: there is no such event.
    """
    rank, place = track.rank, timeline.place(track, event)
    place_json = None if place is None else place.as_json()
    if place is not None and track.kind in ("overlap", "modules"):
        duration = {
            "title": "duration", "value": place.end_ns - place.start_ns, "unit": "ns", "meaning": "duration (ns)",
        }  # fmt: skip
        return {"name": place.name, "place": place_json, "table": "", "fields": [duration], "links": []}
    with timeline.scope() as scope:
        if track.kind == "steps":
            return {**_step(scope, rank, event), "place": place_json}
        for table in ("device_event", "host_event"):
            rows = scope.sql(f"{details_query(table)} WHERE e.rank = $1 AND e.id = $2", [rank, event]).to_pylist()
            if not rows:
                continue
            row = rows[0]
            fields = [
                {**{key: column[key] for key in ("title", "unit", "meaning")}, "value": row[column["name"]]}
                for column in described(table)
                if row[column["name"]] is not None
            ]
            if table == "device_event":
                fields += _metrics(scope, rank, event)
            related = _related(scope, table, rank, row)
            links = []
            for relation, ids in related:
                places = timeline.locate(rank, ids[:MAX_LINKS])
                if places:
                    listed = [column.as_json() for column in places]
                    links.append({"relation": relation, "total": len(ids), "places": listed})
            name = row[f"{table}.name"]
            return {
                "name": name, "place": place_json, "table": table, "fields": fields, "links": links,
            }  # fmt: skip
    raise UsageError(
        f"the recording has no event {event} on rank {rank}",
        hint="its number is in the column id of host_event or device_event",
        slug="no-such-event",
    )


def _step(scope: Scope, rank: int, event: int) -> dict[str, Any]:
    rows = scope.sql(
        "SELECT * FROM step WHERE rank = $1 AND span = $2 AND step = $3", [rank, event // SPAN_IDS, event % SPAN_IDS]
    ).to_pylist()
    if not rows:
        raise UsageError("there is no such step", hint="its number is in the table step", slug="no-such-event")
    fields = [
        {**_field(column), "value": rows[0][column.name]}
        for column in TABLES["step"].columns
        if rows[0][column.name] is not None and column.name not in ("rank", "name")
    ]  # fmt: skip
    return {"name": rows[0]["name"], "table": "step", "fields": fields, "links": []}


def _metrics(scope: Scope, rank: int, event: int) -> list[dict[str, Any]]:
    rows = scope.sql(
        "SELECT metric, value, unit, tool FROM kernel_metric WHERE rank = $1 AND id = $2 "
        "AND value IS NOT NULL ORDER BY metric",
        [rank, event],
    ).to_pylist()
    return [
        {"title": f"{row['metric']} ({row['unit']})" if row["unit"] else row["metric"],
         "value": row["value"], "unit": "", "meaning": f"a metric that {row['tool']} measured"}
        for row in rows
    ]  # fmt: skip


def _related(scope: Scope, table: str, rank: int, row: dict[str, Any]) -> list[tuple[str, list[int]]]:
    """How other events belong to this one, with their numbers by time."""
    event = row[f"{table}.id"]

    def named(column: str) -> list[int]:
        value = row[f"{table}.{column}"]
        return [] if value is None else [value]

    def those(query: str) -> list[int]:
        return scope.sql(query, [rank, event]).column("id").to_pylist()

    if table == "device_event":
        return [("launched by", named("launch_id")), ("operator", named("operator_id"))]
    launched = those(
        "SELECT id FROM device_event WHERE rank = $1 AND $2 IN (launch_id, operator_id) ORDER BY start_ns, id"
    )
    backward = those(
        "SELECT e.id FROM host_event AS e LEFT JOIN host_event AS above "
        "ON (above.rank, above.id) = (e.rank, e.parent_id) WHERE e.rank = $1 AND e.forward_id = $2 "
        "AND above.forward_id IS DISTINCT FROM e.forward_id ORDER BY e.start_ns, e.id"
    )
    return [
        ("launched", launched),
        ("forward", named("forward_id")),
        ("backward", backward),
        ("called by", named("parent_id")),
    ]
