"""What a recording's environment held is nowhere in the store, the cache or an answer."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stepscope
from stepscope.store.build import import_source
from stepscope.store.without_secrets import leave_out_secrets

SECRET = "s3cr3t-of-the-job"  # noqa: S105  # what must be nowhere
ENVIRONMENT = {"HF_TOKEN": SECRET, "HOME": f"/{SECRET}", "PATH": SECRET, "NCCL_ALGO": "Ring"}
NESTED = {"job": {"env": ENVIRONMENT, "db": {"password": SECRET}, "name": "cnn"}}

AT = {"pid": 1, "tid": 1, "ts": 1}
KINETO = {
    **NESTED,
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "dur": 5, "args": {"env": ENVIRONMENT}, **AT},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "dur": 5, "args": {"api_key": SECRET}, **AT},
        {"ph": "X", "cat": "kernel", "name": "gemm", "dur": 5, "args": {"MY_TOKEN": SECRET}, **AT},
        {"ph": "i", "s": "t", "name": "started", "args": {"environ": ENVIRONMENT, "of": "cnn"}, **AT},
        {"ph": "M", "name": "process_environment", "pid": 1, "args": ENVIRONMENT},
    ],
}
INLINE = {
    "format": "stepscope.inline", "version": 1, "environment": ENVIRONMENT, "overhead": NESTED,
    "timeline": {
        "device_0": {
            "stream_1": [
                {"label": "fc1", "start_index": 0, "end_index": 1, "avg_measured_time_ms": 1.0, "env": ENVIRONMENT}
            ]
        }
    },
}  # fmt: skip
PHASES = {
    "format": "stepscope.phases", "version": 1, "counted_steps": 10, "environment": ENVIRONMENT,
    "step": {"mean_ns": 100.0, "max_ns": 300}, "communication": {"source": "DDP", **NESTED},
}  # fmt: skip


ENVIRONMENT_TABLE = {"nvprof": "CUPTI_ACTIVITY_KIND_ENVIRONMENT", "nsys": "TARGET_INFO_SYSTEM_ENV"}


def database(path: Path, tool: str) -> None:
    """A database of nvprof or Nsight Systems, which keep the environment in a table of their own."""
    tables = {
        "StringTable": "value",
        ENVIRONMENT_TABLE[tool]: "name value",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "cbid start end processId threadId correlationId",
    }
    with sqlite3.connect(path) as made:
        for table, columns in tables.items():
            made.execute(f"CREATE TABLE {table}(_id_ INTEGER PRIMARY KEY, {', '.join(columns.split())})")
        made.executemany(f"INSERT INTO {ENVIRONMENT_TABLE[tool]}(name, value) VALUES (?, ?)", ENVIRONMENT.items())
        made.execute("INSERT INTO StringTable(value) VALUES (?)", (f"HF_TOKEN={SECRET}",))
        made.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 211, 10, 20, 7, 7, 1)")
    made.close()


def everything_in(directory: Path) -> str:
    """The bytes of all files, and the rows of the Parquet files among them."""
    texts = []
    for file in directory.rglob("*"):
        if file.is_file():
            texts.append(file.read_bytes().decode("latin-1"))
        if file.suffix == ".parquet":
            texts.append(str(pq.ParquetFile(file).read().to_pylist()))
    return "".join(texts)


@pytest.mark.parametrize("form", ["kineto", "inline", "phases", "nvprof", "nsys"])
def test_of_no_format_an_environment_is_kept(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("STEPSCOPE_CACHE", str(cache))
    source = tmp_path / "recording"
    made: dict[str, Any] = {"kineto": KINETO, "inline": INLINE, "phases": PHASES}
    if form in ENVIRONMENT_TABLE:
        database(source, form)
    else:
        source.write_text(json.dumps(made[form]))
    store = import_source(source, tmp_path / "store")
    with stepscope.open(source) as trace:
        answered = trace.sources().to_json() + trace.sql("SELECT * FROM source").to_json()
        tables = [row["name"] for row in trace.sql("SELECT name FROM (SHOW TABLES)").rows()]
        answered += "".join(trace.sql(f"SELECT * FROM {table}").to_json() for table in tables)
    for kept in (everything_in(store), everything_in(cache), answered):
        assert form in kept
        assert SECRET not in kept
        assert form in ENVIRONMENT_TABLE or "NCCL_ALGO" in kept


def test_events_that_share_a_text_share_it_still() -> None:
    texts = ['{"api_key": "a", "n": 1}', '{"n": 2}', None]
    encoded = pa.chunked_array([pa.array(texts).dictionary_encode(), pa.array([], pa.string()).dictionary_encode()])
    tables = {"host_event": pa.table({"id": [1, 2, 3], "other_args": encoded})}
    leave_out_secrets(tables)
    column = tables["host_event"].column("other_args")
    assert column.to_pylist() == ['{"n": 1}', '{"n": 2}', None]
    assert column.type == encoded.type


def test_a_column_without_any_value_has_no_type() -> None:
    tables = {"instant": pa.table({"args": pa.nulls(2), "name": ["a", "b"]})}
    leave_out_secrets(tables)
    assert tables["instant"].column("args").to_pylist() == [None, None]


def test_arguments_that_are_no_json_and_suspect_are_left_out() -> None:
    tables = {"instant": pa.table({"args": ['{"token": "a', '{"fine'], "name": ["a", "b"]})}
    leave_out_secrets(tables)
    assert tables["instant"].column("args").to_pylist() == ["{}", '{"fine']


def test_what_is_recorded_inline_has_no_environment_in_it(tmp_path: Path) -> None:
    job = (
        "from stepscope.record import inline\n"
        f"inline.start(out={str(tmp_path)!r})\n"
        "for _ in inline.iterate(range(5)): pass\n"
        "inline.stop()\n"
    )
    subprocess.run(
        [sys.executable, "-c", job],
        check=True,
        env={"HF_TOKEN": SECRET, "PYTHONPATH": ":".join(sys.path), "MY_SETTING": SECRET},
    )
    assert list(tmp_path.iterdir())
    assert SECRET not in everything_in(tmp_path)
