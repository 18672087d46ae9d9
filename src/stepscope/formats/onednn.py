"""Reads oneDNN's verbose log: a line for each primitive that was executed or created, with its time.

oneDNN was MKL-DNN until 1.0 and DNNL until 2.0, and its lines differ by version:

    mkldnn_verbose,exec,PRIMITIVE,IMPLEMENTATION,PROPAGATION,TENSORS,AUXILIARY,PROBLEM,MS
    dnnl_verbose,exec,ENGINE,PRIMITIVE,IMPLEMENTATION,PROPAGATION,TENSORS,ATTRIBUTES,AUXILIARY,PROBLEM,MS
    onednn_verbose[,v1][,TIMESTAMP][,COMPONENT],exec,ENGINE,... as before

DNNL 1.0 and 1.1 have no ATTRIBUTES. Other output of the program may surround the lines. They are read as columns and
added up block by block, so that a log of any length takes the memory of its distinct primitives. Source: oneDNN's
developer guide, "Verbose Mode", of versions 0.21 to 3.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stepscope.base.errors import SourceError
from stepscope.formats.bounded import LIMIT
from stepscope.formats.container import ByteStream, Member, strip_bom
from stepscope.formats.options import ReadOptions
from stepscope.formats.tables import Facts, RankTables, ReadReport, from_rows

_MARKED = re.compile(rb"(?m)^[^\n,]{0,64}?\b(?:onednn|dnnl|mkldnn)_verbose,")
_MARKS = ("onednn_verbose,", "dnnl_verbose,", "mkldnn_verbose,")
_MARK = r"\b(?:onednn|dnnl|mkldnn)_verbose,"
_BEFORE = rf"^.*?({_MARK})"
_TIMESTAMP = r"^(\w+_verbose(?:,v\d+)?),\d{6,}(?:\.\d+)?,"
_TIME = r"^[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,2})?$"
_VERSION = re.compile(r"(oneDNN|DNNL|Intel MKL-DNN) v(\d[\w.-]*)")
_TYPE = re.compile(r"(?:^|\s)(?:\w+?)[_:](f64|f32|f16|bf16|s32|s8|u8|s4|u4|f8_e5m2|f8_e4m3|f4_e2m1)\b")
_COMPONENTS = frozenset({"primitive", "graph", "ukernel", "common", "gpu", "cpu", "sycl", "ocl"})
_BLOCK = 1 << 23
_LONGEST_LINE = 1 << 20
_MAX_ROWS = 1 << 17
_MAX_TEXT = 1 << 30
_LONGEST_MS = 1e7
"""A time beyond it is damage. The sum of a block's lines stays within 64 bits."""
_NS_PER_MS = 1e6

ERRORS = {
    "too-many-primitives": (
        "A log of oneDNN has more than a gigabyte of different primitives: it is damaged, or of a job whose "
        "shapes never repeat. Give a part of it."
    ),
}


def looks_like(head: bytes) -> bool:
    """Whether the first bytes have a line of oneDNN's verbose mode."""
    return b"\0" not in head and _MARKED.search(head) is not None


def peek(member: Member) -> Facts | None:
    """The file's origin: which version wrote it. None when it has no line of oneDNN."""
    with member.open() as stream:
        text = stream.read(_LONGEST_LINE).decode("utf-8", "replace")
    match = _VERSION.search(text)
    return Facts(tool=match[1] if match else "oneDNN", tool_version=match[2] if match else None)


