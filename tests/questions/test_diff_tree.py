"""`diff --by tree`: what a change of the step is made of, down to kernels, and sums that hold."""

from contextlib import ExitStack

import pytest
from tests.literal import literal_store
from tests.simulated_job import Job, simulate

import stepscope
from stepscope.api.comparisons import diff
from stepscope.api.trace import Trace

STEP = 1000


@pytest.fixture
def opened():
    """Traces in memory of literal rows, closed at the end."""
    with ExitStack() as stack:
        yield lambda rows: stack.enter_context(Trace(literal_store(rows)))


def recording(*work, steps=2, modules=(), host=(), **more):
    """Steps that are all alike: work is (name, start, duration, operator id, module id, direction)."""
    rows = {
        "step": [
            {"step": n, "start_ns": STEP * n, "end_ns": STEP * (n + 1), "rule": "ProfilerStep"} for n in range(steps)
        ],
        "module": list(modules),
        "host_event": [],
        "device_event": [],
        **more,
    }
    for n in range(steps):
        base, at = 100 * n, STEP * n
        for event in host:
            own = dict(event)
            own |= {"id": base + own["id"], "step": n, "start_ns": at + own["start_ns"]}
            if own.get("parent_id") is not None:
                own["parent_id"] += base
            rows["host_event"].append(own)
        for name, start, dur, operator, module, direction in work:
            rows["device_event"].append(
                {
                    "step": n, "name": name, "start_ns": at + start, "dur_ns": dur, "module_id": module,
                    "operator_id": None if operator is None else base + operator, "direction": direction,
                }
            )  # fmt: skip
    return rows


def tree(before, after):
    """path → (before, after, verdict), and that each node is what its parts are together."""
    table = diff(before, after, by="tree")
    check_sums(table)
    return {row["path"]: (row["before_ns"], row["after_ns"], row["verdict"]) for row in table.rows()}


def check_sums(table):
    rows = table.rows()
    for place, row in enumerate(rows):
        parts = []
        for below in rows[place + 1 :]:
            if below["depth"] <= row["depth"]:
                break
            parts += [below] if below["depth"] == row["depth"] + 1 else []
        for column in ("before_ns", "after_ns", "change_ns") if parts else ():
            assert sum(part[column] or 0 for part in parts) == row[column], (row["path"], column)


MODULES = (
    {"module_id": 0, "path": "Net", "name": "Net", "class": "Net", "depth": 0},
    {"module_id": 1, "path": "fc", "name": "fc", "class": "Linear", "depth": 1, "parent_id": 0},
)
HOST = (
    {"id": 1, "name": "aten::linear", "start_ns": 0, "dur_ns": 90, "module_id": 1, "direction": "forward"},
    {"id": 2, "name": "aten::addmm", "start_ns": 5, "dur_ns": 50, "module_id": 1, "direction": "forward",
     "parent_id": 1, "depth": 1},
)  # fmt: skip


def test_kernels_lie_under_their_operators_modules_and_direction_and_idle_time_beside_them(opened):
    before = opened(recording(("gemm", 10, 400, 2, 1, "forward"), modules=MODULES, host=HOST))
    after = opened(recording(("gemm", 10, 300, 2, 1, "forward"), modules=MODULES, host=HOST))
    assert tree(before, after) == {
        "": (1000, 1000, "same"),
        "forward": (400, 300, "faster"),
        "forward / Net": (400, 300, "faster"),
        "forward / Net / fc": (400, 300, "faster"),
        "forward / Net / fc / aten::linear": (400, 300, "faster"),
        "forward / Net / fc / aten::linear / aten::addmm": (400, 300, "faster"),
        "forward / Net / fc / aten::linear / aten::addmm / gemm": (400, 300, "faster"),
        "(device idle)": (600, 700, "slower"),
        "(device idle) / other": (590, 690, "slower"),
        "(device idle) / cpu_exec": (10, 10, "same"),
        "(device idle) / dataloader": (0, 0, "same"),
    }


