"""The NVTX ranges of a step: they nest, they name everything that runs, and the job is what it was."""

import json
import shutil
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.record.two_ranks import torchrun

import stepscope
from stepscope.base.captured_steps import StepRange
from stepscope.formats.nvtx.markers import parse_marker
from stepscope.record.capture import nvtx as nvtx_library
from stepscope.record.capture import operators, ranges
from stepscope.record.capture.nvtx import Nvtx
from stepscope.record.capture.signals import Signal
from stepscope.record.capture.steps import CapturedSteps
from stepscope.record.recording import EveryStep
from stepscope.record.script import run
from stepscope.record.settings import settings
from stepscope.record.trouble import Guard, RecordingWarning

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SCRIPT = """
import os, sys, torch
from torch import nn
torch.set_num_threads(1)
ranks = "RANK" in os.environ
if ranks:
    torch.distributed.init_process_group("gloo")
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(64, 16), nn.ModuleList([Block(16), Block(16)])
        self.head = nn.Linear(16, 64)
    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
torch.manual_seed(0)
model = Net()
if ranks:
    model = nn.parallel.DistributedDataParallel(model)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
tokens = torch.randint(64, (96, 8), generator=torch.Generator().manual_seed(1))
losses = []
for (batch,) in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens), batch_size=8):
    optimizer.zero_grad()
    loss = criterion(model(batch).flatten(0, 1), batch.flatten())
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
if len(sys.argv) > 1:
    with open(sys.argv[1] + os.environ.get("RANK", ""), "w") as file:
        file.write(str(losses))
if ranks:
    torch.distributed.destroy_process_group()
"""


@dataclass
class Heard:
    """What NVTX was given: a tree of ranges, by who was open when each began."""

    ranges: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    pushed: list[str] = field(default_factory=list)
    started: dict[int, str] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)

    def _begins(self, text: bytes) -> str:
        spelled = text.decode("ascii")
        self.ranges.append((spelled, tuple(self.opened)))
        self.opened.append(spelled)
        return spelled

    def push(self, text: bytes) -> None:
        self.pushed.append(self._begins(text))

    def pop(self) -> None:
        self.opened.remove(self.pushed.pop())

    def start(self, text: bytes) -> int:
        number = len(self.ranges)
        self.started[number] = self._begins(text)
        return number

    def end(self, number: int) -> None:
        self.opened.remove(self.started.pop(number))

    def nvtx(self) -> Nvtx:
        return Nvtx(self.push, self.pop, self.start, self.end, self.start)

    def operators(self) -> Counter[str]:
        """The operators in each step, without autograd's nodes."""
        return Counter(
            f"{inside[0]} {parse_marker(text).name}"
            for text, inside in self.ranges
            if parse_marker(text).sort == "operator" and parse_marker(text).types
        )


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    heard = Heard()
    monkeypatch.setattr(ranges, "nvtx", heard.nvtx)
    return heard


def _run(folder: Path, recording: EveryStep, script: str = SCRIPT) -> str:
    """Runs the script here, and returns its losses."""
    path = folder / "train.py"
    path.write_text(textwrap.dedent(script))
    run([str(path), str(folder / "losses")], lambda: recording)
    return (folder / "losses").read_text()


class _Counting(EveryStep):
    """Counts what the dispatcher calls in the same steps, by a mode of its own."""

    def __init__(self, steps: StepRange) -> None:
        from torch.utils._python_dispatch import TorchDispatchMode

        self.guard = Guard("counting")
        self.counted: Counter[str] = Counter()
        self._steps = steps
        self._number = self._index = 0

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(mode, func, types, args=(), kwargs=None):
                if func.namespace != "profiler":
                    self.counted[f"ProfilerStep#{self._number} {func._schema.name}"] += 1
                return func(*args, **(kwargs or {}))

        self._mode = Mode()

    def start(self, *, lead_in: bool = False) -> None:
        pass

    def step(self, number: int | None = None) -> None:
        self._number += 1
        if self._number == self._steps.first:
            self._mode.__enter__()
        elif self._number == self._steps.last + 1:
            self._mode.__exit__(None, None, None)

    def stop(self) -> list[Path]:
        return []

    @property
    def over(self) -> bool:
        return False


def test_every_operator_of_the_steps_has_a_range_and_losses_are_the_same(heard: Heard, tmp_path: Path) -> None:
    chosen = StepRange(4, 5)
    ranged = _run(tmp_path, CapturedSteps(chosen, None, nvtx=True))
    counting = _Counting(chosen)
    assert ranged == _run(tmp_path, counting)
    assert heard.operators() == counting.counted
    assert sum(counting.counted.values()) > 200
    assert not heard.opened
    assert not heard.pushed


