"""The ranges that recording with --nvtx writes, read back from an export of Nsight Systems."""

import pytest
from tests.formats.nsys.exports import Nsys

import stepscope

START_END = 60
TYPES = 'types = ["float16", "float16"]'


@pytest.fixture
def trace(tmp_path):
    nsys = Nsys(tmp_path / "report.sqlite")
    nsys.range(0, 1000, "stepscope_capture", kind=START_END, registered=True)
    for step, at in ((100, 0), (101, 500)):
        nsys.range(at, at + 500, f"ProfilerStep#{step}", kind=START_END)
        nsys.range(at + 10, at + 30, "phase: input_wait", kind=START_END)
        nsys.range(at + 40, at + 140, "phase: forward", kind=START_END)
        nsys.range(at + 41, at + 139, "nn.Module: Net (Net, model)")
        nsys.range(at + 50, at + 130, "nn.Module: body.0 (Linear)")
        mm = f"aten::mm, seq = {step}, sizes = [[8, 4], [4, 2]], {TYPES}"
        nsys.range(at + 60, at + 100, mm)
        nsys.launch(at + 70, step, "gemm", at + 75, at + 95)
        nsys.range(at + 141, at + 149, "phase: loss", kind=START_END)
        nsys.range(at + 150, at + 300, "phase: backward", kind=START_END)
        nsys.range(at + 160, at + 290, f"MmBackward0, seq = {step}", kind=START_END)
        nsys.range(at + 170, at + 200, f"aten::mm, sizes = [[4, 8], [8, 2]], {TYPES}")
        nsys.launch(at + 180, step + 1000, "gemm_tn", at + 185, at + 195)
        nsys.range(at + 310, at + 400, "phase: optimizer", kind=START_END)
        sgd = 'sizes = [[4, 2], [4, 2], []], types = ["float16", "float16", "Scalar"]'
        nsys.range(at + 320, at + 350, f'aten::add_, {sgd}, values = ["", "", "-0.1"]')
    with stepscope.open(nsys.path, cache=False) as opened:
        yield opened


def _rows(answer):
    return [tuple(row.values()) for row in answer.rows()]


def test_kernels_have_their_operator_module_direction_and_step(trace):
    found = trace.sql(
        "SELECT device_event.name, operator_name, path, class, direction, step FROM device_event "
        "JOIN module USING (rank, span, module_id) ORDER BY start_ns"
    )
    assert _rows(found) == [
        ("gemm", "aten::mm", "body.0", "Linear", "forward", 100),
        ("gemm_tn", "aten::mm", "body.0", "Linear", "backward", 100),
        ("gemm", "aten::mm", "body.0", "Linear", "forward", 101),
        ("gemm_tn", "aten::mm", "body.0", "Linear", "backward", 101),
    ]


def test_the_model_is_the_root_and_named_by_its_class(trace):
    found = trace.sql("SELECT path, class, calls FROM module ORDER BY module_id")
    assert _rows(found) == [("Net", "Net", 2), ("body", None, 0), ("body.0", "Linear", 2)]


def test_operators_have_shapes_types_and_values(trace):
    found = trace.sql(
        "SELECT DISTINCT name, dims, types, values, direction FROM host_event "
        "JOIN operator_input USING (rank, span, input_id) ORDER BY dims"
    )
    half = '["c10::Half", "c10::Half"]'
    assert _rows(found) == [
        (
            *("aten::add_", "[[4, 2], [4, 2], []]", '["c10::Half", "c10::Half", "Scalar"]'),
            *('["", "", "-0.1"]', "optimizer"),
        ),
        ("aten::mm", "[[4, 8], [8, 2]]", half, None, "backward"),
        ("aten::mm", "[[8, 4], [4, 2]]", half, None, "forward"),
    ]


def test_work_follows_from_shapes_and_types(trace):
    rows = trace.prof().rows()
    assert [(row["kernel"], row["flops"], row["bytes"]) for row in rows[:2]] == [
        ("gemm", 2 * 8 * 4 * 2, 2 * (8 * 4 + 4 * 2 + 8 * 2)),
        ("gemm_tn", 2 * 4 * 8 * 2, 2 * (4 * 8 + 8 * 2 + 4 * 2)),
    ]


def test_damaged_texts_are_ranges_or_operators_without_inputs(tmp_path):
    nsys = Nsys(tmp_path / "report.sqlite")
    sizes = "sizes = [[8, 4]]"
    texts = (
        f'aten::relu, {sizes}, types = ["float32", "float32"]',
        f"aten::relu, {sizes}, types = [7]",
        f"aten::relu, {sizes}, types = []",
        f'aten::relu, {sizes}, types = ["float32"], values = {"[" * 50_000}{"]" * 50_000}',
        f'aten::relu, sizes = {"[" * 500}{"]" * 500}, types = ["float32"]',
        f'aten::relu, {sizes}, types = ["float32"], values = ["", ""]',
        'types of aten::relu, sizes = [3], types = ["float32"]',
    )
    for place, text in enumerate(texts):
        nsys.range(10 * place, 10 * place + 5, text)
    tables = nsys.read()
    assert {row["name"] for row in tables.host_event.to_pylist()} == {"aten::relu"}
    dims = [(row["dims"], row["types"], row["values"]) for row in tables.operator_input.to_pylist()]
    assert dims == [("[[8, 4]]", None, None), ("[[8, 4]]", '["float"]', None)]


