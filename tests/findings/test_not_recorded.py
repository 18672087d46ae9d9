"""What is not in a recording is not judged: files as their tools write them, read and asked."""

import json
from pathlib import Path
from typing import Any

import stepscope

KINDS = ("host-bound", "single-gaps", "cold-start", "unrecorded-work", "low-utilization", "idle")


def asked(path: Path, events: list[dict[str, Any]], **more: Any) -> tuple[list[str], str]:
    """The findings' ids, and all words of verdict and findings."""
    path.write_text(json.dumps({"traceEvents": events, **more}))
    with stepscope.open(path, cache=False) as trace:
        rows = trace.ask("findings").rows()
        verdict = [row["text"] or "" for row in trace.ask("summary").rows()
                   if row["section"] in ("verdict", "device", "findings")]  # fmt: skip
    return [row["id"] for row in rows], " ".join([*verdict, *(row["title"] + row["advice"] for row in rows)])


def test_of_what_jax_writes_on_a_cpu_nothing_is_said_of_a_device(tmp_path: Path) -> None:
    process = {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}}
    threads = [
        {"ph": "M", "pid": 701, "tid": tid, "name": "thread_name", "args": {"name": name}}
        for tid, name in ((1, "python"), (2, "tf_XLAPjRtCpuClient/115"), (3, "tf_XLAEigen/-43"))
    ]
    of_step = [
        {"pid": 701, "tid": 1, "ts": 1.5, "dur": 900.25, "name": "train", "args": {"step_num": "0"}},
        {"pid": 701, "tid": 1, "ts": 9.5, "dur": 31.0, "name": "$core.py:709 bind_with_trace"},
        {"pid": 701, "tid": 1, "ts": 50.0, "dur": 800.0, "name": "CommonPjRtBuffer::Await"},
        {"pid": 701, "tid": 2, "ts": 60.0, "dur": 700.0, "name": "dot.3",
         "args": {"device_ordinal": "0", "hlo_module": "jit_f", "hlo_op": "dot.3"}},
        {"pid": 701, "tid": 3, "ts": 70.0, "dur": 0.0, "name": "ThreadpoolListener::StartRegion"},
    ]  # fmt: skip
    steps = [{"ph": "X", **event, "ts": event["ts"] + 1_000 * step} for step in range(3) for event in of_step]
    events = [process, *threads, *steps, {}]
    ids, words = asked(tmp_path / "vm.trace.json", events, displayTimeUnit="ns")
    assert ids == ["nothing-recorded"]
    for said in ("kernels fill", "idle", "the device", "GPU"):
        assert said not in words


def replaying(*, recorded: bool) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []

    def add(name: str, category: str, start: int, dur: int, **args: Any) -> None:
        device = category.startswith(("gpu", "kernel"))
        place = {"pid": 0, "tid": 7} if device else {"pid": 9, "tid": 9}
        args |= {"device": 0, "stream": 7} if device else {}
        events.append({"ph": "X", "name": name, "cat": category, "ts": start, "dur": dur,
                       **place, "args": args})  # fmt: skip

    number = 0
    for step in range(4):
        begin = step * 10_000
        add(f"ProfilerStep#{step}", "user_annotation", begin, 10_000)
        for copy in range(60):
            number += 1
            add("aten::copy_", "cpu_op", begin + 5 * copy, 4)
            add("cudaMemcpyAsync", "cuda_runtime", begin + 1 + 5 * copy, 2, correlation=number)
            add("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", begin + 3 + 5 * copy, 2,
                correlation=number)  # fmt: skip
        number += 1
        add("cudaGraphLaunch", "cuda_runtime", begin + 310, 50, correlation=number)
        if recorded:
            add("graph kernel", "kernel", begin + 370, 9_500, correlation=number)
        add("cudaStreamSynchronize", "cuda_runtime", begin + 360, 9_600)
    return events


def test_a_replay_whose_work_is_missing_silences_the_verdict(tmp_path: Path) -> None:
    ids, words = asked(tmp_path / "missing.json", replaying(recorded=False))
    assert ids == ["data-quality"]
    assert "device work is missing" in words
    assert "GPU utilisation" not in words
    ids, _ = asked(tmp_path / "recorded.json", replaying(recorded=True))
    assert (ids[0], set(ids) & set(KINDS)) == ("device-bound", set())
