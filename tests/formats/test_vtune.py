"""Reports of VTune: functions, trees, other metrics, and tables that are none."""

import csv
from collections import Counter

import pytest
from tests.formats.sampled.profiles import read_text, stacks

import stepscope
from stepscope.formats.vtune import looks_like

FUNCTIONS = """\
Function,CPU Time,Memory Bound(%),Loads,Instructions Retired,CPI Rate,Module,Function (Full),Source File,Start Address
gemm,1.5,66.3,1200,4000000,0.5,libmkl.so,"gemm(int, int)",gemm.cpp,0x10
_int_free,0.25,,0,,,libc.so.6,_int_free,[Unknown],0x20
"""
TREE = """\
Function Stack\tCPU Time:Total\tCPU Time:Self\tModule
Total\t100.0%\t0s\t
 main\t100.0%\t0.5s\ta.exe
  solve\t60.0%\t1s\ta.exe
  save\t10.0%\t250ms\ta.exe
"""


def metrics(tables):
    return [(row["subject"], row["metric"], row["value"], row["unit"]) for row in tables.host_metric.to_pylist()]


def test_functions_have_time_instructions_and_cycles_and_other_metrics_of_their_own(tmp_path):
    name, tables = read_text(tmp_path, FUNCTIONS)
    assert name == "vtune"
    assert stacks(tables) == [
        (None, "libmkl.so!gemm.cpp(): gemm", None, 1_500_000_000),
        (None, "libc.so.6!_int_free", None, 250_000_000),
    ]
    assert tables.stack_sample["instructions"].to_pylist() == [4_000_000, None]
    assert tables.stack_sample["cycles"].to_pylist() == [2_000_000, None]
    assert metrics(tables) == [
        ("gemm", "Memory Bound(%)", 66.3, "%"), ("gemm", "Loads", 1200.0, None), ("_int_free", "Loads", 0.0, None),
    ]  # fmt: skip
    assert tables.report.damage == {}


def test_a_tree_is_set_in_by_spaces_and_its_layout_is_not_confirmed(tmp_path):
    _, tables = read_text(tmp_path, TREE)
    assert stacks(tables) == [
        (None, "Total", None, 0),
        (None, "a.exe!main;Total", None, 500_000_000),
        (None, "a.exe!solve;a.exe!main;Total", None, 1_000_000_000),
        (None, "a.exe!save;a.exe!main;Total", None, 250_000_000),
    ]
    assert tables.report.damage == {"untried_layout": 4}


def test_other_reports_are_metrics_that_are_marked(tmp_path):
    text = "Thread,Clockticks,Microarchitecture Usage(%),TID\nworker,12345,41.0%,77\n"
    _, tables = read_text(tmp_path, text)
    assert metrics(tables) == [
        ("worker", "Clockticks", 12345.0, None),
        ("worker", "Microarchitecture Usage(%)", 41.0, "%"),
    ]
    assert tables.host_metric["confirmed"].to_pylist() == [False, False]
    assert tables.stack_sample.num_rows == 0


def test_a_summary_is_metrics_of_the_run(tmp_path):
    text = "Hierarchy Level,Metric Name,Metric Value\n0,Elapsed Time,12.5s\n1,CPI Rate,0.9\n"
    _, tables = read_text(tmp_path, text)
    assert metrics(tables) == [(None, "Elapsed Time", 12.5, "s"), (None, "CPI Rate", 0.9, None)]


@pytest.mark.parametrize(
    "head", [b"", b"Function,Calls\nf,3\n", b"Module,Size\n", b"name,CPU Time\n", b'{"Function": 1}', b"CPU Time"]
)
def test_other_tables_are_none(head):
    assert not looks_like(head)


@pytest.mark.traces
def test_the_report_of_a_real_run(shared_traces):
    file = shared_traces / "vtune" / "hotspots_function.csv"
    expected: Counter[tuple[str | None, ...]] = Counter()
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            named = (row["Module"], row["Source File"])
            module, source = (None if one == "[Unknown]" else one for one in named)
            expected[row["Function"], module, source] += round(float(row["CPU Time"]) * 1e9)
    with stepscope.open(file) as trace:
        found = trace.ask("hotspots", min_ratio=0.0).rows()
        metric = trace.sql("SELECT value FROM host_metric WHERE subject = 'max' AND metric = 'Loads'")
    times = {(row["function"], row["library"], row["file"]): row["self_ns"] for row in found}
    assert times == expected
    assert {row["total_ns"] for row in found} == {None}
    assert metric.rows() == [{"value": 1757812732800.0}]