def test_settings_of_the_job_are_those_of_its_process(tmp_path):
    nsys = Nsys(tmp_path / "report.sqlite")
    for pid, said in ((8, '{"torch": "2.7.0"}'), (7, "{1}"), (9, "{" * 9000 + "}")):
        nsys.range(0, 1, f"settings {said}, stepscope", kind=START_END, pid=pid, registered=True)
        nsys.range(5, 9, "aten::mm", pid=pid)
    nsys.range(0, 1, 'settings {"torch": "2.8.0"}, stepscope', pid=7, registered=True)
    stated = [nsys.read(f"pid {pid}").facts.metadata.get("settings") for pid in (7, 8, 9)]
    assert stated == [{"torch": "2.8.0"}, {"torch": "2.7.0"}, None]
    with stepscope.open(nsys.path, cache=False) as opened:
        assert _rows(opened.sql("SELECT DISTINCT name FROM host_event")) == [("aten::mm",)]


def test_modules_without_the_model_are_known_by_their_paths(tmp_path):
    nsys = Nsys(tmp_path / "report.sqlite")
    nsys.range(0, 50, "nn.Module: body.0 (Linear)").range(10, 20, "aten::relu")
    with stepscope.open(nsys.path, cache=False) as opened:
        assert _rows(opened.sql("SELECT path FROM module")) == [("body",), ("body.0",)]


def test_phases_are_those_of_the_captured_steps_and_have_no_verdict(trace):
    answer = trace.phases()
    rows = {row["phase"]: (row["steps"], row["mean_ns"]) for row in answer.rows()}
    assert rows == {
        "step": (2, 500.0), "input_wait": (2, 20.0),
        "forward": (2, 108.0),  # 8 of them the loss
        "backward": (2, 150.0), "optimizer": (2, 90.0), "residual": (2, 132.0),
    }  # fmt: skip
    assert all(row["verdict"] is None for row in answer.rows())
    assert [row["step"] for row in trace.phases(by="step").rows()] == [100, 101]


def test_the_rank_of_a_process_is_the_one_that_it_wrote(tmp_path):
    nsys = Nsys(tmp_path / "report.sqlite")
    for pid, rank in ((144, 5), (145, 3)):
        text = f"rank {rank} of 8, stepscope"
        nsys.range(0, 1, text, pid=pid, tid=pid, kind=START_END, registered=True)
        nsys.range(10, 20, f"aten::mm, op_id = {rank}", pid=pid, tid=pid)
    with stepscope.open(nsys.path, cache=False) as opened:
        found = opened.sql("SELECT rank, world_size, rank_rule, pid FROM rank ORDER BY rank")
        assert _rows(found) == [(3, 8, "recorder", 145), (5, 8, "recorder", 144)]
        assert not any(row["check"] == "ranks_guessed" for row in opened.checks().rows())


def test_types_that_are_told_apart_go_to_the_operators_of_their_sizes(tmp_path):
    nsys = Nsys(tmp_path / "report.sqlite")
    told = (
        'aten::mm, sizes = [[8, 4], [4, 2]], types = ["float32", "float32"]',
        'aten::cat, sizes = [[[2], [3]], []], types = ["TensorList", "Scalar"], values = ["", "0"]',
        'aten::relu, sizes = [[3]], types = ["float16"]',
        'aten::relu, sizes = [[3]], types = ["float32"]',
        'aten::view, sizes = [[6], []], types = ["int64", "ScalarList"], values = ["", "[2, 3]"]',
        'aten::view, sizes = [[6], []], types = ["int64", "ScalarList"], values = ["", "[3, 2]"]',
    )
    for place, text in enumerate(told):
        nsys.range(place, place + 1, f"types of {text}", kind=START_END)
    calls = ("mm, seq = 3, op_id = 4, sizes = [[8, 4], [4, 2]]", "cat, op_id = 5, sizes = [[], []]",
             "relu, op_id = 6, sizes = [[3]]", "view, op_id = 7, sizes = [[6], []]")  # fmt: skip
    for place, text in enumerate(calls):
        nsys.range(20 + place, 21 + place, f"aten::{text}")
    with stepscope.open(nsys.path, cache=False) as opened:
        found = opened.sql(
            "SELECT name, types, values FROM host_event JOIN operator_input USING (rank, span, input_id) "
            "ORDER BY start_ns"
        )
        assert _rows(found) == [
            ("aten::mm", '["float", "float"]', None), ("aten::cat", '["TensorList", "Scalar"]', '["", "0"]'),
            ("aten::relu", None, None), ("aten::view", '["long int", "ScalarList"]', None),
        ]  # fmt: skip
        assert opened.sql("SELECT count(*) AS n FROM host_event").rows() == [{"n": 4}]
