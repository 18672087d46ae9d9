"""GPT-2 small without DistributedDataParallel: an all-reduce for each of its 148 gradients."""

from typing import Any

import pytest
from tests.findings.kineto_trace import Recorder, training

BLOCK = (768, 768, 2304 * 768, 2304, 768 * 768, 768, 768, 768, 3072 * 768, 3072, 768 * 3072, 768)
PARAMETERS = (50257 * 768, 1024 * 768, *BLOCK * 12, 768, 768)
SMALL = [size for size in PARAMETERS if 4 * size < 2**20]


def all_reduce(r: Recorder, elements: int, us: int, *, recorded: bool = True) -> None:
    size = {"In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float"} if recorded else {}
    comms = {"Collective name": "allreduce", "Group size": 8, "Process Group Name": "0", **size}
    with r.operator("c10d::allreduce_"), r.operator("record_param_comms"):
        r.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", us, stream=20, **comms)


def compute(r: Recorder, name: str = "aten::addmm") -> None:
    with r.operator(name, [[768], [8192, 768], [768, 768]], "float"):
        r.kernel("ampere_sgemm_128x64_tn", 200)


def one_each(r: Recorder, sizes: tuple[int, ...] = PARAMETERS, *, recorded: bool = True) -> None:
    for _ in range(60):
        compute(r)
    with r.backward("AddmmBackward0", r.number()):
        compute(r, "aten::mm")
    for elements in sizes:
        all_reduce(r, elements, 18 + elements // 20_000, recorded=recorded)


def test_an_all_reduce_for_each_parameter_is_found(found: Any) -> None:
    (row,) = found(training(one_each), "small-all-reduces")
    assert row["value"] == len(SMALL) == 98
    assert row["title"].startswith(
        "98 all-reduces a step carry less than 1 MiB each and 474.0 KiB together, which is 1 bucket of 25 MiB: "
    )
    kernels = sum(18 + size // 20_000 for size in SMALL) * 1_000
    assert row["saving_high_ns"] > kernels
    assert {one["bytes"] for one in row["evidence"]} == {4 * 768, 4 * 2304, 4 * 3072}


def bucketed(r: Recorder) -> None:
    one_each(r, (2**18, *[25 * 2**18] * 20))


def tensor_parallel(r: Recorder) -> None:
    """Two all-reduces of activations in each layer's forward, and two in its backward."""
    for _ in range(48):
        compute(r)
        all_reduce(r, 8 * 768, 20)
    for _ in range(48):
        with r.backward("AddmmBackward0", r.number()):
            compute(r, "aten::mm")
            all_reduce(r, 8 * 768, 20)


def of_unknown_size(r: Recorder) -> None:
    one_each(r, recorded=False)


@pytest.mark.parametrize("step", [bucketed, tensor_parallel, of_unknown_size])
def test_buckets_activations_and_unknown_sizes_are_not(found: Any, step: Any) -> None:
    assert found(training(step), "small-all-reduces") == []


def served(r: Recorder) -> None:
    """A tensor-parallel server, whose batches change: no backward, so no gradients."""
    for number in range(60):
        compute(r)
        all_reduce(r, (number % 5 + 1) * 768, 20)


def test_activations_of_a_server_are_not_gradients(found: Any) -> None:
    assert found(training(served), "small-all-reduces") == []


def on_the_host(sizes: tuple[int, ...]) -> Any:
    """The same with gloo, on CPUs: only the host's calls are recorded, with their shapes."""

    def step(r: Recorder) -> None:
        with r.backward("AddmmBackward0", r.number()), r.operator("aten::mm", [[64, 64]], "float"):
            r.now += 20_000
        for elements in sizes:
            with r.operator("c10d::allreduce_", [[elements]]):
                r.now += 150

    trace = training(step)
    for event in trace["traceEvents"]:
        if event["name"] == "c10d::allreduce_":  # a list of tensors
            dims = event["args"]["Input Dims"]
            event["args"] |= {"Input Dims": [dims, []], "Input type": ["TensorList", ""]}
            event["args"]["Concrete Inputs"] = ["", ""]
    return trace


@pytest.mark.parametrize(("sizes", "expected"), [(PARAMETERS, [98.0]), ((2**18,) * 20, [])])
def test_calls_of_the_host_count_where_there_is_no_device(
    found: Any, sizes: tuple[int, ...], expected: list[float]
) -> None:
    trace = on_the_host(sizes)
    trace["deviceProperties"] = []
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e["cat"] in ("cpu_op", "user_annotation")]
    assert [row["value"] for row in found(trace, "small-all-reduces")] == expected
