"""Literal recordings of operators and what they launched, for the questions about efficiency."""

import json
from typing import Any

H100 = {"device": 0, "name": "NVIDIA H100 80GB HBM3", "sm_count": 132}
V100 = {"device": 0, "name": "Tesla V100-SXM2-32GB", "sm_count": 80}
ODD = {"device": 0, "name": "A device of next year"}

SGEMM = "volta_sgemm_128x64_nn"
HGEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_cublas"


def product(ns: int, size: int = 1024, dtype: str = "c10::BFloat16", **more: Any) -> dict[str, list[dict[str, Any]]]:
    """One `aten::mm` of square matrices and its kernel; `more` goes to the kernel."""
    return calls([("aten::mm", [[size, size], [size, size]], [dtype, dtype], ns, more)])


def calls(listed: list[tuple[Any, ...]], **tables: Any) -> dict[str, list[dict[str, Any]]]:
    """Operators side by side, each with one kernel: (name, dims, types, ns, more of the kernel)."""
    rows: dict[str, list[dict[str, Any]]] = {
        "device": [H100],
        "operator_input": [],
        "host_event": [],
        "device_event": [],
    }
    for number, (name, dims, types, ns, more) in enumerate(listed):
        rows["operator_input"].append(
            {"input_id": number, "dims": json.dumps(dims), "types": json.dumps(types), "strides": None, "values": None}
        )
        host = {key: more.pop(key) for key in ("module_id", "direction") if key in more}
        rows["host_event"].append({"id": number, "name": name, "input_id": number, "device_ns": ns, **host})
        rows["device_event"].append(
            {
                "id": 1000 + number,
                "name": HGEMM,
                "start_ns": 1000 * number,
                "dur_ns": ns,
                "operator_id": number,
                **host,
                **more,
            }
        )
    return rows | tables
