"""Advice fits what the recording holds: its device, whether it is a training, and what recorded it."""

from typing import Any

import pytest
from tests.findings.job import A100, V100, Job

from stepscope.findings.cures import device_tool, graphs, launch_less, matrix_units, processors

SGEMM, FLOATS = "volta_sgemm_128x64_nn", ["float", "float"]
MI300 = {
    "kind": "rocm", "name": "AMD Instinct MI300X", "used": True, "sm_count": 304, "warp_size": 64,
    "compute_major": 9, "compute_minor": 4,
}  # fmt: skip
XPU = {"kind": "xpu", "name": "Intel(R) Data Center GPU Max 1550", "used": True}
SHORT = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >"


def job(device: Any, *, trains: bool, **more: Any) -> Job:
    made = Job(device=device, **more)
    made.event("forward", 0, 1, direction="forward")
    if trains:
        made.event("Optimizer.step#SGD.step", 0, 1, kind="annotation", role="optimizer",
                   direction="optimizer")  # fmt: skip
        made.event("MmBackward0", 0, 1, direction="backward", role="backward")
    return made


@pytest.mark.parametrize(
    ("device", "trains", "advice"),
    [
        (A100, True, "Train under torch.autocast(device_type='cuda', dtype=torch.bfloat16)."),
        (A100, False, "Run under torch.autocast(device_type='cuda', dtype=torch.bfloat16)."),
        (MI300, True, "Train under torch.autocast(device_type='cuda', dtype=torch.bfloat16)."),
        (V100, True, "Train under torch.autocast(device_type='cuda', dtype=torch.float16) with "
         "torch.amp.GradScaler: this device's tensor cores have no bfloat16."),
        (V100, False, "Run under torch.autocast(device_type='cuda', dtype=torch.float16): this "
         "device's tensor cores have no bfloat16."),
    ],
)  # fmt: skip
def test_mixed_precision_in_a_type_that_the_device_has(findings: Any, device: Any, trains: bool, advice: str) -> None:
    made = job(device, trains=trains).kernel(SGEMM, 600_000, operator="aten::mm", types=FLOATS)
    (row,) = findings(made.rows(), "amp-off")
    assert row["advice"] == advice


def test_a_name_that_does_not_tell_is_not_said_to_be_off_the_matrix_cores(findings: Any) -> None:
    unknown = job(MI300, trains=True).kernel(
        "Cijk_Alik_Bljk_SB_MT64x64x16", 600_000, operator="aten::mm", dims=[[64, 64], [64, 64]],
        types=FLOATS,
    )  # fmt: skip
    (row,) = findings(unknown.rows(), "amp-off")
    assert "tensor cores" not in row["title"]


@pytest.mark.parametrize(
    ("device", "trains", "words", "others"),
    [
        (V100, True, ["CUDA graphs", "optimizers"], ["HIP"]),
        (V100, False, ["CUDA graphs"], ["HIP", "optimizer"]),
        (MI300, True, ["HIP graphs", "optimizers"], ["CUDA graphs"]),
        (XPU, False, ["torch.compile()"], ["CUDA", "HIP", "graph", "optimizer"]),
    ],
)
def test_launching_less_is_advised_in_the_terms_of_the_device(
    findings: Any, device: Any, trains: bool, words: list[str], others: list[str]
) -> None:
    made = job(device, trains=trains).event("python", 0, 1_000_000, kind="python")
    made.kernel(SHORT, 2_000, count=100, gap_ns=6_000, late=True)
    (row,) = [one for one in findings(made.rows()) if one["id"] == "host-bound"]
    assert all(word in row["advice"] for word in words)
    assert not [word for word in others if word in row["advice"]]
    assert ("graphs" in row["trade_off"]) is ("graphs" in row["advice"])


@pytest.mark.parametrize(
    ("direction", "loader", "words", "others"),
    [
        ("HtoD", True, ["DataLoader(pin_memory=True)"], ["To the host"]),
        ("HtoD", False, ["tensor.pin_memory()"], ["DataLoader"]),
        ("DtoH", False, ["torch.empty(..., pin_memory=True)"], ["DataLoader", "next batch"]),
    ],
)
def test_copies_are_pinned_where_they_are_made(
    findings: Any, direction: str, loader: bool, words: list[str], others: list[str]
) -> None:
    made = job(V100, trains=True)
    if loader:
        made.event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 1,
                   kind="annotation", role="dataloader")  # fmt: skip
    made.kernel(f"Memcpy {direction} (Pageable -> Device)", 100_000, kind="copy", copy_kind=direction,
                memory_kind="pageable", bytes=1_000_000)  # fmt: skip
    (row,) = findings(made.rows(), "pageable-copies")
    assert all(word in row["advice"] for word in words)
    assert not [word for word in others if word in row["advice"]]


@pytest.mark.parametrize(
    ("called", "device", "trains", "words", "others"),
    [
        ("DistributedDataParallel.forward", V100, True, ["bucket_cap_mb", "fp16 compression"], ["FSDP"]),
        ("FSDP::pre_forward", A100, True, ["FSDP"], ["bucket_cap_mb", "compression"]),
        ("aten::mm", A100, True, ["bucket_cap_mb", "bf16 compression", "FSDP"], []),
        ("aten::mm", A100, False, ["fewer ranks to a layer"],
         ["DistributedData", "FSDP", "no_sync", "gradient"]),
    ],
)  # fmt: skip
def test_communication_is_cured_as_it_is_done(
    findings: Any, called: str, device: Any, trains: bool, words: list[str], others: list[str]
) -> None:
    made = job(device, trains=trains).event(called, 0, 1, kind="annotation")
    made.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 500_000, kind="communication")
    (row,) = [one for one in findings(made.rows()) if one["id"] == "communication-bound"]
    assert all(word in row["advice"] for word in words)
    assert not [word for word in others if word in row["advice"]]


