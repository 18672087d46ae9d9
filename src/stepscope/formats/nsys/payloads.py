"""What programs attach to their NVTX ranges: a number, JSON, or a structure whose layout they registered.

A structure is bytes: a header of 32 (domain, layout, sizes), and the fields at the offsets in
`NVTX_PAYLOAD_SCHEMA_ENTRIES`. From version 2.15 on NCCL passes its communicator and the size of the message this way
(`src/include/nvtx_payload_schemas.h`).
"""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

import pyarrow as pa

from stepscope.formats.cupti.columns import mapped_rows
from stepscope.formats.sqlite import Database, Only
from stepscope.formats.tables import from_rows

_NUMBERS = ("uint64Value", "int64Value", "uint32Value", "int32Value")
COLUMNS = (*_NUMBERS, "doubleValue", "floatValue", "jsonText", "jsonTextId", "binaryData")
TYPES = {"doubleValue": "number", "floatValue": "number", "jsonText": "text", "jsonTextId": "name", "binaryData": "hex"}
_HEADER = struct.Struct("<IIIIQQ")
_LAYOUTS = {
    1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "q", 8: "Q", 9: "q", 10: "Q", 11: "b", 12: "B",
    13: "h", 14: "H", 15: "i", 16: "I", 17: "q", 18: "Q", 19: "f", 20: "d", 22: "Q", 23: "Q",
}  # fmt: skip
"""Numbers of field types in nvToolsExtPayload.h, on 64-bit Linux, with their `struct` formats."""
_OF_PROGRAMS = 1 << 24
"""Numbers from here on are the program's own types: enumerations, which C stores in an int."""
_COMMUNICATOR, _SIZE, _RANKS = "NCCL communicator ID", "Message size [bytes]", "No. of ranks"
MAX_NUMBERS = 1 << 16
"""Distinct payloads that are kept: a counter in a million ranges would make a million texts."""


_MAX_FIELDS = 64


class _Field(NamedTuple):
    name: str
    layout: struct.Struct
    offset: int
    words: dict[int, str]


class Payloads:
    """The payloads of a file's ranges, as JSON objects."""

    def __init__(self, database: Database, table: str, only: Only | None) -> None:
        self.columns = tuple(database.filled(table, COLUMNS, only))
        """Columns that have a value in any of these rows."""
        self._fields = _layouts(database) if "binaryData" in self.columns else {}

    def of(self, rows: pa.Table) -> pa.DictionaryArray | None:
        """The payload of each row; NULL if it has none. None if no row of the table has any."""
        if not self.columns:
            return None
        given = {
            name: rows[name].cast(pa.string()) if TYPES.get(name) == "name" else rows[name] for name in self.columns
        }
        return mapped_rows(given, self._text)

    def _text(self, row: dict[str, Any]) -> str | None:
        fields: dict[str, Any] = {}
        for name in self.columns:
            value = row[name]
            if value is None:
                continue
            if name == "binaryData":
                fields |= self._structure(value)
            elif name.startswith("json"):
                fields["payload"] = _json(value)
            else:
                fields["payload"] = value
        return json.dumps(fields) if fields else None

    def _structure(self, digits: str) -> dict[str, Any]:
        try:
            data = bytes.fromhex(digits)
            domain, _, schema, _, size, total = _HEADER.unpack_from(data)
        except (ValueError, struct.error):
            return {}
        if total != len(data) or size > total - _HEADER.size:
            return {}
        fields: dict[str, Any] = {}
        for field in self._fields.get((domain, schema), ()):
            if field.offset + field.layout.size <= size:
                (value,) = field.layout.unpack_from(data, _HEADER.size + field.offset)
                fields[field.name] = field.words.get(value, value)
        return fields


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _layouts(database: Database) -> dict[tuple[int, int], list[_Field]]:
    """The fields of each structure, by domain and number."""
    words: dict[tuple[int, int], dict[int, str]] = {}
    for domain, number, name, value in database.rows(
        "NVTX_PAYLOAD_ENUM_ENTRIES", ("domainId", "enumId", "name", "value"), name="text"
    ):
        if None not in (domain, number, name, value):
            words.setdefault((domain, number), {})[value] = name
    layouts: dict[tuple[int, int], list[_Field]] = {}
    columns = ("domainId", "schemaId", "type", "name", "offset")
    listed = database.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", columns, name="text")
    # The first field of a structure has no offset; processes repeat one another's layouts.
    for domain, schema, kind, name, offset in listed:
        layout = _LAYOUTS.get(kind, "i" if kind is not None and kind >= _OF_PROGRAMS else "")
        if domain is None or schema is None or not layout or not name or (offset or 0) < 0:
            continue
        of_kind = words.get((domain, kind), {})
        field = _Field(name, struct.Struct(f"<{layout}"), offset or 0, of_kind)
        fields = layouts.setdefault((domain, schema), [])
        if len(fields) < _MAX_FIELDS and not any(other[0] == name for other in fields):
            fields.append(field)
    return layouts


class Messages:
    """Arguments of collectives, as rows of `collective_args`."""

    def __init__(self) -> None:
        self._ranks: dict[str | None, int] = {}
        self._numbers: dict[tuple[str | None, int | None], int] = {}

    def number(self, payload: dict[str, Any]) -> int | None:
        """The row for NCCL's payload; None if it is not a collective's."""
        communicator, size = payload.get(_COMMUNICATOR), payload.get(_SIZE)
        if not isinstance(communicator, int):
            return None
        named = f"0x{communicator:x}"
        self.size(named, payload.get(_RANKS))
        return self.stated(named, size) if isinstance(size, int) else None

    def size(self, communicator: str, ranks: object) -> None:
        """Records how many ranks a communicator has, if `ranks` is a possible number."""
        if isinstance(ranks, int) and 0 < ranks < 1 << 31:
            self._ranks[communicator] = ranks

    def stated(self, communicator: str | None, size: int | None) -> int | None:
        """The row for a message of `size` bytes in a communicator; None for an impossible size, or beyond `MOST`."""
        key = communicator, size
        impossible = size is not None and not 0 <= size < 1 << 56
        if impossible or (len(self._numbers) >= MAX_NUMBERS and key not in self._numbers):
            return None
        return self._numbers.setdefault(key, len(self._numbers))

    def table(self) -> pa.Table:
        """The rows."""
        rows = (
            {"communicator": communicator, "group_size": self._ranks.get(communicator), "message_bytes": size}
            for communicator, size in self._numbers
        )
        return from_rows("collective_args", rows)
