"""Two recordings of one rank: what a row's number names is told by the span, and by no column's name."""

import json
import sys

import pytest
from tests.processes import ran

from stepscope.query.ask import ask
from stepscope.questions import all_questions, find
from stepscope.questions.invariants import invariants
from stepscope.store.build import import_source
from stepscope.store.open import Store

pytestmark = pytest.mark.slow

NESTED = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    def forward(self, x):
        return self.inner(self.linear(x))

torch.set_num_threads(1)
model = nn.Sequential(Block(), nn.Sequential(Block()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


QUESTIONS = [question.name for question in all_questions() if question.recordings == "one"]


def event(category, name, start_us, dur_us, **args):
    if category == "kernel":
        row = {"pid": 0, "tid": 7, "args": {"device": 0, "stream": 7, **args}}
    else:
        row = {"pid": 1, "tid": 1, "args": args}
    return {"ph": "X", "cat": category, "name": name, "ts": start_us, "dur": dur_us, **row}


def recording(*, step, base_ns, modules, shape):
    """One step, in which modules nest, and in the innermost an operator launches a kernel."""
    first = 100
    events = [event("user_annotation", f"ProfilerStep#{step}", first, 100)]
    for depth, module in enumerate(modules, 1):
        start, lasted = first + depth, 100 - 2 * depth
        events.append(event("user_annotation", f"nn.Module: {module}", start, lasted))
    given = {"Input Dims": [shape], "Input type": ["float"], "Call stack": f"step_{step}.py(1): f"}
    events += [
        event("cpu_op", "aten::mm", first + 20, 20, **given),
        event("cuda_runtime", "cudaLaunchKernel", first + 25, 5, correlation=1),
        event("kernel", "gemm", first + 40, 30, correlation=1),
    ]
    return {"traceEvents": events, "baseTimeNanoseconds": base_ns, "distributedInfo": {"rank": 0, "world_size": 1}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Numbers of modules, inputs and stacks of the two mean different things."""
    found = tmp_path_factory.mktemp("run")
    second = 1_000_000_000
    for number, (modules, shape) in enumerate(
        ((("net", "net.body", "net.body.fc"), [2, 2]), (("net", "net.head"), [3, 3]))
    ):
        described = recording(step=number, base_ns=10**18 + number * second, modules=modules, shape=shape)
        (found / f"job.step{number}-0-of-1.json").write_text(json.dumps(described))
    return found


@pytest.fixture(scope="module")
def store(folder, tmp_path_factory):
    with Store.open(import_source(folder, tmp_path_factory.mktemp("stores") / "all")) as opened:
        yield opened


def answered(store, name, **asked):
    return ask(find(name), store, **asked).rows()


def broken(store):
    found = ask(invariants, store).rows()
    return [row for row in found if row["rank"] is None and row["count"]]


def test_modules_of_both_spans_are_in_one_tree(store):
    found = answered(store, "modules", columns=["path", "calls", "device_self_ns"])
    assert [tuple(row.values()) for row in found] == [
        ("net", 2, 0), ("net.body", 1, 0), ("net.body.fc", 1, 30_000), ("net.head", 1, 30_000),
    ]  # fmt: skip


def test_a_module_is_part_of_one_of_its_span(store):
    parents = store.sql(
        """
        SELECT module.span, module.path, above.path AS part_of FROM module
        LEFT JOIN module AS above
            ON above.rank = module.rank AND above.span = module.span
            AND above.module_id = module.parent_id
        ORDER BY ALL
        """
    )
    assert [tuple(row.values()) for row in parents.to_pylist()] == [
        (0, "net", None), (0, "net.body", "net"), (0, "net.body.fc", "net.body"), (1, "net", None),
        (1, "net.head", "net"),
    ]  # fmt: skip


def test_inputs_and_stacks_are_those_of_the_span(store):
    by_shape = answered(store, "operators", by="shape")
    assert {row["input_dims"]: row["calls"] for row in by_shape} == {"[[2,2]]": 1, "[[3,3]]": 1}
    by_stack = answered(store, "operators", by="stack")
    assert {row["call_stack"] for row in by_stack} == {"step_0.py(1): f", "step_1.py(1): f"}


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_is_answered(store, name):
    ask(find(name), store)


def test_the_invariants_hold(store):
    assert broken(store) == []


def test_the_invariants_hold_for_a_stretch_of_each_span(folder, tmp_path):
    part = import_source(folder, tmp_path / "part", window=(15_000, 35_000))
    with Store.open(part) as opened:
        assert broken(opened) == []
        assert opened.sql("SELECT count(*) AS n FROM host_event").to_pylist() == [{"n": 4}]


@pytest.mark.torch
def test_what_record_repeats_on_nested_modules_answers_every_question(tmp_path):
    script, out = tmp_path / "nested.py", tmp_path / "out"
    script.write_text(NESTED)
    done = ran(
        *(sys.executable, "-m", "stepscope", "record", "--wait", "1", "--warmup", "1"),
        *("--active", "2", "--repeat", "2", "-o", str(out), str(script)),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert len(list(out.glob("*.json.gz"))) == 2
    with Store.open(import_source(out, tmp_path / "store")) as store:
        for name in QUESTIONS:
            ask(find(name), store)
        assert broken(store) == []
        modules = answered(store, "modules", columns=["path", "depth", "calls"])
    assert [tuple(row.values()) for row in modules][:1] == [("Sequential", 0, 4)]
    assert {row["path"]: row["calls"] for row in modules}["1.0.inner.1"] == 4
