"""`onednn`: time and speed of primitives, beside the peak where the processor is known."""

from typing import Any

import pytest

PRIMITIVES = {
    "primitive": [
        {"primitive": "matmul", "implementation": "brgemm", "types": "f32", "shape": "10x10:10x10", "executions": 2, "total_ns": 4000, "min_ns": 1500, "max_ns": 2500},
        {"primitive": "matmul", "implementation": "ref:any", "types": "s8", "shape": "10x10:10x10", "executions": 1, "total_ns": 1000, "min_ns": 1000, "max_ns": 1000},
        {"primitive": "reorder", "implementation": "jit:uni", "propagation": None, "types": "f32", "shape": "8x8", "executions": 4, "total_ns": 5000, "min_ns": 1, "max_ns": 2000, "creations": 1, "created_ns": 70},
    ]
}  # fmt: skip


def test_primitives_by_their_time(diff: Any) -> None:
    diff(
        "onednn",
        PRIMITIVES,
        """
        primitive,executions,total_ns,share_ratio,mean_ns,min_ns,max_ns,flops,flop_per_s,peak_ratio,creations,created_ns
        matmul,3,5000,0.5,1666.6666666666667,1000,2500,6000,1200000000.0,,,
        reorder,4,5000,0.5,1250.0,1,2000,,,,1,70
        """,
    )


def test_implementations_and_shapes(diff: Any) -> None:
    diff(
        "onednn",
        PRIMITIVES,
        """
        primitive,implementation,total_ns
        reorder,jit:uni,5000
        matmul,brgemm,4000
        matmul,ref:any,1000
        """,
        by="implementation",
    )
    diff(
        "onednn",
        PRIMITIVES,
        """
        primitive,types,shape,total_ns
        reorder,f32,8x8,5000
        matmul,f32,10x10:10x10,4000
        matmul,s8,10x10:10x10,1000
        """,
        by="shape",
    )


@pytest.mark.parametrize("told", ["parameter", "recording"])
def test_a_peak_is_compared_with_where_the_processor_is_known(
    diff: Any, monkeypatch: Any, tmp_path: Any, told: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "stepscope").mkdir()
    (tmp_path / "stepscope" / "hardware.toml").write_text(
        '[[device]]\nname = "Model 9"\nmatch = ["model 9"]\nsource = "a sheet"\nvector = { float32 = 0.002 }\n'
    )
    beside = {"report": "StepScope", "metric": "processor", "kind": "processor", "text": "Model 9 CPU"}
    rows = PRIMITIVES | ({"host_metric": [beside]} if told == "recording" else {})
    expected = """
        implementation,flop_per_s,peak_flop_per_s,peak_ratio
        jit:uni,,,
        brgemm,1000000000.0,2000000000.0,0.5
        ref:any,2000000000.0,,
        """
    named = {"processor": "Model 9"} if told == "parameter" else {}
    diff("onednn", rows, expected, by="implementation", **named)
