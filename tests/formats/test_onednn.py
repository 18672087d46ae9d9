"""Verbose logs of oneDNN, DNNL and MKL-DNN: every version's lines, what stands around them, and what breaks off."""

import os
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.formats.sampled.profiles import read_text
from tests.processes import python

import stepscope
from stepscope.base.errors import SourceError
from stepscope.formats import onednn
from stepscope.formats.container import members
from stepscope.formats.onednn import looks_like, read

MATMUL = (
    "cpu,matmul,brgemm:avx512_core,undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0,attr-scratchpad:user,,2x3:3x4"
)
KEPT = ("primitive", "implementation", "propagation", "types", "shape", "executions", "total_ns")


def rows(tables, *columns):
    return [tuple(row[name] for name in columns or KEPT) for row in tables.primitive.to_pylist()]


@pytest.mark.parametrize(
    "start",
    [
        "onednn_verbose,exec,", "onednn_verbose,primitive,exec,", "onednn_verbose,v1,primitive,exec,",
        "onednn_verbose,1693533460193.346924,primitive,exec,",
        "onednn_verbose,v1,1693533460193.346924,primitive,exec,", "dnnl_verbose,exec,",
        "[rank0]: onednn_verbose,exec,", "3: dnnl_verbose,exec,",
    ],
)  # fmt: skip
def test_lines_of_every_version_are_one_primitive(tmp_path, start):
    name, tables = read_text(tmp_path, f"{start}{MATMUL},0.25\nhello\n{start}{MATMUL},1e-05\r\n")
    assert name == "onednn"
    assert rows(tables) == [("matmul", "brgemm:avx512_core", None, "f32", "2x3:3x4", 2, 250_010)]
    assert tables.report.read == 2
    assert tables.report.damage == {}


def test_the_first_versions_name_no_engine_and_no_attributes(tmp_path):
    text = (
        "mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32_oihw out:f32_Ohwi16o,num:1,64x3x11x11,0.5\n"
        "dnnl_verbose,exec,cpu,sum,ref:any,undef,src_f32::blocked:ab:f0,num:2,8x8,0.25\n"
    )
    _, tables = read_text(tmp_path, text)
    columns = ("engine", "primitive", "attributes", "auxiliary", "shape", "total_ns")
    assert rows(tables, *columns) == [
        (None, "reorder", None, "num:1", "64x3x11x11", 500_000),
        ("cpu", "sum", None, "num:2", "8x8", 250_000),
    ]


def test_creations_are_apart_and_what_the_library_says_is_kept(tmp_path):
    text = (
        "onednn_verbose,info,oneDNN v3.2.0 (commit 2a3f)\n"
        "onednn_verbose,info,cpu,runtime:OpenMP,nthr:4\n"
        f"onednn_verbose,create:cache_miss,{MATMUL},0.5\nonednn_verbose,create:cache_hit,{MATMUL},0.25\n"
        f"onednn_verbose,exec,{MATMUL},2\n"
    )
    _, tables = read_text(tmp_path, text)
    columns = ("executions", "total_ns", "min_ns", "creations", "created_ns")
    assert rows(tables, *columns) == [(1, 2_000_000, 2_000_000, 2, 750_000)]
    assert (tables.facts.tool, tables.facts.tool_version) == ("oneDNN", "3.2.0")
    assert tables.facts.metadata == {"oneDNN": ["oneDNN v3.2.0 (commit 2a3f)", "cpu,runtime:OpenMP,nthr:4"]}


def test_partitions_of_the_graph_component_are_counted_and_not_added(tmp_path):
    text = f"onednn_verbose,v1,graph,exec,cpu,1,fused,,,,,0.9\nonednn_verbose,v1,primitive,exec,{MATMUL},0.5\n"
    _, tables = read_text(tmp_path, text)
    assert rows(tables, "total_ns") == [(500_000,)]
    assert tables.report.unknown_categories == {"graph": 1}


def test_a_line_that_breaks_off_is_counted(tmp_path):
    text = f"dnnl_verbose,exec,{MATMUL},0.5\ndnnl_verbose,exec,cpu,convolution,jit"
    _, tables = read_text(tmp_path, text)
    assert rows(tables, "total_ns") == [(500_000,)]
    assert (tables.report.damage, tables.report.dropped) == ({"unreadable": 1}, 1)


