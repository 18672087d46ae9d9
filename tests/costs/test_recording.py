"""A training step recorded by torch's own profiler: its nested rows add up to the counter's total."""

import json
from typing import Any

import numpy as np
import pytest

from stepscope.costs import Conventions, Row, answering, count_work, is_composite

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402 - only where torch is there
from torch.nn import functional  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.project(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)).softmax(-1)
        return x + (scores @ v).transpose(1, 2).reshape(batch, length, width)


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.attention = _Attention(32, 4)
        self.line = nn.Conv1d(32, 32, 3, padding=1)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens):
        x = self.attention(self.table(tokens))
        x = functional.gelu(self.line(x.transpose(1, 2))).transpose(1, 2)
        return functional.cross_entropy(self.head(x).reshape(-1, 50), tokens.reshape(-1))


def _step(network, optimizer) -> None:
    loss = network(torch.arange(24).reshape(2, 12))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> tuple[list[Row], list[int], int]:
    """Operators of a recorded step, the row that encloses each, and the counter's total."""
    torch.manual_seed(0)
    network = _Network()
    optimizer = torch.optim.AdamW(network.parameters(), foreach=True)
    with FlopCounterMode(display=False) as counter:
        _step(network, optimizer)
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        _step(network, optimizer)
    profiler.export_chrome_trace(str(path))
    events = [
        event for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"] if event.get("cat") == "cpu_op"
    ]
    events.sort(key=lambda event: (event["tid"], event["ts"], -event["dur"]))
    rows, parents, open_rows = [], [], []
    for place, event in enumerate(events):
        while open_rows and not _within(event, events[open_rows[-1]]):
            open_rows.pop()
        parents.append(open_rows[-1] if open_rows else -1)
        open_rows.append(place)
        given = event["args"]
        keys = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
        texts = [json.dumps(given[key]) if key in given else None for key in keys]
        rows.append(Row(event["name"], *texts))
    return rows, parents, counter.get_total_flops()


def _within(event: dict[str, Any], other: dict[str, Any]) -> bool:
    return event["tid"] == other["tid"] and event["ts"] <= other["ts"] + other["dur"]


def test_nested_rows_count_once(recorded) -> None:
    rows, parents, counted = recorded
    works = [count_work(row, Conventions(causal="full")) for row in rows]
    modelled = np.array([item is not None and item.family != "view" for item in works])
    composite = np.array([is_composite(row.name) for row in rows])
    owners = answering(np.array(parents), modelled, composite)
    matrix = 0
    for place in {int(owner) for owner in owners if owner >= 0}:
        item = works[place]
        parts = item.parts or (item,)
        matrix += sum(part.flops for part in parts if part.unit == "matrix")
    assert matrix == counted
    twice = sum(item.flops for item in works if item is not None and item.unit == "matrix")
    assert twice > 1.3 * counted  # what adding all rows up would give


def test_nearly_every_row_with_inputs_has_a_model(recorded) -> None:
    rows, _, _ = recorded
    own = [row for row in rows if row.name.startswith("aten::") and row.dims is not None]
    known = [item is not None for item in map(count_work, own)]
    assert len(own) > 200
    assert sum(known) / len(own) > 0.97
