"""Traces recorded by others: known values, and what must hold on each of them."""

import numpy as np
import pyarrow.compute as pc
import pytest

from stepscope.formats.container import members
from stepscope.formats.kineto.reader import read
from stepscope.link.rank import link_rank

pytestmark = pytest.mark.traces

# trace: least shares of device time with a launch, an operator, a direction, a module
LINKED = {
    "alltoall_rank0of16": (0.86, 0.79, 0.80, 0), "bert_small_h100": (1, 1, 1, 1), "bert_small_mi300": (1, 1, 1, 1),
    "ddp_a100_rank3of8": (1, 0.98, 0.88, 0), "ddp_v100_rank1of2": (0.94, 0.92, 0.86, 0),
    "dlrm_8rank_v100": (1, 1, 0.99, 0), "eager_b200_rank0of8": (1, 0.999, 0.99, 0.99),
    "gpu_only_mi210": (1, 0, 0, 0), "nccl_args_a100": (1, 1, 0.98, 0), "no_distributed_info": (0, 0, 0, 0),
    "no_gpu": (0, 0, 0, 0), "resnet50_v100": (1, 1, 0.95, 0), "triton": (1, 1, 0, 0),
    "vllm_decode_graph": (1, 0.03, 0.02, 0.02),
}  # fmt: skip


@pytest.fixture(scope="module")
def linked(shared_traces):
    known = {}

    def link(folder, number=0):
        if (folder, number) not in known:
            path = sorted((shared_traces / "kineto" / folder).glob("*.json.gz"))[number]
            known[folder, number] = link_rank(read(next(iter(members(path))))).tables
        return known[folder, number]

    return link


def columns(table, *names):
    return [pc.fill_null(table[name], -1).to_numpy() for name in names]


@pytest.mark.parametrize("folder", LINKED)
def test_every_trace_links_as_far_as_it_allows(linked, folder):
    tables = linked(folder)
    reached = {row["link"]: row for row in tables["attribution"].to_pylist()}
    for link, least in zip(("launch", "operator", "direction", "module"), LINKED[folder], strict=True):
        row = reached[link]
        assert row["attributed_ns"] >= least * row["device_ns"], link


@pytest.mark.parametrize("folder", LINKED)
def test_children_never_exceed_their_parents(linked, folder):
    host = linked(folder)["host_event"]
    start, dur, self_ns, parent = columns(host, "start_ns", "dur_ns", "self_ns", "parent_id")
    assert ((self_ns >= 0) & (self_ns <= dur)).all()
    child = np.flatnonzero(parent >= 0)
    above = parent[child]
    assert (start[child] >= start[above]).all()
    assert (start[child] + dur[child] <= start[above] + dur[above]).all()
    covered = np.bincount(above, weights=dur[child], minlength=len(dur))
    crossing = (dur - self_ns - covered) != 0
    assert crossing.sum() <= 10


@pytest.mark.parametrize("folder", LINKED)
def test_device_time_of_the_roots_is_what_was_attributed(linked, folder):
    tables = linked(folder)
    parent, device_ns = columns(tables["host_event"], "parent_id", "device_ns")
    dur, launch, operator = columns(tables["device_event"], "dur_ns", "launch_id", "operator_id")
    work = np.isin(tables["device_event"]["kind"].to_pylist(), ["computation", "communication", "copy", "fill"])
    reached = dur[work & ((launch >= 0) | (operator >= 0))].sum() if len(dur) else 0
    assert np.maximum(device_ns, 0)[parent < 0].sum() == reached


@pytest.mark.parametrize("folder", LINKED)
def test_no_duration_of_a_sound_trace_is_clipped(linked, folder):
    tables = linked(folder)
    assert tables["device_event"]["raw_dur_ns"].null_count == tables["device_event"].num_rows


@pytest.mark.parametrize(("number", "mean_us"), [(0, 177_592), (1, 154_911)])
def test_steps_of_the_plugins_sample_are_as_long_as_the_plugin_says(linked, number, mean_us):
    step = linked("resnet50_v100", number)["step"]
    start, end = columns(step, "start_ns", "end_ns")
    assert step.num_rows == 6
    assert (end - start).mean() / 1000 == pytest.approx(mean_us, abs=1)
    assert all(step["complete"].to_pylist())


