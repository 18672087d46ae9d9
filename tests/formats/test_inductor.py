"""Where Inductor's kernels come from, as torch 2.13 writes it (of a layer norm after a linear layer)."""

import json
import os

import pytest

import stepscope
from stepscope.formats.inductor import Origin, is_provenance, origins

FIRST = "net.py:6 in forward: return torch.relu(self.norm(self.lin(x))) + 1"
SECOND = "net.py:11 in forward: return self.head(torch.sin(self.a(x)))"
STACK = '  File "net.py", line 11, in forward\n    return self.head(torch.sin(self.a(x)))\n         ^^^^^^^\n'
INNER = STACK + '  File "net.py", line 6, in forward\n    return torch.relu(self.norm(self.lin(x))) + 1\n'
MAPPINGS = {
    "preToPost": {},
    "postToPre": {"addmm": ["linear"], "rsqrt": ["layer_norm"], "sin": ["sin"]},
    "cppCodeToPost": {"extern_kernels.addmm:1": ["addmm"], "triton_per_fused_sin_0:2": ["rsqrt", "sin"]},
    "postToCppCode": {},
}
STACKS = {"extern_kernels.addmm:1": [INNER], "triton_per_fused_sin_0:2": [INNER, STACK, INNER]}
PROGRAM = """
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4, 8]"):
        l_self_modules_a_modules_lin_parameters_weight_ = L_self_modules_a_modules_lin_parameters_weight_
        # File: net.py:6 in forward, code: return torch.relu(self.norm(self.lin(x))) + 1
        linear: "f32[4, 8]" = torch._C._nn.linear(l_x_, l_self_modules_a_modules_lin_parameters_weight_);  l_x_ = None
        layer_norm: "f32[4, 8]" = torch.layer_norm(linear, l_self_modules_a_modules_layer_norm_parameters_weight_)
        sin: "f32[4, 8]" = torch.sin(layer_norm);  l_self_modules_head_parameters_weight_ = None
"""
TRANSFORMED = """class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[8, 8]"):
        # File: net.py:6 in forward, code: return torch.relu(self.norm(self.lin(x))) + 1
        addmm: "f32[4, 8]" = torch.ops.aten.addmm.default(primals_1);  primals_1 = None
        rsqrt: "f32[4, 1]" = torch.ops.aten.rsqrt.default(addmm)

        # File: net.py:11 in forward, code: return self.head(torch.sin(self.a(x)))
        sin: "f32[4, 8]" = torch.ops.aten.sin.default(rsqrt);  rsqrt = None
"""


def entry(about, payload=""):
    head = f"V1122 15:10:36.170000 30926 torch/_inductor/compile_fx.py:1632] {json.dumps(about)}"
    return "\n".join([head, *("\t" + line for line in payload.split("\n"))])


def artifact(name, payload, compiled=0):
    about = {"artifact": {"name": name, "encoding": "json"}, "frame_id": 0}
    return entry({**about, "frame_compile_id": compiled}, json.dumps(payload))


def log(*entries):
    compiled = {"frame_id": 0, "frame_compile_id": 0}
    return "\n".join([entry({"dynamo_output_graph": {}, **compiled}, PROGRAM), *entries, ""])


PROVENANCE = (
    artifact("inductor_provenance_tracking_node_mappings", MAPPINGS),
    artifact("inductor_provenance_tracking_kernel_stack_traces", STACKS),
)


def test_a_log_has_lines_modules_and_the_key_of_the_graph(tmp_path):
    path = tmp_path / "dedicated_log_torch_trace_ab1.log"
    path.write_text(log(*PROVENANCE, artifact("fx_graph_cache_miss", {"key": "fabc"})))
    assert origins([path]) == [
        Origin("extern_kernels.addmm", "fabc", (FIRST,), ("a.lin",)),
        Origin("triton_per_fused_sin_0", "fabc", (FIRST, SECOND), ("a.layer_norm",)),
    ]


def test_a_graph_whose_key_is_not_logged_has_lines_alone(tmp_path):
    path = tmp_path / "dedicated_log_torch_trace_ab1.log"
    path.write_text(log(*PROVENANCE, artifact("fx_graph_cache_miss", {"key": "f"}, compiled=1)))
    assert [(one.graph, one.modules) for one in origins([path])] == [(None, ())] * 2


def test_a_debug_folder_leads_over_the_nodes_of_its_graph(tmp_path):
    path = tmp_path / "inductor_provenance_tracking_node_mappings.json"
    path.write_text(json.dumps(MAPPINGS))
    assert origins([path]) == []
    (tmp_path / "fx_graph_transformed.py").write_text(TRANSFORMED)
    assert origins([path]) == [
        Origin("extern_kernels.addmm", None, (FIRST,), ()),
        Origin("triton_per_fused_sin_0", None, (FIRST, SECOND), ()),
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("inductor_provenance_tracking_kernel_stack_traces.json", STACKS),
        ("kernel_information.json", {name: {"stack_traces": stacks} for name, stacks in STACKS.items()}),
    ],
)
def test_stacks_of_kernels_are_read_as_tlparse_and_aotinductor_write_them(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(json.dumps(content))
    assert is_provenance(path)
    assert [one.lines for one in origins([path])] == [(FIRST,), (FIRST, SECOND)]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", '{"a": 3}', '{"a:1": [3, null]}', "[" * 100_000, '{"cppCodeToPost": []}'],
    ids=["empty", "cut", "a list", "numbers", "no stacks", "deep", "no table"],
)
def test_what_is_damaged_has_no_origins_and_is_no_error(tmp_path, text):
    for name in (
        "kernel_information.json",
        "inductor_provenance_tracking_node_mappings.json",
        "dedicated_log_torch_trace_x.log",
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "fx_graph_transformed.py").write_text(TRANSFORMED)
    assert not any(one.lines for one in origins(sorted(tmp_path.iterdir())))


def test_kernels_of_a_trace_name_lines_and_modules_of_the_files_beside_it(tmp_path):
    event = {"ph": "X", "pid": 1, "tid": 1, "dur": 9}
    link = {"correlation": 1}
    events = [
        event | {"cat": "user_annotation", "name": "## Call CompiledFxGraph fabc ##", "ts": 1},
        event | {"cat": "cpu_op", "name": "triton_per_fused_sin_0", "ts": 2, "dur": 7},
        event | {"cat": "cuda_runtime", "name": "cuLaunchKernel", "ts": 3, "dur": 1, "args": link},
        event | {"cat": "kernel", "name": "triton_per_fused_sin_0", "pid": 0, "ts": 20,
                 "args": link | {"device": 0, "stream": 7}},
    ]  # fmt: skip
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    folder = tmp_path / "torch_compile_debug"
    folder.mkdir()
    file = folder / "dedicated_log_torch_trace_ab1.log"
    file.write_text(log(*PROVENANCE, artifact("fx_graph_cache_miss", {"key": "fabc"})))
    with stepscope.open(tmp_path, cache=False) as trace:
        (row,) = trace.kernels(by="source").rows()
    assert json.loads(row["program_lines"]) == [FIRST, SECOND]
    assert json.loads(row["program_modules"]) == ["a.layer_norm"]


def test_a_pipe_of_such_a_name_is_not_waited_for(tmp_path):
    pipe = tmp_path / "kernel_information.json"
    os.mkfifo(pipe)
    assert origins([pipe]) == []
