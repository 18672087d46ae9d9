"""Repeats the events of a Nsight Systems export to make a valid, longer export.

    python benchmarks/repeat_nsys.py --from report.sqlite --size 1GB -o big.sqlite

A copy's times start where the previous copy ended, and every number that must be unique advances by as much as one copy
uses: correlations, numbers of samples, and the numbers of calls and of autograd that `emit_nvtx` writes into its texts.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sqlite3
from pathlib import Path

GAP_NS = 100_000
TIMES = ("start", "end", "timestamp", "rawTimestamp")
UNIQUE = ("correlationId", "eventId", "rangeId")
SAMPLES = ("COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS")
NUMBER = re.compile(r"\b(op_id|seq) = (\d+)")
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}


def repeated_tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Columns of the repeated tables: those with events, and those that samples refer to."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    columns = {name: [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')] for (name,) in names}
    return {
        name: listed
        for name, listed in columns.items()
        if name == SAMPLES[1] or {"start", "timestamp"} & set(listed)
        if name not in ("DIAGNOSTIC_EVENT", "NVTX_DOMAINS")
    }


def largest(connection: sqlite3.Connection, table: str, column: str) -> int:
    return connection.execute(f'SELECT max("{column}") FROM "{table}"').fetchone()[0] or 0


def smallest(connection: sqlite3.Connection, table: str, column: str) -> int | None:
    return connection.execute(f'SELECT min("{column}") FROM "{table}"').fetchone()[0]


def repeat(path: Path, size: int) -> int:
    """Adds copies to an export until it has `size` bytes; returns the number of copies."""
    connection = sqlite3.connect(path, isolation_level=None)
    for setting in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -200000"):
        connection.execute(f"PRAGMA {setting}")
    tables = repeated_tables(connection)
    timed = [(t, c) for t, listed in tables.items() for c in listed if c in TIMES]
    ends = [largest(connection, table, column) for table, column in timed]
    starts = [smallest(connection, table, column) for table, column in timed]
    period = max(ends) - min(one for one in starts if one is not None) + GAP_NS
    texts = connection.execute(
        "SELECT text FROM NVTX_EVENTS WHERE text IS NOT NULL" if "NVTX_EVENTS" in tables else "SELECT ''"
    )
    numbers = [int(number) for (text,) in texts for _, number in NUMBER.findall(text)]
    span = max(numbers, default=0) - min(numbers, default=0) + 1

    def moved(text: str | None, copies: int) -> str | None:
        return text and NUMBER.sub(lambda m: f"{m[1]} = {int(m[2]) + copies * span}", text)

    connection.create_function("moved", 2, moved, deterministic=True)
    inserts = []
    for table, listed in tables.items():
        connection.execute(f'CREATE TEMP TABLE "first_{table}" AS SELECT * FROM main."{table}"')
        parts = []
        for column in listed:
            if column in TIMES:
                parts.append(f'"{column}" + :copies * {period}')
            elif column in UNIQUE or (column == "id" and table in SAMPLES):
                step = max(largest(connection, one, column) for one in tables if column in tables[one])
                parts.append(f'"{column}" + :copies * {step + 1}')
            elif column == "text":
                parts.append("moved(text, :copies)")
            else:
                parts.append(f'"{column}"')
        inserts.append(f'INSERT INTO main."{table}" SELECT {", ".join(parts)} FROM "first_{table}"')
    copies = 1
    page = connection.execute("PRAGMA page_size").fetchone()[0]
    while connection.execute("PRAGMA page_count").fetchone()[0] * page < size:
        for insert in inserts:
            connection.execute(insert, {"copies": copies})
        copies += 1
    connection.close()
    return copies


def main() -> None:
    """Writes the longer export."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--from", dest="source", type=Path, required=True, metavar="FILE")
    parser.add_argument("--size", default="1GB", metavar="SIZE", help="for example 256MB (1GB)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    shutil.copyfile(options.source, options.output)
    copies = repeat(options.output, int(float(options.size[:-2]) * UNITS[options.size[-2:].upper()]))
    print(f"{options.output}: {options.output.stat().st_size} bytes, {copies} copies")


if __name__ == "__main__":
    main()
