"""The modules of the model and what belongs to them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.link.module_names import ModuleName, hierarchy_module, range_module
from stepscope.link.modules import DEEPEST_MODULE, levels, without_circles


def tree(linked):
    paths = linked.column("module", "path")
    return {
        row["path"]: (None if row["parent_id"] is None else paths[row["parent_id"]], row["calls"])
        for row in linked.rows("module")
    }


def module_of(linked, row):
    module = linked.host(row)["module_id"]
    return None if module is None else linked.column("module", "path")[module]


def test_python_frames_make_the_tree_and_repeated_calls_one_node(recording):
    operators = []
    for start in (0, 1000):
        recording.python("nn.Module: Net_0", start, start + 500, python_module_id=0)
        recording.python("net.py(7): forward", start + 10, start + 490)
        recording.python("nn.Module: Linear_0", start + 20, start + 100, python_module_id=0)
        operators.append(recording.operator("aten::linear", start + 30, start + 90))
        recording.python("nn.Module: Linear_1", start + 200, start + 300, python_module_id=1)
    linked = recording.link()
    assert tree(linked) == {"Net_0": (None, 2), "Net_0.Linear_0": ("Net_0", 2), "Net_0.Linear_1": ("Net_0", 2)}
    assert [module_of(linked, row) for row in operators] == ["Net_0.Linear_0"] * 2
    assert linked.column("module", "class") == ["Net", "Linear", "Linear"]
    assert linked.column("module", "depth") == [0, 1, 1]
    assert set(linked.column("module", "rule")) == {"python"}


def test_modules_that_the_recorder_lists_keep_their_paths_when_stacks_are_recorded(recording):
    recording.module_classes = {"": "Net", "head": "torch.nn.Linear"}
    recording.python("nn.Module: Net_0", 0, 500)
    recording.annotation("nn.Module: Net", 10, 490)
    recording.python("nn.Module: Linear_0", 20, 400)
    recording.annotation("nn.Module: head", 30, 390)
    operator = recording.operator("aten::linear", 40, 380)
    linked = recording.link()
    assert tree(linked) == {"Net": (None, 1), "head": ("Net", 1)}
    assert linked.column("module", "class") == ["Net", "Linear"]
    assert module_of(linked, operator) == "head"


def test_one_module_used_in_two_places_is_two_nodes(recording):
    for start, outer in ((0, "A_0"), (100, "B_0")):
        recording.python(f"nn.Module: {outer}", start, start + 90, python_module_id=0)
        recording.python("nn.Module: Shared_0", start + 10, start + 80, python_module_id=0)
    assert set(tree(recording.link())) == {"A_0", "A_0.Shared_0", "B_0", "B_0.Shared_0"}


def test_frames_name_their_caller_also_where_times_do_not_nest(recording):
    # The inner frame's end was lost: it runs on past the outer one's.
    recording.python("nn.Module: Net_0", 0, 100, python_id=1, python_parent_id=9)
    recording.python("net.py(7): forward", 5, 95, python_id=2, python_parent_id=1)
    recording.python("nn.Module: Head_0", 50, 400, python_id=3, python_parent_id=2)
    assert tree(recording.link())["Net_0.Head_0"] == ("Net_0", 1)


def test_frames_that_call_each_other_in_a_circle_do_no_harm(recording):
    recording.python("nn.Module: A_0", 0, 100, python_id=1, python_parent_id=2)
    recording.python("nn.Module: B_0", 10, 90, python_id=2, python_parent_id=1)
    recording.python("nn.Module: C_0", 20, 30, python_id=3, python_parent_id=3)
    assert len(recording.link().rows("module")) == 3


def test_damaged_frame_numbers_fall_back_to_times(recording):
    recording.python("nn.Module: A_0", 0, 100, python_id=2**31 - 1, python_parent_id=5)
    recording.python("nn.Module: B_0", 10, 90, python_id=2, python_parent_id=2**31 - 1)
    assert set(tree(recording.link())) == {"A_0", "A_0.B_0"}


def test_backward_belongs_to_the_module_of_its_forward(recording):
    recording.python("nn.Module: Net_0", 0, 100)
    recording.python("nn.Module: Linear_0", 10, 60)
    recording.operator("aten::addmm", 20, 40, sequence_number=7)
    recording.launch(25, 30, 1)
    recording.operator("autograd::engine::evaluate_function: AddmmBackward0", 200, 290, 1,
                       sequence_number=7, forward_thread=1)  # fmt: skip
    inner = recording.operator("aten::mm", 210, 250, 1)
    recording.launch(220, 230, 2, thread=1)
    gradient = recording.operator("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 300, 340, 1)
    reduction = recording.operator("c10d::allreduce_", 310, 330, 1)
    other = recording.operator("aten::zero_", 400, 410, 1)
    recording.kernel(1000, 1010, 1)
    recording.kernel(1010, 1040, 2)
    linked = recording.link()
    assert [module_of(linked, row) for row in (inner, gradient)] == ["Net_0.Linear_0"] * 2
    assert [module_of(linked, row) for row in (reduction, other)] == [None, None]
    assert linked.attributed()["module"] == 40
    assert linked.rows("module")[1]["calls"] == 1


def test_hierarchy_of_a_scripted_model_makes_the_tree(recording):
    texts = ("TOP(Net)::forward.", "TOP()::<forward op>.SELF(Net)::call_b.body(Block)::forward.lin(Linear)::forward.")
    rows = [recording.operator("aten::add", 10 * n, 10 * n + 5, module_hierarchy=text) for n, text in enumerate(texts)]
    recording.operator("aten::mm", 12, 14)
    linked = recording.link()
    assert tree(linked) == {"Net": (None, 1), "body": ("Net", 1), "body.lin": ("body", 1)}
    assert [module_of(linked, row) for row in [*rows, 2]] == ["Net", "body.lin", "body.lin"]
    assert linked.column("module", "class") == ["Net", None, "Linear"]


def test_empty_hierarchy_makes_no_module(recording):
    row = recording.operator("aten::add", 0, 5, module_hierarchy="")
    linked = recording.link()
    assert linked.rows("module") == []
    assert linked.host(row)["module_id"] is None


def test_ranges_that_name_modules_make_the_tree(recording):
    recording.annotation("[pl][module]torch.nn.modules.linear.Linear: net.head", 0, 50)
    row = recording.operator("aten::linear", 10, 40)
    recording.annotation("module:net.body.0", 60, 90)
    recording.annotation("## forward ##", 100, 200)
    linked = recording.link()
    assert tree(linked) == {
        "net": (None, 0), "net.head": ("net", 1), "net.body": ("net", 0), "net.body.0": ("net.body", 1),
    }  # fmt: skip
    assert module_of(linked, row) == "net.head"
    assert set(linked.column("module", "rule")) == {"annotation"}


def test_listed_modules_are_parts_of_the_model(recording):
    recording.module_classes = {
        "": "train.main.<locals>.GPT", "layers": "ModuleList", "layers.0": "Block", "head": "Linear",
    }  # fmt: skip
    rows = []
    recording.annotation("nn.Module: GPT", 0, 100)
    rows.append(recording.operator("aten::arange", 5, 10))
    recording.annotation("nn.Module: layers.0", 20, 60)
    rows.append(recording.operator("aten::mm", 30, 50))
    recording.annotation("nn.Module: head", 70, 90)
    recording.annotation("nn.Module: head", 110, 120)  # a call of the job's, outside of the model's
    rows.append(recording.operator("aten::addmm", 112, 118))
    recording.annotation("module:elsewhere", 130, 140)
    linked = recording.link()
    assert tree(linked) == {
        "GPT": (None, 1), "layers": ("GPT", 0), "layers.0": ("layers", 1), "head": ("GPT", 2),
        "elsewhere": (None, 1),
    }  # fmt: skip
    assert linked.column("module", "class") == ["GPT", "ModuleList", "Block", "Linear", None]
    assert linked.column("module", "depth") == [0, 1, 2, 1, 0]
    assert [module_of(linked, row) for row in rows] == ["GPT", "layers.0", "head"]


def test_a_model_that_is_never_called_itself_is_one_node_all_the_same(recording):
    recording.module_classes = {"": "ModuleList", "0": "Generator", "1": "Critic"}
    recording.annotation("nn.Module: 0", 0, 10)
    recording.annotation("nn.Module: 1", 20, 30)
    assert tree(recording.link()) == {"ModuleList": (None, 0), "0": ("ModuleList", 1), "1": ("ModuleList", 1)}


def test_a_part_may_have_the_models_class_for_a_name(recording):
    recording.module_classes = {"": "head", "head": "Linear"}
    recording.annotation("nn.Module: (head)", 0, 50)
    recording.annotation("nn.Module: head", 10, 40)
    row = recording.operator("aten::addmm", 20, 30)
    linked = recording.link()
    assert tree(linked) == {"(head)": (None, 1), "head": ("(head)", 1)}
    assert linked.column("module", "class") == ["head", "Linear"]
    assert module_of(linked, row) == "head"


def test_a_list_of_modules_makes_none_that_did_not_run(recording):
    recording.module_classes = {"": "Net", "fc": "Linear"}
    recording.annotation("## forward ##", 0, 50)
    assert tree(recording.link()) == {}


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("TOP(C)::forward.", ModuleName((), "C", "C")),
        ("TOP(C)::forward.A0(A)::forward.SELF(A)::forward_impl_.", ModuleName(("A0",), "A", "C")),
        ("TOP()::<forward op>.B0(B)::forward.lin(Linear)::forward.", ModuleName(("B0", "lin"), "Linear")),
        ("TOP()::<backward op>.", None), ("", None), ("nonsense", None),
    ],
)  # fmt: skip
def test_hierarchy_names_its_innermost_module(text, module):
    assert hierarchy_module(text) == module


LAYER = ModuleName(("layers", "0", "attn"), None)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("nn.Module: layers.0.attn", LAYER), ("module:layers.0.attn", LAYER), ("layer:layers.0.attn", LAYER),
        ("## forward ##", None), ("nccl:all_reduce", None), ("[pl][profile]run", None), ("module:", None),
    ],
)  # fmt: skip
def test_ranges_of_our_own_recordings_name_modules_and_others_none(name, module):
    assert range_module(name) == module


def test_hierarchy_tells_calls_by_runs_of_operators(recording):
    for n, name in enumerate(["a", "a", "b", "a"]):
        text = f"TOP(Net)::forward.{name}(Linear)::forward."
        recording.operator("aten::mm", 10 * n, 10 * n + 5, module_hierarchy=text)
    assert {path: calls for path, (_, calls) in tree(recording.link()).items()} == {"Net": 1, "a": 2, "b": 1}


def test_module_that_backward_computes_anew_is_the_one_of_the_forward(recording):
    """Activation checkpointing: the block runs once more within backward, on autograd's thread."""
    recording.python("nn.Module: Net_0", 0, 100)
    recording.python("nn.Module: Block_0", 10, 50)
    recording.python("nn.Module: Linear_0", 20, 40)
    recording.operator("autograd::engine::evaluate_function: AddBackward0", 200, 300, thread=1)
    recording.python("nn.Module: Block_0", 210, 260, thread=1)
    recording.python("nn.Module: Linear_0", 220, 250, thread=1)
    again = recording.operator("aten::mm", 225, 245, thread=1)
    linked = recording.link()
    assert tree(linked) == {
        "Net_0": (None, 1), "Net_0.Block_0": ("Net_0", 1), "Net_0.Block_0.Linear_0": ("Net_0.Block_0", 1),
    }  # fmt: skip
    assert module_of(linked, again) == "Net_0.Block_0.Linear_0"
    assert linked.host(again)["direction"] == "backward"