def read(member: Member, options: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank."""
    options = options or ReadOptions()
    log = _Log(member.label)
    done = 0
    with member.open() as stream:
        for text in _blocks(stream):
            log.add(text)
            done += len(text)
            if options.progress is not None:
                options.progress(min(done, member.size))
        if stream.damage:
            log.report.note(stream.damage)
    rows = log.rows()
    if not rows:
        raise SourceError(
            f"{member.label}: no primitive of oneDNN ran, by this log",
            hint="record it with stepscope launch --tool onednn -- python train.py",
            slug="no-recording",
        )
    facts = peek(member) or Facts()
    facts.metadata = {"oneDNN": log.info} if log.info else {}
    return RankTables(facts, log.report, primitive=from_rows("primitive", rows))


def _blocks(stream: ByteStream) -> Iterator[str]:
    """Complete lines, some thousand at a time; an endless line is cut."""
    remainder, first = b"", True
    while block := stream.read(_BLOCK):
        if first:
            block, first = strip_bom(block), False
        complete, newline, rest_of = (remainder + block).rpartition(b"\n")
        remainder = rest_of
        if newline:
            yield complete.decode("utf-8", "replace")
        elif len(remainder) > _LONGEST_LINE:
            remainder = remainder[:_LONGEST_LINE]
    if remainder:
        yield remainder.decode("utf-8", "replace")


@dataclass(slots=True)
class _Log:
    """The content of a log: the executions and creations of each distinct primitive, added up.

    Attributes:
        info: what the library says about itself: version, runtime, instruction set.
    """

    label: str
    report: ReadReport = field(default_factory=ReadReport)
    info: list[str] = field(default_factory=list)
    _sums: list[pa.Table] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Adds the lines of a block."""
        lines = pc.split_pattern(pa.array([text], pa.large_string()), "\n").flatten()
        lines = lines.filter(pc.match_substring(lines, "_verbose,"))
        first = pc.or_kleene(pc.starts_with(lines, _MARKS[0]), pc.starts_with(lines, _MARKS[1]))
        first = pc.or_kleene(first, pc.starts_with(lines, _MARKS[2]))
        if not pc.all(first).as_py():
            # A launcher may put the rank before a line.
            others = lines.filter(pc.invert(first))
            others = others.filter(pc.match_substring_regex(others, _MARK))
            others = pc.replace_substring_regex(others, _BEFORE, r"\1")
            lines = pa.concat_arrays([lines.filter(first), others])
        if not len(lines):
            return
        if pc.any(pc.match_substring_regex(lines[:100], _TIMESTAMP)).as_py():
            lines = pc.replace_substring_regex(lines, _TIMESTAMP, r"\1,")
        parts = pc.split_pattern(pc.ascii_rtrim_whitespace(lines), ",", max_splits=1, reverse=True)
        last = pc.list_element(parts, 1)
        timed = pc.match_substring_regex(last, _TIME)
        for value in pc.value_counts(lines.filter(pc.invert(timed))).to_pylist():
            self._add_other(value["values"], value["counts"])
        ms = last.filter(timed).cast(pa.float64())
        key = pc.list_element(parts, 0).filter(timed)
        sane = pc.less(ms, _LONGEST_MS)
        lost = len(ms) - (pc.sum(sane).as_py() or 0)
        if lost:
            self.report.drop("impossible_duration", lost)
        ns = pc.round(pc.multiply(ms.filter(sane), _NS_PER_MS)).cast(pa.int64())
        grouped = pa.table({"key": key.filter(sane), "ns": ns}).group_by("key")
        sums = grouped.aggregate([("ns", "count"), ("ns", "sum"), ("ns", "min"), ("ns", "max")])
        total = sums["ns_sum"].cast(pa.decimal128(38))  # that of many blocks may exceed 64 bits
        self._sums.append(sums.append_column("ns_total", total).select(_SUMMED))
        if sum(value.num_rows for value in self._sums) > _MAX_ROWS:
            self._sums = [self._together()]

    def _together(self) -> pa.Table:
        grouped = pa.concat_tables(self._sums).group_by("key").aggregate(
            [("ns_count", "sum"), ("ns_total", "sum"), ("ns_min", "min"), ("ns_max", "max")]
        )  # fmt: skip
        if grouped.nbytes > _MAX_TEXT:
            raise SourceError(
                f"{self.label}: more than {_MAX_TEXT >> 30} GiB of primitives that differ",
                hint="give a part of the log: head -n 10000000 FILE > FILE.txt",
                slug="too-many-primitives",
            )
        columns = ["key", "ns_count_sum", "ns_total_sum", "ns_min_min", "ns_max_max"]
        return grouped.select(columns).rename_columns(_SUMMED)

    def _add_other(self, line: str, count: int) -> None:
        """Takes a line without a time: the library's information about itself, or a truncated line."""
        words = _words(line)
        if words and words[0] == "info":
            text = ",".join(words[1:])
            if text not in self.info and len(self.info) < 64:
                self.info.append(text[:512])
        elif words and words[0] in ("exec", "create", "create:cache_miss", "create:cache_hit"):
            self.report.drop("unreadable", count)
        else:
            self._unknown(words, count)

    def _added(self, total_ns: int, more: Decimal | int) -> int:
        """The sum, at most what a column has room for."""
        if (total := total_ns + int(more)) >= LIMIT:
            self.report.note("wrong_type")
        return min(total, LIMIT)

    def _unknown(self, words: list[str], count: int) -> None:
        name = words[0] if words else ""
        kinds = self.report.unknown_categories
        kinds[name[:64]] = kinds.get(name[:64], 0) + count

    def rows(self) -> list[dict[str, Any]]:
        """Rows of table `primitive`, in order of their time."""
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for group in self._together().to_pylist() if self._sums else ():
            words = _words(group["key"])
            operation = words[0] if words else ""
            stated = _stated(words[1:]) if operation.partition(":")[0] in ("exec", "create") else None
            if stated is None:
                self._unknown(words, group["ns_count"])
                continue
            self.report.read += group["ns_count"]
            row = rows.setdefault(tuple(stated.values()), stated | _EMPTY)
            if operation == "exec":
                row["executions"] += group["ns_count"]
                row["total_ns"] = self._added(row["total_ns"], group["ns_total"])
                row["min_ns"] = min(group["ns_min"], row["min_ns"] or group["ns_min"])
                row["max_ns"] = max(group["ns_max"], row["max_ns"] or 0)
            else:
                row["creations"] += group["ns_count"]
                row["created_ns"] = self._added(row["created_ns"], group["ns_total"])
        return sorted(rows.values(), key=lambda row: (-row["total_ns"], str(row["shape"])))


_SUMMED = ["key", "ns_count", "ns_total", "ns_min", "ns_max"]
_EMPTY = {
    "executions": 0, "total_ns": 0, "min_ns": None, "max_ns": None, "creations": 0, "created_ns": 0,
}  # fmt: skip


def _words(line: str) -> list[str]:
    """The fields of a line from its operation on; the lines of components other than primitives keep their names."""
    words = line.split(",")[1:]
    if words and re.fullmatch(r"v\d+", words[0]):
        del words[0]
    if words and words[0] in _COMPONENTS:
        return words[1:] if words[0] == "primitive" else [words[0]]
    return words


def _stated(fields: list[str]) -> dict[str, Any] | None:
    """The values of the fields after the operation; None if there are too few."""
    if len(fields) < 6:
        return None
    engine = None if len(fields) == 6 else fields.pop(0)
    primitive, implementation, propagation, tensors, *middle, problem = fields
    attributes = middle.pop(0) if len(middle) > 1 else ""
    return {
        "engine": engine,
        "primitive": primitive,
        "implementation": implementation,
        "propagation": propagation if propagation != "undef" else None,
        "types": ",".join(dict.fromkeys(_TYPE.findall(tensors))) or None,
        "tensors": tensors.strip() or None,
        "attributes": attributes.strip() or None,
        "auxiliary": ",".join(middle).strip() or None,
        "shape": problem.strip() or None,
    }
