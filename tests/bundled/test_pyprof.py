"""PyProf's net.dict: what a line says, what cannot be known from it, and lines that are none."""

import shlex

import pytest
from tests.bundled.nvprof.databases import call, tensor

import stepscope
from stepscope.base.errors import SourceError
from stepscope.bundled.pyprof import read
from stepscope.cli.main import main
from stepscope.formats.container import members
from stepscope.formats.registry import format_of

FORWARD, BACKWARD = 11, 22


def kernel(name="gemm", dur=10, markers=(), operators=(), tid=FORWARD, **more):
    return repr(
        {
            "kShortName": name, "kDuration": dur, "layer": [], "trace": [], "reprMarkers": [],
            "marker": list(markers), "seqMarker": list(operators), "seqId": [], "subSeqId": 0,
            "altSeqId": [], "dir": "fprop", "mod": ["na"], "op": ["na"], "tid": tid, "device": 0,
            "stream": 7, "grid": (640, 1, 1), "block": (128, 1, 1),
            "kLongName": f"void at::{name}<float>(int)", **more,
        }
    )  # fmt: skip


@pytest.fixture
def tables(tmp_path):
    def of(*lines: str, **options):
        file = tmp_path / "net.dict"
        file.write_text("\n".join(lines) + "\n")
        (member,) = members(file)
        assert format_of(member).name == "pyprof"
        return read(member, **options)

    return of


def names(tables):
    rows = tables.host_event.to_pylist()
    return [row["name"] for row in rows if row["kind"] != "runtime"]


def test_a_line_is_a_kernel_with_its_launch_shape(tables):
    made = tables(kernel("gemm", 10), kernel("relu", 0, stream=8))
    first, second = made.device_event.to_pylist()
    assert (first["name"], first["dur_ns"], first["stream"]) == ("void at::gemm<float>(int)", 10, 7)
    assert [first[f"grid_{axis}"] for axis in "xyz"] == [640, 1, 1]
    assert second["start_ns"] == first["start_ns"] + 10  # one after another: no line says when
    assert made.report.damage == {"no_moments": 2}


def test_markers_become_functions_and_operators_with_their_inputs(tables):
    linear = call("torch.nn.functional", "linear", tensor(8, 4))
    matmul = call("Tensor", "matmul", tensor(8, 4), tensor(4, 2))
    made = tables(kernel(markers=[linear, matmul], operators=["matmul, seq = 7", "mm, seq = 8"]))
    assert names(made) == ["torch.nn.functional.linear", "Tensor.matmul", "aten::matmul", "aten::mm"]
    (inputs,) = made.operator_input.to_pylist()
    assert inputs["dims"] == "[[8, 4], [4, 2]]"


def test_kernels_of_one_call_share_it_and_a_kernel_that_repeats_begins_another(tables):
    equal = call("torch", "equal", tensor(4), tensor(4))
    passes = ("compare", "reducePass1", "reducePass2")
    lines = [kernel(one, markers=[equal], operators=["equal, seq = 70"]) for one in passes * 2]
    assert names(tables(*lines)) == ["torch.equal", "aten::equal"] * 2


def test_two_products_within_a_node_are_two_calls_with_the_inputs_that_follow(tables):
    product = call("torch", "mm", tensor(8, 4), tensor(4, 2))
    node = ["mm, seq = 0", "MmBackward, seq = 5"]
    made = tables(
        kernel(markers=[product], operators=["mm, seq = 5"]),
        kernel("volta_sgemm_32x32_nt", operators=node, tid=BACKWARD),
        kernel("volta_sgemm_32x32_nn", operators=node, tid=BACKWARD),
    )
    backward = [row for row in made.host_event.to_pylist() if row["thread"] == 1]
    assert [row["name"] for row in backward if row["kind"] == "operator"] == ["MmBackward", "aten::mm", "aten::mm"]
    dims = {row["input_id"]: row["dims"] for row in made.operator_input.to_pylist()}
    found = [dims.get(row["input_id"]) for row in backward if row["name"] == "aten::mm"]
    assert sorted(found) == ["[[4, 8], [8, 2]]", "[[8, 2], [2, 4]]"]


def test_an_operator_that_pyprof_left_out_is_the_one_its_function_stands_for(tables):
    dropout = call("torch.nn.functional", "dropout", tensor(8, 4))
    made = tables(kernel(markers=[dropout], operators=["_fused_dropout, seq = 69"]))
    assert names(made) == ["torch.nn.functional.dropout", "aten::dropout", "aten::_fused_dropout"]


