"""The script that makes recorded calls again: nothing of a trace is code, and torch records the same calls."""

import ast
import json
import sys
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from stepscope.analysis.operators.replayed_calls import heaviest_calls
from stepscope.api.trace import open_trace
from stepscope.base.errors import SourceError, UsageError
from stepscope.report.replay_script import replay_script

MM = {
    "input_id": 0,
    "dims": "[[8, 4], [4, 2]]",
    "types": '["float", "float"]',
    "strides": "[[4, 1], [2, 1]]",
    "values": '["", ""]',
}


def recording(kernel="gemm", device="NVIDIA H100", **given):
    return {
        "operator_input": [MM | given],
        "host_event": [{"id": 0, "name": "aten::mm", "input_id": 0, "dur_ns": 9000, "device_ns": 2500}],
        "device_event": [{"name": kernel, "dur_ns": 2500, "operator_id": 0}],
        "device": [{"device": 0, "kind": "cuda", "name": device, "used": True}],
    }


def script_of(scope, source="a.json", pattern="*", top=3):
    return replay_script(scope, heaviest_calls(scope, "operator", pattern, top), source)


def literals(text):
    """What RECORDED and CALLS are, and the rest of the program."""
    tree = ast.parse(text)
    found = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("RECORDED", "CALLS")
    }
    rest = [
        ast.dump(node)
        for node in tree.body
        if not isinstance(node, ast.Assign) or getattr(node.targets[0], "id", "") not in found
    ]
    return found, rest


def test_a_script_has_the_recorded_call(make_scope):
    script = script_of(make_scope(recording()))
    found, _ = literals(script.text)
    assert found == {
        "RECORDED": {"source": "a.json", "device": "NVIDIA H100"},
        "CALLS": [
            {
                "operator": "aten::mm",
                "inputs": [
                    {"shape": [8, 4], "dtype": "float32", "strides": [4, 1]},
                    {"shape": [4, 2], "dtype": "float32", "strides": [2, 1]},
                ],
                "assumed": [],
                "within": "",
                "calls": 1,
                "host_ns": 9000,
                "device_ns": 2500,
                "kernels": ["gemm"],
            }
        ],
    }
    assert (script.calls, script.left_out) == (1, ())


HOSTILE = '"""\n\')]; import os; os.system("id") # \x1b[31m\u202e\N{CYRILLIC SMALL LETTER A}'


def test_nothing_of_a_recording_becomes_code(make_scope):
    plain = script_of(make_scope(recording()))
    hostile = script_of(make_scope(recording(HOSTILE, HOSTILE)), HOSTILE)
    assert literals(hostile.text)[1] == literals(plain.text)[1]
    assert hostile.text.isascii()
    found, _ = literals(hostile.text)
    for text in (found["RECORDED"]["source"], found["RECORDED"]["device"], *found["CALLS"][0]["kernels"]):
        assert text.isprintable()


@pytest.mark.parametrize("name", ["aten::mm(); import os", "aten::mm\n", "os::system", "aten::__Class"])
def test_an_operators_name_that_is_none_is_not_replayed(make_scope, name):
    rows = recording()
    rows["host_event"][0]["name"] = name
    with pytest.raises(UsageError, match="no operator of torch"):
        script_of(make_scope(rows))


def test_what_is_left_out_is_said_and_nothing_left_is_an_error(make_scope):
    rows = recording()
    rows["operator_input"].append({"input_id": 1, "dims": "[[]]", "types": '["TensorList"]'})
    rows["host_event"].append({"id": 1, "name": "aten::cat", "input_id": 1, "dur_ns": 1})
    script = script_of(make_scope(rows))
    assert script.calls == 1
    assert script.left_out == (
        "aten::cat [[]]: input 0: a list of tensors that is not recorded: PyTorch leaves lists of more than 30 out",
    )
    with pytest.raises(SourceError, match="none of the calls can be made again"):
        script_of(make_scope(rows), pattern="cat")


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes a module of a script."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # the next script has the same name

    def load(text):
        path = tmp_path / "replayed.py"
        path.write_text(text)
        spec = spec_from_file_location("replayed", path)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def recorded_calls(path, name):
    keys = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
    events = json.loads(path.read_text())["traceEvents"]
    return [
        [event["args"].get(key) for key in keys]
        for event in events
        if event.get("cat") == "cpu_op" and event["name"] == name
    ]


