"""Peak operations and bandwidths of devices by name, with their sources (`hardware.toml`).

A user's file of the same form comes first, rows of plug-ins last. A device that no row matches has no known peak.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stepscope.base.errors import UsageError
from stepscope.base.plugins import load
from stepscope.costs.dtype import SIZES
from stepscope.costs.work import Unit

_TYPES = frozenset(SIZES) | {"tf32"}
_KEYS = frozenset((
    "name", "match", "unless", "generation", "sm_count", "vector", "matrix", "memory_gb_per_s", "cache_mb",
    "link_gb_per_s", "host_gb_per_s", "source",
))  # fmt: skip
_WORD = re.compile(r"[a-z0-9]+")

ERRORS = {
    "hardware-file": (
        "The file that describes devices and their limits cannot be used. It is TOML with "
        "`[[device]]` rows, like the one that StepScope brings along."
    )
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one device, per second.

    Args:
        name, source: of the row; the datasheet or measurement behind it.
        vector, matrix: peak operations without and with tensor cores (dense), by element type.
        memory_bytes_per_s: bandwidth of its memory.
        cache_bytes: size of the last cache before it.
        link_bytes_per_s, host_bytes_per_s: of its links to other devices and to the host, in one direction.
        sm_count: multiprocessors of the full device.
        match, unless: word sequences, one of which its name contains; words that it must not contain.
        generation: of its tensor-core instructions, `Hopper`.
    """

    name: str
    source: str
    vector: Mapping[str, int]
    matrix: Mapping[str, int]
    memory_bytes_per_s: int | None
    cache_bytes: int | None = None
    link_bytes_per_s: int | None = None
    host_bytes_per_s: int | None = None
    sm_count: int | None = None
    match: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    generation: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether any limit is known; false for rows that only state the generation."""
        return bool(self.vector or self.matrix or self.memory_bytes_per_s)

    def is_named(self, name: str | None) -> bool:
        """Whether a name that a driver reports contains one of the word sequences."""
        return _holds(name, self.match)

    def peak(self, dtype: str | None, unit: Unit) -> int | None:
        """Peak operations per second, None if unknown; matrix work in an unsupported type runs on the vector units."""
        if dtype is None:
            return None
        if unit == "matrix" and dtype in self.matrix:
            return self.matrix[dtype]
        return self.vector.get(dtype)


def _tera(table: Any, where: str) -> MappingProxyType[str, int]:
    if not isinstance(table, dict):
        raise _wrong(where, "is not a table of element types")
    result = {}
    for dtype, value in table.items():
        if dtype not in _TYPES:
            raise _wrong(where, f"names an unknown element type {dtype!r}")
        result[dtype] = round(_positive(value, f"{where}.{dtype}") * 1e12)
    return MappingProxyType(result)


def _positive(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
        raise _wrong(where, "is not a positive number")
    return float(value)


def _wrong(where: str, what: str) -> UsageError:
    return UsageError(
        f"the hardware file is wrong: {where} {what}",
        hint="compare it with the rows that StepScope brings along (costs/hardware.toml)",
        slug="hardware-file",
    )


def _words(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(where, "is not a list of texts")
    return tuple(" ".join(_WORD.findall(item.lower())) for item in value)


def _bandwidth(row: dict[str, Any], key: str, where: str, *, directions: int) -> int | None:
    if key not in row:
        return None
    return round(_positive(row[key], f"{where}.{key}") * 1e9 / directions)


def _limits(row: Any, position: int, unless_any: tuple[str, ...]) -> Limits:
    if not isinstance(row, dict):
        raise _wrong(f"device {position + 1}", "is not a table")
    name = row.get("name")
    where = f"device {name!r}" if isinstance(name, str) else f"device {position + 1}"
    if unknown := sorted(set(row) - _KEYS):
        raise _wrong(where, f"has unknown entries: {', '.join(unknown)}")
    if not isinstance(name, str) or not isinstance(row.get("source"), str):
        raise _wrong(where, "needs a name and a source")
    if not isinstance(row.get("generation", ""), str):
        raise _wrong(f"{where}.generation", "is not text")
    match = _words(row.get("match", []), f"{where}.match")
    if not match or not all(match):
        raise _wrong(where, "needs at least one name to match")
    count = row.get("sm_count")
    if count is not None and (type(count) is not int or count < 1):
        raise _wrong(f"{where}.sm_count", "is not a positive integer")
    return Limits(
        name=name,
        source=row["source"],
        vector=_tera(row.get("vector", {}), f"{where}.vector"),
        matrix=_tera(row.get("matrix", {}), f"{where}.matrix"),
        memory_bytes_per_s=_bandwidth(row, "memory_gb_per_s", where, directions=1),
        cache_bytes=round(_positive(row["cache_mb"], f"{where}.cache_mb") * (1 << 20)) if "cache_mb" in row else None,
        link_bytes_per_s=_bandwidth(row, "link_gb_per_s", where, directions=2),
        host_bytes_per_s=_bandwidth(row, "host_gb_per_s", where, directions=2),
        sm_count=count,
        match=match,
        unless=_words(row.get("unless", []), f"{where}.unless") + unless_any,
        generation=row.get("generation"),
    )


@dataclass(frozen=True, slots=True)
class Hardware:
    """Devices in the order in which they are tried; `more` finds further ones if none matches."""

    devices: tuple[Limits, ...]
    more: Callable[[], tuple[Limits, ...]] = tuple

    def find(self, name: str | None, sm_count: int | None = None) -> Limits | None:
        """Finds a device's limits by its driver's name; another number of multiprocessors means another device. None if
        unknown.

        >>> builtin().find("NVIDIA H100 80GB HBM3").name
        'NVIDIA H100 SXM'
        >>> builtin().find("Some New Device") is None
        True
        """
        for device in self._in_order():
            if not device.is_known or not device.is_named(name) or _holds(name, device.unless):
                continue
            if sm_count is None or device.sm_count in (None, sm_count):
                return device
        return None

    def generation(self, name: str | None) -> str | None:
        """The generation of a device, of the device it is a part of, or of a related one; None if no row states it.

        >>> builtin().generation("NVIDIA A10G"), builtin().find("NVIDIA A10G")
        ('Ampere', None)
        """
        named = (limits.generation for limits in self._in_order() if limits.generation and limits.is_named(name))
        return next(named, None)

    def _in_order(self) -> Iterator[Limits]:
        yield from self.devices
        yield from self.more()


def _holds(name: str | None, sequences: tuple[str, ...]) -> bool:
    text = f" {' '.join(_WORD.findall((name or '').lower()))} "
    return any(f" {words} " in text for words in sequences)


def parse_hardware(text: str) -> Hardware:
    """Reads devices from TOML like `hardware.toml`; raises UsageError that names the row and the fault."""
    # Imported here: reading names of operators and kernels does not need it.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        content = toml.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong("it", f"is no TOML: {error}") from None
    if unknown := sorted(set(content) - {"device", "unless_any"}):
        raise _wrong("the file", f"has unknown entries: {', '.join(unknown)}")
    rows = content.get("device", [])
    if not isinstance(rows, list):
        raise _wrong("device", "is not a list of tables ([[device]])")
    unless_any = _words(content.get("unless_any", []), "unless_any")
    return Hardware(tuple(_limits(row, at, unless_any) for at, row in enumerate(rows)))


@lru_cache(maxsize=1)
def builtin() -> Hardware:
    """The devices that StepScope contains."""
    text = resources.files("stepscope.costs").joinpath("hardware.toml").read_text("utf-8")
    return parse_hardware(text)


def load_hardware(path: Path | str | None = None) -> Hardware:
    """The devices of the user's file, if given, of StepScope, then of plug-ins; raises UsageError for a wrong file."""
    if path is None:
        return Hardware(builtin().devices, more=_added)
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the hardware file {str(path)!r} cannot be read: {error}",
            hint="give the path of a TOML file with [[device]] rows",
            slug="hardware-file",
        ) from None
    return Hardware(parse_hardware(text).devices + builtin().devices, more=_added)


@lru_cache(maxsize=1)
def _added() -> tuple[Limits, ...]:
    taken = [device.name for device in builtin().devices]
    added = load("devices", Hardware, lambda rows: [row.name for row in rows.devices], taken)
    return tuple(device for _, rows in added for device in rows.devices)
