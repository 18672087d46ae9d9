"""Loads one trace, or the ranks of one, with other software than StepScope, as its users do.

    python benchmarks/loads.py hta|tracelens|json|duckdb FILE...

Prints what was loaded as JSON. Runs in the environment of the named library, and needs nothing of ours.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any


def hta(files: Sequence[str]) -> dict[str, Any]:
    """HolisticTraceAnalysis: parses, aligns and encodes; does not link or answer anything yet."""
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_files=dict(enumerate(files)))
    rows = sum(len(analysis.t.get_trace(rank)) for rank in range(len(files)))
    return {"rows": rows, "version": version("HolisticTraceAnalysis")}


def tracelens(files: Sequence[str]) -> dict[str, Any]:
    """TraceLens: reads the file and builds its tree of events."""
    from TraceLens import TreePerfAnalyzer

    for file in files:
        TreePerfAnalyzer.from_file(file)
    return {"version": version("TraceLens")}


def json_load(files: Sequence[str]) -> dict[str, Any]:
    """The standard library's `json.load`, the first step of every simple script."""
    events = 0
    for file in files:
        with _opened(file) as stream:
            trace = json.load(stream)
        events += len(trace["traceEvents"] if isinstance(trace, dict) else trace)
    return {"rows": events, "version": ".".join(map(str, sys.version_info[:3]))}


_NUMBERS = [
    "External id",
    "Sequence number",
    "Fwd thread id",
    "Ev Idx",
    "Record function id",
    "correlation",
    "device",
    "context",
    "stream",
    "bytes",
    "queued",
    "Python id",
    "Python parent id",
    "Python module id",
    "Python thread",
    "cbid",
    "wait_on_stream",
]
_TEXTS = ["Input Dims", "Input type", "Input Strides", "Concrete Inputs", "grid", "block", "kind", "Collective name"]
_ARGS = ", ".join([f'"{name}" BIGINT' for name in _NUMBERS] + [f'"{name}" VARCHAR' for name in _TEXTS])
_COLUMNS = dict.fromkeys(["ph", "cat", "name", "pid", "tid", "id", "bp"], "VARCHAR")
_COLUMNS |= {"ts": "DOUBLE", "dur": "DOUBLE", "args": f"STRUCT({_ARGS})"}


def duckdb(files: Sequence[str]) -> dict[str, Any]:
    """DuckDB alone: the usual columns of a trace, into one table in memory, without checks.

    It reads an array of events instead of a trace, so the array is first cut out of each file; that costs almost
    nothing, and is included.
    """
    import duckdb as db

    with tempfile.TemporaryDirectory() as scratch:
        arrays = []
        for number, file in enumerate(files):
            array = Path(scratch) / f"{number}.json"
            with _opened(file) as stream:
                array.write_bytes(_events(stream.read()))
            arrays.append(str(array))
        connection = db.connect()
        connection.execute(
            f"CREATE TABLE event AS FROM read_json($files, format = 'array', columns = {_COLUMNS})", {"files": arrays}
        )
        found = connection.execute("SELECT count(*) FROM event").fetchall()
    return {"rows": found[0][0], "version": db.__version__}


def _opened(file: str) -> IO[bytes]:
    return gzip.open(file, "rb") if file.endswith(".gz") else Path(file).open("rb")


def _events(text: bytes) -> bytes:
    """The array of events in a trace's text."""
    start = text.index(b"[", text.index(b'"traceEvents"'))
    last = text.rindex(b"{", 0, text.rindex(b'"ph"'))
    _, length = json.JSONDecoder().raw_decode(text[last:].decode())
    return text[start : text.index(b"]", last + length) + 1]


if __name__ == "__main__":
    loads = {"hta": hta, "tracelens": tracelens, "json": json_load, "duckdb": duckdb}
    sys.stdout.write(json.dumps(loads[sys.argv[1]](sys.argv[2:])) + "\n")