@pytest.mark.parametrize(
    ("operation", "words", "others"),
    [
        ("all_to_all", ["next batch"], ["bucket_cap_mb", "FSDP", "no_sync"]),
        ("all_gather", ["FSDP with backward prefetch"], ["bucket_cap_mb", "next batch"]),
        ("all_reduce", ["bucket_cap_mb"], ["FSDP", "next batch"]),
    ],
)
def test_communication_is_named_by_what_most_of_it_is(
    findings: Any, operation: str, words: list[str], others: list[str]
) -> None:
    made = job(A100, trains=True)
    made.kernel("ncclDevKernel_SendRecv", 400_000, kind="communication")
    made.kernel("ncclDevKernel_Broadcast", 100_000, kind="communication")
    rows = made.rows()
    rows["collective"] = [
        {"id": row["id"], "operation": operation if "SendRecv" in row["name"] else "broadcast"}
        for row in rows["device_event"]
        if row["kind"] == "communication"
    ]
    (row,) = [one for one in findings(rows) if one["id"] == "communication-bound"]
    assert row["title"].endswith(f"; {operation} has 80.0 % of the collectives' time")
    assert row["evidence"][-2]["time_ns"] == 400_000
    assert all(word in row["advice"] for word in words)
    assert not [word for word in others if word in row["advice"]]


@pytest.mark.parametrize(
    ("wait_ns", "ends", "advice"),
    [
        (300_000, "; 60.0 % of their time is waiting for the last rank", "waiting for the last rank"),
        (50_000, "; 10.0 % of their time is waiting for the last rank", "sizes, bandwidths"),
        (None, "exposed time", "Record all ranks"),
    ],
)
def test_of_matched_collectives_it_says_what_was_waiting(
    findings: Any, wait_ns: int | None, ends: str, advice: str
) -> None:
    made = job(A100, trains=True)
    made.kernel("ncclDevKernel_SendRecv", 400_000, kind="communication")
    made.kernel("ncclDevKernel_AllReduce", 100_000, kind="communication")
    rows = made.rows()
    rows["collective"] = [
        {"id": row["id"], "operation": name, "group_description": group, "exposed_ns": exposed}
        | ({} if wait_ns is None else {"match_id": at, "wait_ns": wait, "transfer_ns": ns - wait})
        for at, (row, (name, group, exposed, ns, wait)) in enumerate(
            zip(
                (row for row in rows["device_event"] if row["kind"] == "communication"),
                [
                    ("all_to_all", "mesh_ep", 60_000, 400_000, wait_ns or 0),
                    ("all_reduce", "mesh_dp", 100_000, 100_000, 0),
                ] * 9,
                strict=False,
            )
        )
    ]  # fmt: skip
    (row,) = [one for one in findings(rows) if one["id"] == "communication-bound"]
    assert "; all_reduce of group mesh_dp has 62.5 % of the collectives' exposed time" in row["title"]
    assert row["title"].endswith(ends)
    assert advice in row["advice"]


class Known:
    """What cures ask of a recording."""

    def __init__(self, platform: str | None) -> None:
        self.platform, self.loops_over_parameters, self.in_pytorch = platform, False, True


@pytest.mark.parametrize(
    ("platform", "named"),
    [
        ("cuda", ("CUDA graphs", "tensor cores", "multiprocessors", "nvidia-smi")),
        ("rocm", ("HIP graphs", "matrix cores", "compute units", "amd-smi")),
    ],
)
def test_things_have_the_names_that_the_vendor_gives_them(platform: str, named: tuple[str, ...]) -> None:
    known: Any = Known(platform)
    assert (graphs(known), matrix_units(known), processors(known), device_tool(known)) == named
    assert graphs(known) in launch_less(known)


@pytest.mark.parametrize(("name", "compiled"), [("triton_poi_fused_add_0", True), (SHORT, False)])
def test_who_compiles_already_is_not_told_to(findings: Any, name: str, compiled: bool) -> None:
    made = job(A100, trains=False).kernel(name, 2_000, count=200).kernel("work", 500_000)
    (row,) = findings(made.rows(), "small-kernels")
    assert ("torch.compile for what is not compiled yet" in row["advice"]) is compiled


@pytest.mark.parametrize("named", ["solve(double*, int)", "void at::native::fill(float*)"])
def test_pytorch_is_named_to_programs_of_pytorch_alone(findings: Any, named: str) -> None:
    made = Job(device={**A100, "memory_bytes": 1 << 36}, step_ns=4_000_000)
    made.more["source"] = [{"path": "solver.sqlite", "format": "nsys"}]
    made.kernel(named, 5_000, count=60, blocks_per_sm=0.5, late=True)
    made.kernel("Memcpy HtoD", 900_000, kind="copy", copy_kind="HtoD", memory_kind="pageable", bytes=1 << 24)
    made.kernel(named, 9_000, count=10, gap_ns=100_000, late=True)
    made.event("cudaStreamSynchronize", 1_500_000, 2_000_000, kind="runtime", role="synchronize")
    rows = findings(made.rows())
    assert {"synchronization", "pageable-copies"} <= {row["id"] for row in rows}
    told = " ".join(row["advice"] for row in rows).replace("in PyTorch those of torch", "")
    assert ("torch" in told) == named.startswith("void at::")