def test_the_stack_and_the_layers_of_a_launch_are_kept(tables):
    made = tables(kernel(operators=["mm, seq = 1"], trace=["a.py:1", "b.py:2"], layer=["layer:head"]))
    assert names(made) == ["layer:head", "aten::mm"]
    assert made.call_stack.to_pylist() == [{"stack_id": 0, "frames": "b.py:2;a.py:1"}]


@pytest.mark.parametrize(
    "line",
    [
        "{'kShortName': __import__('os').system('true'), 'kDuration': 1}", "{'kShortName': 'x', 'kDuration': -1}",
        "{'kShortName': 'x', 'kDuration': True}", "{'kShortName': 7, 'kDuration': 1}",
        "{'kShortName': 'x', 'kDuration': " + "[" * 100 + "]" * 100 + "}",
        "{'kShortName': 'x', 'kDuration': " + "-" * 3000 + "1}",
        "{'kShortName': '" + "x" * (1 << 18) + "', 'kDuration': 1}", "{'kShortName': 'x', 'kDur",
        "['kShortName', 'kDuration']", "\x00\x01",
    ],
)  # fmt: skip
def test_a_line_that_is_no_kernel_is_counted_and_the_others_are_read(tables, line):
    made = tables(kernel(), line, kernel())
    assert made.device_event.num_rows == 2
    assert (made.report.dropped, made.report.damage["unreadable"]) == (1, 1)


@pytest.mark.parametrize(
    "odd",
    [
        {"grid": (1, 2)}, {"grid": "wide"}, {"block": (1 << 40, 1, 1)}, {"device": -1},
        {"stream": None}, {"tid": "x"}, {"trace": [1, None]}, {"layer": "x"}, {"kLongName": 3},
        {"marker": ["x"] * 5000}, {"seqMarker": [["mm"]]},
    ],
)  # fmt: skip
def test_values_of_another_type_are_left_out_and_the_kernel_kept(tables, odd):
    assert tables(kernel(**odd)).device_event.num_rows == 1


def test_a_list_without_a_kernel_is_no_recording(tables):
    with pytest.raises(SourceError, match="no line of this file is a kernel"):
        tables("{'kShortName': 'x', 'kDuration': 'long'}")


def test_answers_that_rest_on_when_things_ran_are_marked(tmp_path):
    file = tmp_path / "net.dict"
    file.write_text(kernel(operators=["mm, seq = 1"]))
    with stepscope.open(file, cache=False) as trace:
        assert trace.device_time().unreliable
        assert trace.operators().unreliable
        assert [row["total_ns"] for row in trace.gpu_summary().rows()] == [10]


@pytest.mark.traces
@pytest.mark.parametrize(
    ("line", "head"),
    [
        ("-w 150", None), ("--csv", "idx,"), ("", None),
        ("-w 130 -c kernel,op,sil,tc,flops,bytes,device,stream,block,grid", None),
        ("--csv -c idx,dir,kernel,params,sil", "idx,dir,kernel,params,sil"), ("-c idx,dir,kernel,params,sil", None),
    ],
)  # fmt: skip
def test_the_command_lines_of_pyprofs_manual_work_on_its_own_file(shared_traces, capsys, line, head):
    file = shared_traces / "nvprof" / "v100_language_model.pyprof.dict"
    assert main(["prof", *shlex.split(line), str(file)]) == 0
    out = capsys.readouterr().out
    if head is None:
        assert "indexSelectLargeIndex" in out
        assert "durations_only" in out
        return
    header, *rows = out.splitlines()
    assert head in header
    assert len(rows) == 160


@pytest.mark.traces
def test_the_list_says_what_the_database_says_that_it_was_made_of(shared_traces):
    folder = shared_traces / "nvprof"
    with stepscope.open(folder / "v100_language_model.sql.gz") as trace:
        database = trace.prof().rows()
    with stepscope.open(folder / "v100_language_model.pyprof.dict") as trace:
        listed = trace.prof().rows()
    assert sum(row["sil"] for row in listed) == 7_296_770
    alike = ("idx", "seq", "altseq", "tid", "layer", "dir", "sub", "kernel", "sil", "device", "stream", "grid", "block")
    differing = [
        {name for name in one if one[name] != other[name]} for one, other in zip(database, listed, strict=True)
    ]
    assert not any(names & set(alike) for names in differing)
    # The gradient of `chunk`, whose forward launched nothing, and sums and additions between nodes
    # that launched nothing: PyProf lists only what launched a kernel.
    assert sum("op" in names for names in differing) == 3
    assert sum("flops" in names for names in differing) == 30
    assert sum(row["flops"] or 0 for row in database) == 29_579_494_384
    assert sum(row["flops"] or 0 for row in listed) == 29_537_986_306