def test_ranges_lie_in_their_step_phase_and_module(heard: Heard, tmp_path: Path) -> None:
    _run(tmp_path, CapturedSteps(StepRange(4, 4), None, nvtx=True))
    step, net = "ProfilerStep#4", "nn.Module: Net (Net, model)"
    outermost = [text for text, inside in heard.ranges if not inside]
    said, *outermost = outermost
    assert outermost == ["rank 0 of 1, stepscope", step]
    assert json.loads(said.removeprefix("settings ").removesuffix(", stepscope")) == settings()
    phases = [text for text, inside in heard.ranges if text.startswith("phase: ")]
    assert phases == [f"phase: {name}" for name in ("input_wait", "forward", "loss", "backward", "optimizer")]
    modules = {text: inside for text, inside in heard.ranges if text.startswith("nn.Module: ")}
    block = "nn.Module: blocks.1 (Block)"
    assert modules["nn.Module: blocks.1.up (Linear)"] == (step, "phase: forward", net, block)
    assert len(modules) == 1 + 2 + 2 * 4
    (embedding,) = [one for one in heard.ranges if one[0].startswith("aten::embedding,")]
    marker = parse_marker(embedding[0])
    assert marker.sizes == "[[64, 16], [8, 8], [], [], []]"
    assert marker.types == ("float32", "int64", "Scalar", "Scalar", "Scalar")
    assert json.loads(marker.values or "") == ["", "", "-1", "False", "False"]
    assert embedding[1][-1] == "nn.Module: embed (Embedding)"
    node = f"EmbeddingBackward0, seq = {marker.sequence}"
    (backward,) = [one for one in heard.ranges if one[0].startswith("aten::embedding_dense")]
    assert backward[1] == (step, "phase: backward", node)


def test_nothing_stays_behind(heard: Heard, tmp_path: Path) -> None:
    from tests.record.small_job import untouched

    _run(tmp_path, CapturedSteps(StepRange(4, 4), None, nvtx=True))
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
    assert untouched(torch.nn.Linear(1, 1))


def test_without_steps_ranges_go_from_the_step_in_which_the_model_is_known_to_the_end(
    heard: Heard, tmp_path: Path
) -> None:
    _run(tmp_path, CapturedSteps(None, None, nvtx=True))
    _, _, *steps = [text for text, inside in heard.ranges if not inside]
    assert steps == [f"ProfilerStep#{number}" for number in range(3, 13)]
    assert not heard.opened