def test_what_a_compiler_merged_is_compared_where_the_modules_were(opened):
    """Eager has a kernel in fc; compiled, the model itself has another one."""
    eager = opened(recording(("gemm", 0, 400, 2, 1, "forward"), modules=MODULES, host=HOST))
    region = {"id": 1, "name": "Torch-Compiled Region: 0/0", "start_ns": 0, "dur_ns": 90,
              "kind": "annotation", "role": "compiled", "module_id": 0, "direction": "forward"}  # fmt: skip
    compiled = opened(recording(("triton_0", 0, 250, 1, 0, "forward"), modules=MODULES[:1], host=(region,)))
    found = tree(eager, compiled)
    assert found["forward / Net"] == (400, 250, "faster")
    assert found["forward / Net / fc"] == (400, 0, "removed")
    assert found["forward / Net / Torch-Compiled Region: 0/0 / triton_0"] == (0, 250, "added")


def test_recordings_of_other_tools_line_up_where_ranges_of_one_are_none_of_the_other(opened):
    """torch's profiler has a range of autograd around each node, and a module's range; an export has operators."""
    node = {"name": "MmBackward0", "dur_ns": 60, "role": "backward", "direction": "backward"}
    around = {**node, "name": "autograd::engine::evaluate_function: MmBackward0", "dur_ns": 90}
    inner = {"name": "aten::mm", "dur_ns": 20, "direction": "backward"}
    module = {"name": "nn.Module: fc", "kind": "annotation", "dur_ns": 95, "direction": "backward"}
    torch = recording(
        ("sgemm", 0, 400, 4, 1, "backward"),
        modules=MODULES,
        host=(
            {**module, "id": 1, "start_ns": 0, "module_id": 1},
            {**around, "id": 2, "start_ns": 0, "module_id": 1, "parent_id": 1, "depth": 1},
            {**node, "id": 3, "start_ns": 10, "module_id": 1, "parent_id": 2, "depth": 2},
            {**inner, "id": 4, "start_ns": 20, "module_id": 1, "parent_id": 3, "depth": 3},
        ),
    )
    export = recording(
        ("sgemm", 0, 300, 2, 1, "backward"),
        modules=MODULES,
        host=(
            {**node, "id": 1, "start_ns": 0, "module_id": 1},
            {**inner, "id": 2, "start_ns": 5, "module_id": 1, "parent_id": 1, "depth": 1},
        ),
    )
    found = tree(opened(torch), opened(export))
    path = "backward / Net / fc / MmBackward0 / aten::mm / sgemm"
    assert found[path] == (400, 300, "faster")
    assert [other for other in found if other.startswith("backward") and other not in path] == []


def test_work_that_other_work_hides_takes_no_time_of_the_step(opened):
    def run(dur):
        rows = recording(("gemm", 0, 500, None, None, None), ("ncclAllReduce", 100, dur, None, None, None))
        for event in rows["device_event"]:
            event["kind"] = "communication" if "nccl" in event["name"] else "computation"
        return opened(rows)

    found = tree(run(300), run(600))
    assert found["(no operator) / ncclAllReduce"] == (0, 200, "slower")
    assert found["(no operator) / gemm"] == (500, 500, "same")
    assert found["(device idle) / other"] == (500, 300, "faster")


def test_parts_that_round_still_add_up(opened):
    work = (("a", 0, 10, None, None, None), ("b", 10, 10, None, None, None))
    rows = recording(*work, steps=3)
    rows["device_event"][0]["dur_ns"] = 9
    rows["device_event"][3]["dur_ns"] = 11
    tree(opened(rows), opened(recording(*work)))


def test_a_recording_beside_itself_has_no_difference_in_any_node(opened):
    trace = opened(recording(("gemm", 10, 400, 2, 1, "forward"), modules=MODULES, host=HOST))
    assert {(row["change_ns"], row["verdict"]) for row in diff(trace, trace, by="tree").rows()} == {(0, "same")}


def test_without_a_device_the_tree_is_of_the_hosts_self_times(opened):
    def run(dur):
        host = (
            {"id": 1, "name": "aten::linear", "start_ns": 0, "dur_ns": dur + 10, "self_ns": 10},
            {"id": 2, "name": "aten::mm", "start_ns": 5, "dur_ns": dur, "self_ns": dur, "parent_id": 1,
             "depth": 1},
        )  # fmt: skip
        return opened(recording(host=host))

    assert tree(run(50), run(70)) == {
        "": (60, 80, "slower"),
        "aten::linear": (60, 80, "slower"),
        "aten::linear / aten::mm": (50, 70, "slower"),
        "aten::linear / (itself)": (10, 10, "same"),
    }
    assert diff(run(50), run(70), by="tree").rows()[0]["name"] == "host work"


