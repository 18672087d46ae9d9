"""Opens the small JSON documents that recorders leave at the end of a job.

Unlike traces they are read at once: nothing in a truncated document can be relied on, because the measurements are in
one object with their units and columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from stepscope.base.errors import SourceError
from stepscope.base.recorder_files import FILE_VERSIONS
from stepscope.formats.bounded import INT32, LIMIT, LONGEST, integer, real
from stepscope.formats.container import Member, strip_bom
from stepscope.formats.tables import Facts, ReadReport

LARGEST_BYTES = 1 << 28
"""A document takes some 60 bytes per measurement; more than 256 MiB is no document."""

NS_PER_MS = 1_000_000
_MAX_MS = LIMIT / NS_PER_MS - 1

ERRORS = {
    "bad-inline-profile": (
        "A file of inline measurements or phases is not a complete JSON document. It was truncated in copying "
        "or changed by hand; copy it again or record again."
    ),
    "nothing-measured": (
        "A file of inline measurements or phases is complete but has no measurement. The job ended within the "
        "first steps, which do not count; let it run longer."
    ),
    "newer-recording": (
        "A file of inline measurements, phases or host usage has a higher version than this StepScope knows, so its "
        "numbers could be misread. Read it with the StepScope that recorded it, or a later one."
    ),
}


def _refused(member: Member, reason: str) -> SourceError:
    return SourceError(
        f"{member.label}: {reason}",
        hint="it was cut or changed after it was written; copy it again, or record again",
        slug="bad-inline-profile",
    )


def load(
    member: Member, max_bytes: int = LARGEST_BYTES, refused: Callable[[Member, str], SourceError] = _refused
) -> Any:
    """Reads a JSON document.

    Raises:
        SourceError: it cannot be opened, is too large, is not JSON, or comes from a newer recorder.
    """
    with member.open() as stream:
        text = stream.read(max_bytes + 1)
    if len(text) > max_bytes:
        raise refused(member, f"larger than {max_bytes >> 20} MiB")
    try:
        decoded = strip_bom(text).decode("utf-8", errors="replace")
        try:
            loaded = json.loads(decoded)
        except json.JSONDecodeError:
            raise
        except ValueError:  # an integer of more digits than Python converts
            loaded = json.loads(decoded, parse_int=lambda digits: int(digits) if len(digits) < LONGEST else math.inf)
        loaded = replace_surrogates(loaded) if b"\\u" in text else loaded
    except (ValueError, RecursionError) as error:
        raise refused(member, f"not a complete JSON document: {error}") from None
    for result in loaded if isinstance(loaded, list) else [loaded]:
        _check_version(result, member)
    return loaded


def _check_version(result: Any, member: Member) -> None:
    if not isinstance(result, dict):
        return
    newest = FILE_VERSIONS.get(str(result.get("format")))
    version = result.get("version")
    if newest is not None and isinstance(version, int) and version > newest:
        raise SourceError(
            f"{member.label}: its version of {result['format']} is {version}, and this StepScope reads up to {newest}",
            hint="read it with the StepScope that recorded it, or a later one",
            slug="newer-recording",
        )


def replace_surrogates(loaded: Any) -> Any:
    """The document with question marks for unpaired surrogates, which JSON can have (`"\\ud800"`)
    and tables cannot.
    """
    text = json.dumps(loaded, ensure_ascii=False)
    return json.loads(text.encode("utf-8", errors="replace"))


def facts_of(document: Any, tool: str, report: ReadReport | None = None) -> Facts:
    """What a document says about the process that wrote it."""
    facts = Facts(tool=tool)
    if not isinstance(document, dict):
        return facts
    facts.rank = integer(document.get("rank"), report, below=INT32)
    if facts.rank is not None:
        facts.rank_rule = "recorder"
    facts.world_size = integer(document.get("world_size"), report, below=INT32)
    facts.local_rank = integer(document.get("local_rank"), report, below=INT32)
    facts.pid = integer(document.get("pid"), report)
    facts.start_epoch_ns = integer(document.get("start_epoch_ns"), report)
    host = document.get("host_name")
    facts.host = host if isinstance(host, str) else None
    version = document.get("version")
    # The version of the file's form, not of the program.
    facts.tool_version = f"file version {version}" if isinstance(version, int | str) else None
    return facts


def milliseconds(value: Any, report: ReadReport | None = None) -> int | None:
    """Milliseconds as integer ns; None for anything that is not a number or does not fit."""
    converted = real(value, report, low=-_MAX_MS, high=_MAX_MS)
    return None if converted is None else round(converted * NS_PER_MS)