@pytest.mark.parametrize(
    ("folder", "phases"),
    [
        ("bert_small_h100", (60, 324_734, 97_672, 60, 307_197, 729_603)),
        ("eager_b200_rank0of8", (768, 5_836_530, 9_630_508, 761, 10_862_916, 26_315_731)),
    ],
)
def test_launch_phases_are_those_of_nsight_systems(linked, folder, phases):
    tables = linked(folder)
    start, dur = columns(tables["host_event"], "start_ns", "dur_ns")
    kernel_start, kernel_dur, launch = columns(tables["device_event"], "start_ns", "dur_ns", "launch_id")
    kernel = np.isin(tables["device_event"]["kind"].to_pylist(), ["computation", "communication"])
    kernel &= launch >= 0
    call_start = start[launch[kernel]]
    call_end = call_start + dur[launch[kernel]]
    kernel_end = (kernel_start + kernel_dur)[kernel]
    queue = kernel_start[kernel] - call_end
    assert phases == (
        kernel.sum(), (call_end - call_start).sum(), queue[queue > 0].sum(), (queue > 0).sum(),
        kernel_dur[kernel].sum(), (np.maximum(call_end, kernel_end) - call_start).sum(),
    )  # fmt: skip


def test_collectives_have_their_arguments(linked):
    rows = linked("nccl_args_a100")["collective"].to_pylist()
    assert len(rows) == 21
    assert {row["operation"] for row in rows} == {"all_reduce", "broadcast"}
    reduced = [row for row in rows if row["elements_in"] == 2_049_000]
    assert {row["bytes"] for row in reduced} == {4 * 2_049_000}
    assert {row["group_size"] for row in rows} == {2}
    assert all(row["host_id"] is not None for row in rows)


def test_send_and_receive_kernels_are_told_by_what_asked_for_them(linked):
    rows = linked("alltoall_rank0of16")["collective"].to_pylist()
    counts = pc.value_counts(linked("alltoall_rank0of16")["collective"]["operation"]).to_pylist()
    assert len(rows) == 80
    assert {row["values"]: row["counts"] for row in counts} == {
        "all_to_all": 45, "all_reduce": 10, "all_gather": 10, "reduce_scatter": 10, "send_recv": 5,
    }  # fmt: skip


def test_every_backward_kernel_of_a_training_has_its_direction(linked):
    tables = linked("nccl_args_a100")
    host = {row["id"]: row for row in tables["host_event"].select(["id", "name"]).to_pylist()}
    forward = [
        (row["name"], host[row["forward_id"]]["name"])
        for row in tables["host_event"].select(["name", "forward_id"]).to_pylist()
        if row["forward_id"] is not None and row["name"] == "ConvolutionBackward0"
    ]
    assert len(forward) == 159
    assert {name for _, name in forward} == {"aten::convolution"}


def test_module_tree_is_that_of_the_model(linked):
    module = linked("bert_small_h100")["module"]
    assert module.num_rows == 84
    assert module["path"][0].as_py() == "BertLMHeadModel_0"
    layers = [path for path in module["path"].to_pylist() if path.split(".")[-1].startswith("BertLayer_")]
    assert layers == [f"BertLMHeadModel_0.BertModel_0.BertEncoder_0.BertLayer_{n}" for n in range(4)]


def test_flows_say_the_same_as_correlations(linked, shared_traces):
    path = next((shared_traces / "kineto" / "bert_small_h100").glob("*.json.gz"))
    tables = read(next(iter(members(path))))
    by_correlation = linked("bert_small_h100")["device_event"]["launch_id"]
    without = tables.device_event.schema.get_field_index("correlation")
    tables.device_event = tables.device_event.set_column(
        without, "correlation", pc.multiply(tables.device_event["correlation"], 0)
    )
    external = tables.device_event.schema.get_field_index("external_id")
    tables.device_event = tables.device_event.set_column(
        external, "external_id", pc.multiply(tables.device_event["external_id"], 0)
    )
    assert link_rank(tables).tables["device_event"]["launch_id"].to_pylist() == by_correlation.to_pylist()


@pytest.mark.parametrize(("folder", "replayed"), [("vllm_decode_graph", 421), ("ddp_v100_rank1of2", 5046)])
def test_replays_whose_capture_is_not_recorded_are_counted_as_such(linked, folder, replayed):
    tables = linked(folder)
    (row,) = (row for row in tables["data_check"].to_pylist() if row["check"] == "graph_replay_unattributed")
    assert row["count"] == replayed
    assert f"({replayed}: no capture is recorded)" in row["explanation"]
    assert tables["device_event"]["captured_id"].null_count == tables["device_event"].num_rows