def test_module_that_backward_computes_anew_within_a_trainers_frame_is_the_one_of_the_forward(recording):
    recording.python("nn.Module: Trainer_0", 0, 400)
    recording.python("nn.Module: Net_0", 5, 100)
    recording.python("nn.Module: Block_0", 10, 50)
    recording.operator("autograd::engine::evaluate_function: AddBackward0", 200, 300)
    recording.python("nn.Module: Block_0", 210, 260)
    assert set(tree(recording.link())) == {"Trainer_0", "Trainer_0.Net_0", "Trainer_0.Net_0.Block_0"}


def test_module_that_was_seen_in_backward_alone_is_a_root(recording):
    recording.python("nn.Module: Net_0", 0, 100)
    recording.operator("autograd::engine::evaluate_function: AddBackward0", 200, 300)
    recording.python("nn.Module: Block_0", 210, 260)
    assert tree(recording.link()) == {"Net_0": (None, 1), "Block_0": (None, 0)}


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_model_of_torch_is_one_tree_whose_parts_add_up(tmp_path, reentrant):
    import torch
    from torch.utils.checkpoint import checkpoint

    import stepscope

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(8, 8)
            self.block = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())

        def forward(self, x):
            return checkpoint(self.block, self.first(x), use_reentrant=reentrant)

    net = Net()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True, with_modules=True
    ) as profiler:
        net(torch.ones(2, 8)).sum().backward()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    with stepscope.open(tmp_path / "trace.json", cache=False) as trace:
        rows = {row["path"].partition(".")[2] or row["path"]: row for row in trace.ask("modules").rows()}
    assert {path: row["calls"] for path, row in rows.items()} == {
        "Net_0": 1, "Linear_0": 1, "Sequential_0": 1, "Sequential_0.Linear_1": 1, "Sequential_0.ReLU_0": 1,
    }  # fmt: skip
    assert rows["Sequential_0.Linear_1"]["backward_host_ns"] > 0
    selves = sum(row["host_self_ns"] for row in rows.values())
    assert rows["Net_0"]["host_total_ns"] == selves