def _work(torch):
    """What is recorded: an operator's name to a call that makes it."""
    from torch.nn import functional

    rand, half, brain = torch.rand, torch.float16, torch.bfloat16
    image = rand(2, 3, 16, 16).contiguous(memory_format=torch.channels_last)
    heads = [rand(1, 8, 2, 16).to(half).transpose(1, 2) for _ in range(3)]
    table, labels, counts = rand(100, 8), torch.randint(0, 10, (6,)), torch.ones(4, 3, dtype=int)
    mask, grown = rand(4, 3) > 0.5, rand(4, 3)
    return {
        "aten::mm": lambda: torch.mm(rand(8, 4), rand(2, 4).t()),
        "aten::addmm": lambda: torch.addmm(rand(2), rand(8, 4), rand(4, 2), beta=0.5),
        "aten::linear": lambda: functional.linear(rand(8, 4).to(brain), rand(2, 4).to(brain)),
        "aten::conv2d": lambda: functional.conv2d(image, rand(4, 3, 3, 3), stride=2, padding=1),
        "aten::softmax": lambda: functional.softmax(rand(4, 6).to(brain), -1),
        "aten::layer_norm": lambda: functional.layer_norm(rand(4, 6), (6,), rand(6), rand(6)),
        "aten::embedding": lambda: functional.embedding(torch.randint(0, 100, (5, 3)), table),
        "aten::cross_entropy_loss": lambda: functional.cross_entropy(rand(6, 10), labels),
        "aten::scaled_dot_product_attention": lambda: functional.scaled_dot_product_attention(*heads, is_causal=True),
        "aten::cat": lambda: torch.cat([rand(4, 3), rand(2, 3)], 0),
        "aten::add_": lambda: grown.expand(4, 3).add_(rand(4, 3), alpha=0.5),
        "aten::masked_fill_": lambda: grown.masked_fill_(mask, float("-inf")),
        "aten::mul": lambda: (counts * 2, rand(4, 1).expand(4, 3).mul(1.5)),
        "aten::to": lambda: rand(4, 3).to(brain),
        "aten::zeros": lambda: torch.zeros(3, 4),
        "aten::resize_": lambda: torch.empty(0).resize_(3),
    }


@pytest.mark.torch
def test_torch_records_a_replayed_call_as_it_was_recorded(program, tmp_path, monkeypatch, capsys):
    import torch

    calls = _work(torch)
    with torch.no_grad(), torch.profiler.profile(record_shapes=True) as recorder:
        for call in calls.values():
            call()
    path = tmp_path / "before.json"
    recorder.export_chrome_trace(str(path))
    monkeypatch.setattr(sys, "argv", ["replayed.py", "--once"])
    with open_trace(path, cache=False) as trace, trace.scope() as scope:
        scripts = {name: script_of(scope, pattern=name, top=30) for name in calls}
    replayed = tmp_path / "after.json"
    with torch.profiler.profile(record_shapes=True) as after:
        for name, script in scripts.items():
            assert not script.left_out
            assert program(script.text).main() == 0, (name, capsys.readouterr().out)
    after.export_chrome_trace(str(replayed))
    said = capsys.readouterr().out
    assert "cannot be made" not in said
    for name in calls:
        again = recorded_calls(replayed, name)
        before = recorded_calls(path, name)
        assert before
        assert all(call in again for call in before), name


@pytest.mark.torch
def test_a_script_times_its_calls(program, make_scope, capsys):
    assert program(script_of(make_scope(recording())).text).main() == 0
    said = capsys.readouterr().out
    assert "aten::mm; calls in the recording: 1\n" in said
    assert "shapes, types and strides are as recorded" in said
    assert "host: median " in said
    assert "recorded: mean 2.5 us on NVIDIA H100" in said


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "dims", "types", "why"),
    [
        ("aten::no_such_thing", "[[2]]", '["float"]', "has no such operator"),
        ("aten::mm", "[[2, 2]]", '["float"]', "no overload of torch"),
        ("aten::batch_norm", "[[2,3],[3],[3],[3],[3],[],[],[],[]]",
         '["float","float","float","float","float","Bool","Double","Double","Bool"]',
         "its argument training is not recorded, and has no default"),
        ("aten::mm", "[[1000000000, 1000000], [1000000, 1]]", '["float", "float"]', "its inputs take"),
        ("aten::mm", "[[2, 2], [3, 3]]", '["float", "float"]', "mat1 and mat2"),
    ],
)  # fmt: skip
def test_what_this_torch_cannot_make_is_said(program, make_scope, capsys, name, dims, types, why):
    rows = recording(dims=dims, types=types, strides=None, values=None)
    rows["host_event"][0]["name"] = name
    assert program(script_of(make_scope(rows)).text).main() == 1
    assert why in capsys.readouterr().out


@pytest.mark.torch
@pytest.mark.parametrize(
    ("device", "ran", "code"),
    [("NVIDIA H100", {"gemm"}, 0), ("NVIDIA H100", {"other"}, 3), ("NVIDIA A100", {"other"}, 0)],
)
def test_other_kernels_than_recorded_fail_on_the_recorded_device_alone(
    program, make_scope, monkeypatch, capsys, device, ran, code
):
    """The device is a stand-in: what it ran is given here."""
    import torch

    script = program(script_of(make_scope(recording())).text)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: device)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 30, 1 << 30))
    monkeypatch.setattr(script, "ON_GPU", True)
    monkeypatch.setattr(script, "time_runs", lambda *_: [1.0, 2.0, 3.0])
    monkeypatch.setattr(script, "kernels_of", lambda *_: (ran, 2.0))
    assert script.main() == code
    said = capsys.readouterr().out
    assert ("kernel recorded, and not run: gemm" in said) == (ran != {"gemm"})
    assert ("kernel run, and not recorded: other" in said) == (ran != {"gemm"})
