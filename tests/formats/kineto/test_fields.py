"""Fields that Kineto writes since 2024, each as a literal event, and where it is found again."""

import pytest

from stepscope.formats import vocabulary

from .conftest import kernel, op


def one(table):
    (row,) = table.to_pylist()
    return row


def sync(name, **args):
    return {
        "ph": "X", "cat": "cuda_sync", "name": name, "pid": 0, "tid": args.get("stream", -1),
        "ts": 10, "dur": 2, "args": {"cuda_sync_kind": name, "device": 0, "context": 1, **args},
    }  # fmt: skip


MESSAGE = {
    "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 8, "Out msg nelems": 8, "Group size": 4,
    "Process Group Name": "3", "Process Group Description": "dp",
}  # fmt: skip


def test_a_collective_has_its_number_in_the_group_and_its_communicator(read_events):
    args = {"Seq": 41, "Comms Id": 10437852340132412345, "Is asynchronized op": True}
    tables = read_events([kernel("ncclDevKernel_AllReduce", 1, 5, **MESSAGE, **args)])
    row = one(tables.collective_args)
    assert (row["sequence"], row["communicator"]) == (41, "10437852340132412345")
    assert row["asynchronous"] is True
    assert (row["group_name"], row["group_description"]) == ("3", "dp")
    assert tables.report.unknown_fields == {}


@pytest.mark.parametrize(
    ("told", "ranks"),
    [
        ({"Global rank start": 2, "Global rank stride": 3}, "[2, 5, 8, 11]"),
        ({"Global rank start": 2, "Global rank stride": 3, "Process Group Ranks": "[1, 2, 3, 4]"}, "[1, 2, 3, 4]"),
        ({"Global rank start": -1, "Global rank stride": -1}, None),
        ({"Process Group Ranks": "[0, 1, ..., 511]"}, None),
        ({"Global rank start": 0, "Global rank stride": 1, "Group size": 10**12}, None),
    ],
)
def test_the_ranks_of_a_long_group_follow_from_the_first_and_their_distance(read_events, told, ranks):
    tables = read_events([op("record_param_comms", 1, 5, **(MESSAGE | told))])
    assert one(tables.collective_args)["group_ranks"] == ranks


@pytest.mark.parametrize(("told", "size"), [(4, 4), (1, 1), (0, None), (-4, None)])
def test_a_group_has_a_rank_at_least(read_events, told, size):
    tables = read_events([op("record_param_comms", 1, 5, **(MESSAGE | {"Group size": told}))])
    assert one(tables.collective_args)["group_size"] == size


@pytest.mark.parametrize("spelled", [("graph id", "graph node id"), ("graphId", "graphNodeId")])
def test_the_graph_and_the_node_that_a_kernel_replays(read_events, spelled):
    tables = read_events([kernel("gemm", 1, 5, **dict(zip(spelled, (7, 131), strict=True)))])
    row = one(tables.device_event)
    assert (row["graph_id"], row["graph_node_id"]) == (7, 131)
    assert tables.report.unknown_fields == {}


@pytest.mark.parametrize(
    ("told", "limit"),
    [("registers", "registers"), (2, "registers"), (6, "registers, shared memory"), ("", None), (0, None)],
)
def test_what_limits_a_kernels_occupancy(read_events, told, limit):
    occupancy = {"activeBlocksPerMultiprocessor": 2, "blockLimitRegs": 2, "limitingFactors": told}
    tables = read_events(
        [kernel("gemm", 1, 5, **{"est. achieved occupancy %": 31, "occupancy": occupancy}), kernel("relu", 8, 5)]
    )
    gemm, relu = tables.device_event.to_pylist()
    assert (gemm["occupancy_limit"], gemm["occupancy_ratio"]) == (limit, 0.31)
    assert relu["occupancy_limit"] is None
    assert tables.report.unknown_fields == {}


def test_a_damaged_occupancy_costs_only_itself(read_events):
    tables = read_events([kernel("gemm", 1, 5, occupancy="none"), kernel("relu", 8, 5)])
    assert tables.device_event.column("occupancy_limit").null_count == 2