def parents_of(count):
    return st.lists(st.integers(-1, count - 1), min_size=count, max_size=count)


@given(st.integers(1, 12).flatmap(parents_of))
@examples(100)
def test_depth_is_the_number_of_parents_once_circles_are_cut(parents):
    def around(at):
        seen = []
        while at >= 0 and at not in seen:
            seen.append(at)
            at = parents[at]
        return seen if at < 0 else None

    in_circle = {at for at in range(len(parents)) if at in _after(parents, at)}
    cut = without_circles(np.array(parents, np.int32))
    assert [at for at in range(len(parents)) if cut[at] != parents[at]] == sorted(in_circle)
    parents = cut.tolist()
    assert levels(cut).tolist() == [len(around(at)) - 1 for at in range(len(parents))]


def _after(parents, at):
    """What is reached from a place, itself only where a circle leads back."""
    seen = set()
    at = parents[at]
    while at >= 0 and at not in seen:
        seen.add(at)
        at = parents[at]
    return seen


def test_a_circle_of_many_frames_and_a_deep_chain_are_as_quick_as_others():
    count = 200_000
    circle = np.roll(np.arange(count, dtype=np.int32), 1)
    assert (without_circles(circle) == -1).all()
    chain = np.arange(-1, count - 1, dtype=np.int32)
    assert levels(without_circles(chain)).tolist() == list(range(count))


