"""Reads the summary of every step's phases that one recorded process leaves."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from stepscope.errors import SourceError
from stepscope.formats.container import Member, strip_bom
from stepscope.formats.inline import document
from stepscope.formats.inline.document import number, whole
from stepscope.formats.options import ReadOptions
from stepscope.formats.tables import PHASE, Facts, RankTables, ReadReport

WHOLE_STEP = "step"
_OURS = re.compile(rb'"format"\s*:\s*"stepscope\.phases"')
_METADATA = ("steps", "warmup", "backwards", "optimizer_steps", "first_batch_ns", "communication")

Row = dict[str, Any]


def looks_like_phases(head: bytes) -> bool:
    """Whether a file's first bytes could be a summary of phases."""
    return strip_bom(head).lstrip(b" \t\r\n")[:1] == b"{" and _OURS.search(head) is not None


def peek(member: Member) -> Facts | None:
    """What the file says of itself.

    Raises:
        SourceError: it is no whole JSON document.
    """
    return _facts(document.load(member))


def read(member: Member, options: ReadOptions | None = None) -> RankTables:
    """Reads one file as the recording of one rank.

    Raises:
        SourceError: it is no whole JSON document, or no step was counted in it.
        DamagedSourceError: parts of it could not be used and `options.strict` is set.
    """
    loaded = document.load(member)
    report = ReadReport()
    rows = _rows(loaded, report) if isinstance(loaded, dict) else []
    if not rows:
        raise SourceError(
            f"{member.label}: no step was counted in it",
            hint="the job ended within the first steps, which do not count; let it run longer",
            slug="bad-inline-profile",
        )
    document.check_strict(member, report, options or ReadOptions())
    report.kept = len(rows)
    return RankTables(
        facts=_facts(loaded), report=report, phase=pa.Table.from_pylist(rows, schema=PHASE)
    )


def _facts(loaded: Any) -> Facts:
    facts = document.facts_of(loaded, "stepscope")
    if isinstance(loaded, dict):
        facts.metadata = {key: loaded[key] for key in _METADATA if key in loaded}
    return facts


def _rows(loaded: Row, report: ReadReport) -> list[Row]:
    steps = whole(loaded.get("counted_steps"))
    step = _row(WHOLE_STEP, loaded.get("step"), steps)
    if step is None:
        return []
    memory = _object(loaded.get("memory"))
    step["peak_bytes"] = whole(memory.get("peak_bytes"))
    step["peak_of"] = _text(memory.get("of"))
    step["verdict"], step["next_step"] = _verdict(loaded.get("verdict"))
    device = _object(_object(loaded.get("device")).get("mean_ns"))
    rows = [step]
    for name, phase in _object(loaded.get("phases")).items():
        if phase is None:  # nobody could hear it: not measured
            continue
        row = _row(name, phase, steps)
        if row is None:
            report.dropped += 1
            report.note("wrong_type")
            continue
        row["device_mean_ns"] = number(device.get(name))
        rows.append(row)
    return rows


def _row(name: str, phase: Any, steps: int | None) -> Row | None:
    if not isinstance(phase, dict) or not steps:
        return None
    mean = number(phase.get("mean_ns"))
    if mean is None:
        return None
    statistics = _object(phase.get("statistics"))
    return {
        "phase": name,
        "steps": steps,
        "mean_ns": mean,
        "median_ns": number(statistics.get("median_ns")),
        "p95_ns": number(statistics.get("p95_ns")),
        "largest_ns": whole(phase.get("largest_ns")),
    }


def _verdict(findings: Any) -> tuple[str | None, str | None]:
    """What was found, the largest first, in one line each for the finding and for what to do."""
    found = [one for one in findings if isinstance(one, dict)] if isinstance(findings, list) else []
    words = [f"{one.get('kind')}: {one.get('evidence')}" for one in found]
    steps = [str(one["next_step"]) for one in found if one.get("next_step")]
    return "; ".join(words) or None, "; ".join(steps) or None


def _object(value: Any) -> Row:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
