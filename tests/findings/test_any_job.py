"""Whatever a job does, findings keep to their bounds and their queries give their numbers again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.findings.job import A100, V100, Job

pytestmark = pytest.mark.slow

ORDER = ["high", "medium", "low", "note"]
NAMES = [
    "volta_sgemm_128x64_nn",
    "cutlass_80_tensorop_f16_s16816gemm_f16_256x64_32x4_nn_align1",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
    "void cudnn::ops::nchwToNhwcKernel<float>",
    "it's a kernel",
]
PIECES = st.fixed_dictionaries(
    {
        "name": st.sampled_from(NAMES),
        "dur_ns": st.integers(0, 200_000),
        "count": st.integers(1, 70),
        "gap_ns": st.integers(0, 3_000),
        "late": st.booleans(),
        "kind": st.sampled_from(["computation", "communication", "copy", "fill"]),
        "operator": st.sampled_from([None, "aten::mm", "aten::copy_", "it's mine"]),
        "dims": st.sampled_from([None, [[33, 33], [33, 33]], []]),
        "direction": st.sampled_from([None, "backward", "optimizer"]),
        "blocks_per_sm": st.sampled_from([None, 0.1, 4.0]),
        "occupancy_ratio": st.sampled_from([None, 0.1, 0.9]),
        "grid_x": st.sampled_from([None, 170, 1_000]),
        "block_x": st.sampled_from([None, 1_024]),
        "registers_per_thread": st.sampled_from([None, 0, 40]),
        "memory_kind": st.sampled_from([None, "pageable"]),
        "bytes": st.sampled_from([None, 10**6]),
    }
)
EVENTS = st.tuples(
    st.sampled_from(["cudaMalloc", "cudaStreamSynchronize", "CheckpointFunctionBackward", "load"]),
    st.integers(0, 500_000),
    st.integers(0, 500_000),
    st.sampled_from([("runtime", "allocate"), ("runtime", "synchronize"), ("operator", None),
                     ("annotation", "dataloader")]),
)  # fmt: skip


@examples(15)
@given(
    st.lists(PIECES, max_size=4),
    st.lists(EVENTS, max_size=3),
    st.lists(st.integers(0, 3_000_000), min_size=1, max_size=6),
    st.sampled_from([None, V100, A100, {"kind": "rocm", "name": "x", "used": True}]),
    st.booleans(),
)
def test_bounds_hold_and_queries_give_the_numbers_again(
    findings: Any, pieces: Any, events: Any, lengths: Any, device: Any, chosen: bool
) -> None:
    job = Job(steps=len(lengths), device=device)
    job.lengths = dict(enumerate(lengths))
    for piece in pieces:
        job.kernel(**piece)
    for name, start_ns, dur_ns, (kind, role) in events:
        job.event(name, start_ns, dur_ns, kind=kind, role=role, device_ns=dur_ns)
    rows = findings(job.rows(), steps=[0] if chosen else None)
    savings = [row["saving_high_ns"] for row in rows if row["saving_high_ns"] is not None]
    mean = lengths[0] if chosen else sum(lengths) / len(lengths)
    assert all(saving <= mean + 1 for saving in savings)
    for row in rows:
        assert row["saving_low_ns"] in (None, 0)
        assert row["saving_high_ns"] is None or row["trade_off"]
    # What prevents judging stands before the verdict.
    others = rows[2 if rows and rows[0]["id"] in ("device-only", "data-quality") else 1 :]
    saved = [row["saving_high_ns"] is not None for row in others]
    assert saved == sorted(saved, reverse=True)
    # In order of what is lost. A cure may save more: a host that loses little may hide much.
    ranked = [ORDER.index(row["severity"]) for row in others if row["saving_high_ns"]]
    assert ranked == sorted(ranked)