@pytest.mark.parametrize("broken", ["push", "start"])
def test_a_range_that_fails_is_one_warning_and_the_profiler_is_stopped_in_time(
    broken: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    heard = Heard()

    def fails(_text: bytes) -> int:
        raise ValueError("no room")

    monkeypatch.setattr(ranges, "nvtx", lambda: heard.nvtx()._replace(**{broken: fails}))
    calls: list[str] = []
    signal = Signal(lambda: calls.append("start"), lambda: calls.append("stop"))
    recording = CapturedSteps(StepRange(4, 5), signal, nvtx=True)
    with pytest.warns(RecordingWarning, match="NVTX ranges stopped.*no room") as warned:
        _run(tmp_path, recording)
    assert len(warned) == 1
    assert calls == ["start", "stop"]
    assert recording.over


def test_a_job_with_a_dispatch_mode_of_its_own_keeps_it(heard: Heard, tmp_path: Path) -> None:
    script = SCRIPT.replace(
        "losses = []", "losses = []\nfrom torch.utils.flop_counter import FlopCounterMode\n"
        "own = FlopCounterMode(display=False)\nown.__enter__()"
    ) + "\nown.__exit__(None, None, None)\nassert own.get_total_flops() > 0\n"  # fmt: skip
    with pytest.warns(RecordingWarning, match="operators get no ranges: the job has a dispatch"):
        _run(tmp_path, CapturedSteps(StepRange(4, 4), None, nvtx=True), script)
    assert {text.partition(":")[0] for text, _ in heard.ranges} == {
        *('settings {"python"', "rank 0 of 1, stepscope", "ProfilerStep#4", "phase", "nn.Module")
    }


def test_a_mode_that_the_job_enters_meanwhile_is_left_before_ours(heard: Heard, tmp_path: Path) -> None:
    script = SCRIPT.replace(
        "    optimizer.zero_grad()\n", "    optimizer.zero_grad()\n    if len(losses) == 4:\n"
        "        from torch.utils.flop_counter import FlopCounterMode\n"
        "        own = FlopCounterMode(display=False)\n        own.__enter__()\n"
        "    if len(losses) == 7:\n        own.__exit__(None, None, None)\n"
        "        assert own.get_total_flops() > 0\n"
    )  # fmt: skip
    _run(tmp_path, CapturedSteps(StepRange(4, 4), None, nvtx=True), script)
    assert not heard.opened
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_a_call_is_described_as_torch_describes_it() -> None:
    add = torch.ops.aten.add.Tensor
    given = (torch.ones(3, 4, dtype=torch.bfloat16), torch.ones(4))
    assert operators.describe(add, given, {"alpha": 2}) == (
        b', sizes = [[3, 4], [4], []], types = ["bfloat16", "float32", "Scalar"], values = ["", "", "2"]'
    )
    stack = torch.ops.aten.cat.default
    assert operators.describe(stack, ([torch.ones(2), torch.ones(3)],), {}) == (
        b', sizes = [[[2], [3]], []], types = ["TensorList", "Scalar"], values = ["", "0"]'
    )


def test_torchs_own_ranges_are_taken_where_the_job_uses_cuda(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """ITT's ranges of torch, which are made in the same way, stand in for NVTX's on a CPU."""
    from torch.autograd import profiler

    emitting = []

    class Emit(profiler.emit_itt):
        def __enter__(self) -> Any:
            emitting.append(True)
            return super().__enter__()

        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            emitting.append(False)

    monkeypatch.setattr(profiler, "emit_nvtx", Emit)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    _run(tmp_path, CapturedSteps(StepRange(4, 5), None, nvtx=True))
    assert emitting == [True, False]
    # Torch's own ranges have no types: each distinct call of the step before is described once.
    types = [text for text, inside in heard.ranges if not inside and text.startswith("types of ")]
    assert len(types) == len(set(types)) > 30
    assert parse_marker(types[0]).sort == "note"
    assert not any(text.startswith("aten::") for text, _ in heard.ranges)
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
    with profiler.profile():  # the session is free again
        torch.ones(1)


@pytest.mark.slow
def test_two_ranks_under_nsys_yield_the_same_steps_with_all_that_runs_in_them(tmp_path: Path) -> None:
    if shutil.which("nsys") is None:
        pytest.skip("nsys is not installed")
    try:
        nvtx_library.nvtx()
    except OSError as error:
        pytest.skip(f"no NVTX: {error}")
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "under_nsys.py").write_text(
        textwrap.dedent(f"""
        import os, sys
        report = {str(tmp_path)!r} + "/report-" + os.environ["RANK"]
        os.execvp("nsys", [
            *"nsys profile -t nvtx -s none --cpuctxsw=none -c nvtx -p stepscope_capture".split(),
            *("--capture-range-end=stop", "--export=sqlite", "-f", "true", "-o", report),
            *(sys.executable, "-m", "stepscope", "record", "--capture", "nvtx", "--nvtx"),
            *("--steps", "4-5", "--", *sys.argv[1:]),
        ])
        """)
    )
    for _ in range(3):
        done = torchrun(tmp_path / "under_nsys.py", str(tmp_path / "train.py"))
        # Two of nsys 2022.4 that start at once now and then take each other's semaphore or endpoint away.
        said = done.stdout + done.stderr
        if "sem_open" not in said and "Local Endpoint is not available" not in said:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    counting = _Counting(StepRange(4, 5))
    _run(tmp_path, counting)
    for rank in (0, 1):
        with stepscope.open(tmp_path / f"report-{rank}.sqlite", cache=False) as trace:
            assert [row["step"] for row in trace.steps().rows()] == [4, 5]
            assert trace.sql("SELECT rank, world_size FROM rank").rows() == [{"rank": rank, "world_size": 2}]
            found = trace.sql(
                "SELECT 'ProfilerStep#' || step || ' ' || name AS call, count(*) AS calls FROM "
                "host_event JOIN operator_input USING (rank, span, input_id) "
                "WHERE types IS NOT NULL AND name NOT LIKE 'c10d::%' GROUP BY ALL"
            )
            calls = {row["call"]: row["calls"] for row in found.rows()}
            # What DistributedDataParallel adds is C++ that copies gradients into its buckets.
            assert {call: calls[call] for call in counting.counted if "aten::mm" in call} == {
                call: count for call, count in counting.counted.items() if "aten::mm" in call
            }
            assert sum(calls.values()) >= sum(counting.counted.values())
            modules = {row["path"]: row["class"] for row in trace.modules().rows()}
            assert modules["blocks.1.up"] == "Linear"