def test_what_lies_deeper_than_any_model_belongs_to_the_module_above(recording):
    deep = DEEPEST_MODULE + 50
    for n in range(deep):
        recording.python(f"nn.Module: L_{n}", n, 1000 - n, python_id=n + 1, python_parent_id=n, python_module_id=n)
    rows = recording.link().rows("module")
    assert len(rows) == DEEPEST_MODULE + 1
    assert (rows[-1]["depth"], rows[-1]["calls"]) == (DEEPEST_MODULE, 50)


def test_paths_of_ranges_are_as_deep_as_models(recording):
    recording.annotation("nn.Module: " + ".".join("a" * 5000), 0, 9)
    assert len(recording.link().rows("module")) == DEEPEST_MODULE


def test_compiled_code_is_one_piece_below_the_module_that_runs_it_and_no_layer(recording):
    recording.python("nn.Module: Net_0", 0, 100)
    for start in (10, 50):
        recording.python("nn.Module: GraphModule_0", start, start + 30)
        recording.python("nn.Module: GraphModule_0", start + 5, start + 20)
        recording.operator("triton_poi_fused_0", start + 6, start + 10)
        recording.python("nn.Module: Linear_0", start + 12, start + 14)
    recording.python("nn.Module: GraphModule_1", 85, 95)
    linked = recording.link()
    assert [(row["path"], row["class"], row["compiled"], row["calls"]) for row in linked.rows("module")] == [
        ("Net_0", "Net", False, 1),
        ("Net_0.(compiled code)", "GraphModule", True, 3),
        ("Net_0.(compiled code).Linear_0", "Linear", False, 2),
    ]
    assert linked.host(3)["module_id"] == 1