def test_a_log_without_a_primitive_says_so(tmp_path):
    with pytest.raises(SourceError, match="no primitive"):
        read_text(tmp_path, "onednn_verbose,info,cpu,runtime:OpenMP\n")


@pytest.mark.parametrize("head", [b"", b"see onednn_verbose=1\n", b"x,onednn_verbose,exec\n", b"\0onednn_verbose,"])
def test_other_text_is_none(head):
    assert not looks_like(head)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**9)), min_size=1, max_size=30))
@examples(20)
def test_times_add_up_to_a_plain_sum(tmp_path_factory, calls):
    file = tmp_path_factory.mktemp("log") / "log.txt"
    lines = [
        f"onednn_verbose,exec,cpu,matmul,ref,undef,src_f32::blocked:ab:f0,,,{size}x1:1x1,{ns / 10**6:.6f}\n"
        for size, ns in calls
    ]
    file.write_text("".join(lines))
    expected: Counter[str] = Counter()
    for size, ns in calls:
        expected[f"{size}x1:1x1"] += ns
    (member,) = members(file)
    found = read(member).primitive.to_pylist()
    assert {row["shape"]: row["total_ns"] for row in found} == expected


def test_a_long_log_takes_the_memory_of_its_distinct_primitives(tmp_path, monkeypatch):
    monkeypatch.setattr(onednn, "_BLOCK", 1000)
    monkeypatch.setattr(onednn, "_MAX_ROWS", 8)
    lines = [f"onednn_verbose,exec,{MATMUL.replace('2x3', f'{n % 3}x3')},0.5\n" for n in range(3000)]
    _, tables = read_text(tmp_path, "".join(lines))
    assert sorted(rows(tables, "shape", "executions", "total_ns")) == [
        (f"{n}x3:3x4", 1000, 500_000_000) for n in range(3)
    ]


@pytest.mark.traces
def test_the_logs_of_others_are_read_to_the_last_line(shared_traces):
    for file in sorted((shared_traces / "onednn").iterdir()):
        lines = [one.split(",") for one in file.read_text().splitlines() if "_verbose," in one]
        timed = [one for one in lines if one[1].startswith(("exec", "create")) and _is_number(one[-1])]
        (member,) = members(file)
        tables = read(member)
        report = tables.report
        others = sum(one[1] == "info" for one in lines)
        assert report.read == len(timed)
        assert report.read + report.dropped + others == len(lines)
        executed = [round(float(one[-1]) * 1e6) for one in timed if one[1] == "exec"]
        assert sum(one for (one,) in rows(tables, "total_ns")) == sum(executed)
        created = [round(float(one[-1]) * 1e6) for one in timed if one[1] != "exec"]
        assert sum(one for (one,) in rows(tables, "created_ns")) == sum(created)


def _is_number(text):
    return text.replace(".", "", 1).isdecimal()


TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.randn(4, 3, 8, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.torch
def test_the_log_of_a_training_is_a_plain_sum(tmp_path):
    done = python("-c", TRAINING, env=os.environ | {"ONEDNN_VERBOSE": "1", "OMP_NUM_THREADS": "1"}, check=True)
    if "_verbose," not in done.stdout:
        pytest.skip("this torch has no oneDNN, or does not use it on this processor")
    file = tmp_path / "rank0.onednn.txt"
    file.write_text(done.stdout)
    lines = [one.split(",") for one in done.stdout.splitlines()]
    times = [float(one[-1]) for one in lines if "exec" in one[:4]]
    with stepscope.open(file) as trace:
        answer = trace.ask("onednn")
    assert sum(answer["executions"]) == len(times)
    assert sum(answer["total_ns"]) == sum(round(one * 1e6) for one in times)
    assert "convolution" in answer["primitive"]


def test_a_total_beyond_64_bits_is_the_largest_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(onednn, "_LONGEST_MS", 1e12)
    monkeypatch.setattr(onednn, "_BLOCK", 64)
    _, tables = read_text(tmp_path, f"onednn_verbose,exec,{MATMUL},9e11\n" * 20)
    assert rows(tables, "executions", "total_ns", "max_ns") == [(20, 1 << 62, 9 * 10**17)]
    assert tables.report.damage == {"wrong_type": 1}
