"""Any prefix of any file, and any file with wrong bytes, gives rows or a named error: one small sample of every format."""

import gzip
import json
import pickle
import random
from pathlib import Path

import pytest
from tests.bundled.nvprof import test_log, test_metric_sums
from tests.bundled.nvprof.databases import Nvprof, call, tensor
from tests.bundled.test_aps import TEXT as APS
from tests.bundled.test_pyprof import kernel
from tests.examples import how_many
from tests.formats.counters.test_ncu import DETAILS, line
from tests.formats.inline.test_host import HOST, document
from tests.formats.inline.test_phases import SUMMARY
from tests.formats.inline.test_reader import OURS
from tests.formats.nsys.exports import Nsys
from tests.formats.sampled import test_collapsed, test_perf_script, test_speedscope
from tests.formats.test_onednn import MATMUL
from tests.formats.test_perf_stat import TEXT as PERF_STAT
from tests.formats.test_vtune import FUNCTIONS
from tests.memory_snapshots import training

from stepscope.base.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.registry import format_of, our_formats
from stepscope.formats.tables import RankTables

KINETO = {
    "schemaVersion": 1,
    "distributedInfo": {"rank": 1, "world_size": 2},
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 10, "dur": 5, "args": {"External id": 3}},
        {"ph": "X", "cat": "kernel", "name": "gemm\u00e9\\", "pid": 0, "tid": 7, "ts": 12.5, "dur": 9, "args": {"stream": 7}},
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}},
    ]
    * 3,
}  # fmt: skip


def _nsys(folder: Path) -> bytes:
    export = Nsys(folder / "report.sqlite")
    for at in range(0, 20_000, 100):
        export.launch(at, at, "gemm", at + 10, at + 50).range(at, at + 60, f"aten::mm, seq = {at}, op_id = {at}")
    export.connection.close()
    return export.path.read_bytes()


def _nvprof(folder: Path) -> bytes:
    database = Nvprof(folder / "net.sql").device()
    for at in range(0, 20_000, 100):
        database.launch(at, at + 1, "gemm", at + 10, at + 20)
        database.ranges((at, at + 50, call("torch", "mm", tensor(at + 1, 4), tensor(4, 2))))
    return database.written().read_bytes()


SAMPLES = {
    "inline": json.dumps(OURS),
    "phases": json.dumps(SUMMARY),
    "host": document(HOST),
    "kineto": json.dumps(KINETO, indent=1),
    "nvprof": _nvprof,
    "nvprof-metrics": test_metric_sums.CSV,
    "nvprof-log": f"{test_log.BANNER}\n{test_log.RESULT}\n{test_log.GPU_CSV}",
    "pyprof": "\n".join(kernel(markers=["aten::mm"]) for _ in range(4)) + "\n",
    "nsys": _nsys,
    "ncu": "\n".join([DETAILS, *(line(n, "gemm", "Speed", "Duration", "ns", "9,000") for n in range(9))]) + "\n",
    "speedscope": test_speedscope.document(test_speedscope.sampled([[2, 0, 1], [2, 0]], [0.01, 0.01])),
    "vtune": FUNCTIONS,
    "onednn": f"onednn_verbose,exec,{MATMUL},0.5\n" * 9,
    "aps": APS,
    "perf-stat": PERF_STAT,
    "perf-script": test_perf_script.TEXT,
    "collapsed": test_collapsed.PY_SPY,
    "memory-snapshot": lambda _: pickle.dumps(training().snapshot(), 4),
}


def test_each_format_has_a_sample_that_is_its_own(tmp_path):
    assert SAMPLES.keys() == {known.name for known in our_formats()}
    assert {name: _outcome(sample_of(name, tmp_path), tmp_path) for name in SAMPLES} == {name: name for name in SAMPLES}


def sample_of(name: str, folder: Path) -> bytes:
    sample = SAMPLES[name]
    return sample.encode() if isinstance(sample, str) else sample(folder)


def _outcome(data: bytes, folder: Path) -> str:
    """The format that gives rows, or the slug of the error; anything else is raised."""
    file = folder / "sample"
    file.write_bytes(data)
    try:
        for member in members(file):
            known = format_of(member)
            known.peek(member)
            for recording in known.recordings(member):
                if known.end is not None:
                    known.end(recording)
                tables = known.read(recording, None)
                assert isinstance(tables, RankTables)
    except SourceError as error:
        return error.slug
    return known.name


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", SAMPLES)
def test_any_prefix_and_any_wrong_bytes_give_rows_or_a_named_error(name, pack, tmp_path):
    data = pack(sample_of(name, tmp_path))
    chance = random.Random(len(data))  # noqa: S311 - no secret
    sizes = {*range(0, len(data), max(1, len(data) // how_many(15))), *range(len(data) - 9, len(data))}
    for size in sizes:
        _outcome(data[:size], tmp_path)
    for _ in range(how_many(15)):
        wrong = bytearray(data)
        for _ in range(chance.choice([1, 3, 40])):
            wrong[chance.randrange(len(wrong))] = chance.randrange(256)
        _outcome(bytes(wrong), tmp_path)
