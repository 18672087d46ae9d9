"""What the models cover of traces that others recorded."""

import csv
import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from stepscope.costs import Row, count_work, is_composite, model_of
from stepscope.costs.hardware import builtin
from stepscope.costs.kernel_name import kernel_class
from stepscope.costs.tensor_cores import tensor_core_use

pytestmark = pytest.mark.traces


def _events(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as stream:
        content = json.load(stream, strict=False)
    return content["traceEvents"]


def _row(event: dict[str, Any]) -> Row:
    arguments = event.get("args", {})

    def text(*names: str) -> str | None:
        found = next((arguments[name] for name in names if name in arguments), None)
        return None if found is None else json.dumps(found)

    texts = (text("Input Dims", "Input dims"), text("Input type"), text("Input Strides"), text("Concrete Inputs"))
    return Row(event["name"], *texts)


def _operators(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [e for e in events if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "Operator")]


def _kernels(path: Path) -> Counter[str]:
    kernels: Counter[str] = Counter()
    for event in _events(path):
        if event.get("ph") == "X" and str(event.get("cat")).lower() == "kernel":
            kernels[event["name"]] += event["dur"]
    return kernels


@pytest.mark.parametrize(
    "trace", ["bert_small_h100/trace", "eager_b200_rank0of8/eager_trace", "gpu_only_mi210/gpu_only_trace"]
)
def test_all_time_of_products_is_classified(shared_traces, trace) -> None:
    """At least 95 % is asked for; the plugin's list knows 42 % on the H100 and none on the B200."""
    told, whole, used = 0.0, 0.0, 0.0
    for name, time in _kernels(shared_traces / "kineto" / f"{trace}.json.gz").items():
        if kernel_class(name) in ("GEMM", "convolution", "attention"):
            found = tensor_core_use(name)
            whole += time
            told += time if found.used is not None else 0
            used += time if found.used else 0
    assert whole > 0
    assert told == pytest.approx(whole)
    assert used / whole > 0.95


def test_no_kernel_of_resnet50_in_float32_on_a_v100_uses_tensor_cores(shared_traces) -> None:
    folder = shared_traces / "kineto" / "resnet50_v100"
    for path in sorted(folder.glob("*.json.gz")):
        assert not [name for name in _kernels(path) if tensor_core_use(name).used]


def _innermost_times(events: list[dict[str, Any]]) -> dict[int, float]:
    """Device time by the place of the innermost operator that launched it (µs)."""
    operators = _operators(events)
    launches = {
        e["args"]["correlation"]: e
        for e in events
        if e.get("ph") == "X" and e.get("cat") in ("Runtime", "cuda_runtime")
    }
    marks: dict[str, list[tuple[float, int, float, int]]] = defaultdict(list)
    for place, operator in enumerate(operators):
        marks[str(operator["tid"])].append((operator["ts"], 0, -operator["dur"], place))
    for correlation, launch in launches.items():
        marks[str(launch["tid"])].append((launch["ts"], 1, 0, correlation))
    inner: dict[int, int] = {}
    for thread in marks.values():
        open_places: list[int] = []
        for time, is_launch, _, which in sorted(thread):
            while open_places and _end(operators[open_places[-1]]) < time:
                open_places.pop()
            if not is_launch:
                open_places.append(which)
            elif open_places:
                inner[which] = open_places[-1]
    times: dict[int, float] = defaultdict(float)
    for event in events:
        if event.get("ph") == "X" and str(event.get("cat")).lower() == "kernel":
            place = inner.get(event["args"].get("correlation"))
            if place is not None:
                times[place] += event["dur"]
    return times


def _end(event: dict[str, Any]) -> float:
    return float(event["ts"] + event["dur"])


def _is_eligible(name: str) -> bool:
    model = model_of(name)
    return model is not None and model.is_eligible


def test_the_plugins_eligible_share_of_resnet50(shared_traces) -> None:
    """67.62 % by the plugin: the share of device time in eligible operators."""
    path = min((shared_traces / "kineto" / "resnet50_v100").glob("*.json.gz"))
    events = _events(path)
    operators = _operators(events)
    times = _innermost_times(events)
    eligible = sum(t for place, t in times.items() if _is_eligible(operators[place]["name"]))
    assert 100 * eligible / sum(times.values()) == pytest.approx(67.62, abs=0.1)


def test_resnet50_forward_is_four_billion_multiply_adds_an_image(shared_traces) -> None:
    """The published 4.1 GMACs of ResNet-50 at 224 x 224, for 32 images; shapes only, no values."""
    path = min((shared_traces / "kineto" / "resnet50_v100").glob("*.json.gz"))
    operators = _operators(_events(path))
    gradients = tuple({_row(e) for e in operators if e["name"] == "aten::cudnn_convolution_backward"})
    assert gradients
    steps = [e for e in operators if e["name"].startswith("ProfilerStep")]
    rows = [
        Row(row.name, row.dims, row.types, related=gradients)
        for row in (_row(e) for e in operators if e["name"] in ("aten::cudnn_convolution", "aten::addmm"))
    ]
    found = [count_work(row) for row in rows]
    assert None not in found
    count = sum(row.name == "aten::addmm" for row in rows)
    assert count == len(steps) == 6
    multiply_adds = sum(item.flops for item in found if item is not None) / 2 / count / 32
    assert multiply_adds == pytest.approx(4.1e9, rel=0.01)


def _row_of_table(line: dict[str, str]) -> Row:
    columns = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
    return Row(line["name"], *(line[f"{column}_first"].replace("'", '"') for column in columns))


def test_bert_on_the_h100_agrees_with_the_table_beside_it(shared_traces) -> None:
    """TraceLens counts one operation more for each element of a biased product; bytes are equal."""
    folder = shared_traces / "kineto" / "bert_small_h100"
    with (folder / "tracelens_csv" / "GEMM.csv").open(encoding="utf-8") as stream:
        products = list(csv.DictReader(stream))
    assert len(products) == 4
    for line in products:
        found = count_work(_row_of_table(line))
        bias = int(line["param: M"]) * int(line["param: N"])
        assert found.flops + bias == pytest.approx(float(line["GFLOPS_first"]) * 1e9)
        assert found.bytes == pytest.approx(float(line["Data Moved (MB)_first"]) * 2**20)
    with (folder / "tracelens_csv" / "SDPA_fwd.csv").open(encoding="utf-8") as stream:
        (attention,) = csv.DictReader(stream)
    found = count_work(_row_of_table(attention))
    assert found.flops == pytest.approx(float(attention["GFLOPS_first"]) * 1e9)
    sums = 8 * 141 * 4  # the logarithms that the backward needs, which TraceLens leaves out
    assert found.bytes - sums == pytest.approx(float(attention["Data Moved (MB)_first"]) * 2**20)


def test_every_operator_of_bert_that_launched_something_has_a_model(shared_traces) -> None:
    events = _events(shared_traces / "kineto" / "bert_small_h100" / "trace.json.gz")
    operators = _operators(events)
    times = _innermost_times(events)
    for place, time in times.items():
        assert time > 0
        row = _row(operators[place])
        assert count_work(row) is not None, row
        assert not is_composite(row.name)


TRACES = ("bert_small_h100/trace", "bert_small_mi300/trace", "eager_b200_rank0of8/eager_trace",
          "gpu_only_mi210/gpu_only_trace", "triton/triton_example")  # fmt: skip


@pytest.mark.parametrize("trace", TRACES)
def test_the_devices_of_the_traces_have_a_peak(shared_traces, trace) -> None:
    path = shared_traces / "kineto" / f"{trace}.json.gz"
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as stream:
        devices = json.load(stream, strict=False)["deviceProperties"]
    assert devices
    for device in devices:
        assert builtin().find(device["name"], device["numSms"]) is not None
