"""Literal traces for the reader's tests."""

import json
from pathlib import Path

import pytest

from stepscope.formats.container import members
from stepscope.formats.kineto.reader import read
from stepscope.formats.options import ReadOptions


@pytest.fixture
def read_text(tmp_path):
    """Reads a text, or bytes, or events, as a trace; gives its tables."""

    def run(content, name="trace.json", **options):
        path = Path(tmp_path) / name
        if isinstance(content, (list, dict)):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read(next(iter(members(path))), ReadOptions(**options))

    return run


@pytest.fixture
def read_events(read_text):
    """Reads events as the `traceEvents` of a trace."""

    def run(events, metadata=None, **options):
        return read_text({**(metadata or {}), "traceEvents": events}, **options)

    return run


def op(name, ts, dur, **args):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def kernel(name, ts, dur, **args):
    args = {"device": 0, "stream": 7, "correlation": 1, **args}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args}
