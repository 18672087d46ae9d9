"""Opens the small JSON documents that recorders leave at the end of a job.

They are read whole, unlike traces: a document that breaks off says nothing that can be relied on,
because what was measured lies in one object with its units and columns.
"""

from __future__ import annotations

import json
import math
from typing import Any

from stepscope.floor.errors import SourceError
from stepscope.formats.container import Member, strip_bom
from stepscope.formats.tables import Facts

LARGEST_BYTES = 1 << 28
"""A document is some 60 bytes per measurement; one of more than 256 MiB is none."""

MOST_NS = 1 << 62
NS_PER_MS = 1_000_000
_INT32 = 1 << 31

ERRORS = {
    "bad-inline-profile": (
        "A file of inline measurements or phases is not a complete JSON document. It was cut in "
        "copying or changed by hand; copy it again or record again."
    ),
    "nothing-measured": (
        "A file of inline measurements or phases is complete and holds no measurement. The job "
        "ended within the first steps, which do not count; let it run longer."
    ),
}


def load(member: Member) -> Any:
    """The document.

    Raises:
        SourceError: it cannot be opened, is too large, or is no JSON.
    """
    with member.open() as stream:
        text = stream.read(LARGEST_BYTES + 1)
    if len(text) > LARGEST_BYTES:
        raise _refused(member, f"larger than {LARGEST_BYTES >> 20} MiB")
    try:
        # NaN and Infinity, which Python's writer writes and JSON has not: no numbers.
        loaded = json.loads(strip_bom(text).decode("utf-8", errors="replace"), parse_constant=lambda _: None)
        return sound(loaded) if b"\\u" in text else loaded
    except (ValueError, RecursionError) as error:
        raise _refused(member, f"not a complete JSON document: {error}") from None


def sound(loaded: Any) -> Any:
    """The document with question marks for halves of characters, which JSON can hold (`"\\ud800"`)
    and no table can.
    """
    text = json.dumps(loaded, ensure_ascii=False)
    return json.loads(text.encode("utf-8", errors="replace"))


def _refused(member: Member, reason: str) -> SourceError:
    return SourceError(
        f"{member.label}: {reason}",
        hint="it was cut or changed after it was written; copy it again, or record again",
        slug="bad-inline-profile",
    )


def facts_of(document: Any, tool: str) -> Facts:
    """What a document says of the process that wrote it."""
    facts = Facts(tool=tool)
    if not isinstance(document, dict):
        return facts
    facts.rank = whole(document.get("rank"), below=_INT32)
    if facts.rank is not None:
        facts.rank_rule = "recorder"
    facts.world_size = whole(document.get("world_size"), below=_INT32)
    facts.local_rank = whole(document.get("local_rank"), below=_INT32)
    facts.pid = whole(document.get("pid"))
    facts.start_epoch_ns = whole(document.get("start_epoch_ns"))
    host = document.get("host_name")
    facts.host = host if isinstance(host, str) else None
    version = document.get("version")
    # Of the file's form, and not the program's.
    facts.tool_version = f"file version {version}" if isinstance(version, int | str) else None
    return facts


def whole(value: Any, *, below: int = MOST_NS) -> int | None:
    """A whole number of at least 0, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < below:
        return None
    return value


def index(value: Any) -> int | None:
    """A number that may be below 0 (HugeCTR's and ours for "the host"), of 32 bits; or None."""
    if isinstance(value, bool) or not isinstance(value, int) or not -_INT32 <= value < _INT32:
        return None
    return value


def number(value: Any) -> float | None:
    """A finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def milliseconds(value: Any) -> int | None:
    """Milliseconds as whole ns; None where there is no number, or none that fits."""
    found = number(value)
    if found is None or not abs(found) * NS_PER_MS < MOST_NS:
        return None
    return round(found * NS_PER_MS)