def test_waits_for_events_and_streams_have_rows_of_their_own(read_events):
    events = [
        sync("Stream Wait Event", stream=20, wait_on_stream=7,
             wait_on_cuda_event_record_corr_id=33, wait_on_cuda_event_id=8, correlation=36),
        # A stream's synchronisation is drawn on a row beside it, the stream's number and a million.
        {**sync("Stream Sync", stream=7, correlation=37), "tid": 1000007},
        sync("Context Sync", stream=4294967295, correlation=38), kernel("gemm", 1, 50),
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1000007, "ts": 0,
         "args": {"name": "stream 7 (sync)"}},
    ]  # fmt: skip
    tables = read_events(events)
    rows = {row["name"]: row for row in tables.device_event.to_pylist()}
    wait = rows["Stream Wait Event"]
    assert (wait["stream"], wait["wait_on_stream"], wait["wait_on_correlation"]) == (20, 7, 33)
    assert (rows["Stream Sync"]["stream"], rows["Context Sync"]["stream"]) == (7, -1)
    assert [row["kind"] for row in rows.values()] == ["sync", "sync", "sync", "computation"]
    assert [row["role"] for row in rows.values()] == ["stream for event", "host for stream", "host for device", None]
    assert sorted(row["stream"] for row in tables.stream.to_pylist()) == [-1, 7, 20]
    assert set(tables.report.unknown_fields) == {"wait_on_cuda_event_id"}


def test_metrics_of_kernels_and_samples_over_time(read_events):
    measured = {
        "ph": "X", "cat": "cuda_profiler_range", "name": "gemm", "pid": 0, "tid": 0, "ts": 5,
        "dur": 9, "args": {"dram__bytes_read.sum": 4096, "sm__cycles_active.avg": 10.5},
    }  # fmt: skip
    sampled = {
        "ph": "C", "cat": "hardware_counters", "name": "CUPTI PM Sampling", "pid": 1, "tid": 0,
        "ts": 6, "args": {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed": 71.5},
    }  # fmt: skip
    tables = read_events([kernel("relu", 1, 2), measured, sampled])
    assert tables.kernel_metric.to_pylist() == [
        {"measured": 0, "device_row": 1, "kernel": "gemm", "metric": metric, "kind": kind,
         "value": value, "min": None, "max": None, "unit": None, "tool": "CUPTI"}
        for (metric, value), kind in zip(measured["args"].items(), ("dram_read_bytes", None), strict=True)
    ]  # fmt: skip
    assert tables.counter.to_pylist() == [
        {"track": "CUPTI PM Sampling",
         "series": "sm__cycles_active.avg.pct_of_peak_sustained_elapsed", "kind": "sm_active",
         "unit": "%", "pid": "1", "time_ns": 5000, "value": 71.5}
    ]  # fmt: skip


def test_what_inductor_says_of_the_code_that_it_generated(read_events):
    told = {
        "kernel_file": "/node/ti/ab/cab.py", "kernel_hash": "cab", "kernel_backend": "triton",
        "kernel_name": "triton_poi_fused_add_0", "kernel_kwargs": "XBLOCK=16", "num_warps": 1,
        "num_stages": 2, "stream": 0,
    }  # fmt: skip
    events = [op("triton_poi_fused_add_0", start, 5, **told) for start in (1, 20)]
    tables = read_events([*events, op("aten::add", 40, 5)])
    assert one(tables.kernel_source) == {
        "kernel_source_id": 0, "file": "/node/ti/ab/cab.py", "backend": "triton",
        "options": "XBLOCK=16,num_warps=1,num_stages=2",
    }  # fmt: skip
    assert tables.host_event.column("kernel_source_id").to_pylist() == [0, 0, None]
    assert tables.report.unknown_fields == {}


@pytest.mark.parametrize("name", ["## Call CompiledFxGraph fud64jsr ##", "Torch-Compiled Region: 0/1"])
def test_calls_of_compiled_graphs_are_told_by_their_names(name):
    assert vocabulary.host_role("operator", name) == "compiled"
    assert vocabulary.host_role("annotation", name) == "compiled"


def test_collectives_of_intels_library_communicate(read_events):
    tables = read_events(
        [{**op("xccl:all_reduce", 1, 5), "cat": "user_annotation"}, kernel("oneccl_allreduce_kernel", 2, 3, **MESSAGE)]
    )
    assert tables.host_event.column("role").to_pylist() == ["communication"]
    assert tables.device_event.column("kind").to_pylist() == ["communication"]