def test_steps_found_by_what_recurs_at_different_places_are_not_the_same_step(opened):
    def run(name):
        rows = recording(("gemm", 10, 400, None, None, None))
        for step in rows["step"]:
            step |= {"rule": "recurring operators", "name": name}
        return opened(rows)

    note = diff(run("aten::cat"), run("aten::copy_")).note
    assert "start at different operators" in note
    assert "before: aten::cat; after: aten::copy_" in note
    assert "different" not in diff(run("aten::cat"), run("aten::cat")).note
    marked = opened(recording(("gemm", 10, 400, None, None, None)))
    assert "after: ProfilerStep" in diff(run("aten::cat"), marked).note


def test_a_gate_names_a_node_by_its_path(opened):
    from stepscope.compare.gates import judge, parse_gate

    before = opened(recording(("gemm", 10, 400, 2, 1, "forward"), modules=MODULES, host=HOST))
    after = opened(recording(("gemm", 10, 500, 2, 1, "forward"), modules=MODULES, host=HOST))
    gate = parse_gate("tree:forward / Net / fc > +10%")
    judged = judge(gate, lambda by: diff(before, after, by=by).rows(), None)
    assert (judged.outcome, judged.row["name"]) == ("failed", "fc")


def test_five_per_cent_of_one_kernel_are_found_and_nothing_else(tmp_path):
    job = {"ranks": 1, "steps": 8, "layers": 2}
    simulate(Job(**job, seed=1)).write(tmp_path / "before")
    simulate(Job(**job, seed=1, factors={"GEMM": 1.05})).write(tmp_path / "after")
    with (
        stepscope.open(tmp_path / "before", cache=False) as before,
        stepscope.open(tmp_path / "after", cache=False) as after,
    ):
        kernels = diff(before, after, by="kernel").rows()[1:]
        check_sums(table := diff(before, after, by="tree"))
    slower = [row for row in kernels if row["verdict"] == "slower"]
    assert slower
    assert all("gemm" in row["name"] for row in slower)
    assert all(0.045 < row["change_ratio"] < 0.055 for row in slower)
    assert all(abs(row["change_ratio"] or 0) < 0.01 for row in kernels if row not in slower)
    leaves = [row for row in table.rows() if row["kind"] == "kernel" and row["verdict"] == "slower"]
    assert {row["name"] for row in leaves} == {row["name"] for row in slower}


@pytest.mark.traces
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("kineto/ddp_a100_rank3of8", "kineto/ddp_v100_rank1of2"),
        ("nsys/h100_2gpu_before.sqlite.gz", "nsys/h100_2gpu_after.sqlite.gz"),
    ],
)
def test_parts_add_up_on_recordings_of_others(shared_traces, before, after):
    table = diff(shared_traces / before, shared_traces / after, by="tree")
    check_sums(table)
    flat = diff(shared_traces / before, shared_traces / after).rows()
    total = table.rows()[0]
    assert [total[name] for name in ("before_ns", "after_ns", "change_ns")] == [
        flat[0][name] for name in ("before_ns", "after_ns", "change_ns")
    ]


@pytest.mark.traces
def test_kernels_of_two_spans_of_one_job_differ_by_noise_and_the_loader_does_not(shared_traces):
    first, second = sorted((shared_traces / "kineto" / "resnet50_v100").glob("*.json.gz"))
    rows = diff(first, second, by="tree").rows()
    sure = [row for row in rows if row["kind"] == "kernel" and row["verdict"] in ("slower", "faster")]
    assert all(abs(row["change_ratio"]) < 0.1 for row in sure)
    assert sum(abs(row["change_ns"]) for row in sure) < 0.005 * rows[0]["before_ns"]
    (loader,) = (row for row in rows if row["name"] == "dataloader")
    assert loader["verdict"] == "faster"
    assert loader["share_ratio"] > 1
