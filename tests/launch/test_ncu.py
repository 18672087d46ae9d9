"""ncu: which kernels it finds again under another tool's names, and which metrics under nvprof's."""

import csv
import re
import shutil
from pathlib import Path

import pytest
from tests.processes import ran

from stepscope.launch.line import tool_line
from stepscope.launch.tool import Request
from stepscope.launch.tools import TOOLS
from stepscope.launch.tools.ncu import kernel_filter
from stepscope.launch.tools.nvprof_metrics import NCU_NAMES, ncu_names

needs_ncu = pytest.mark.skipif(shutil.which("ncu") is None, reason="ncu is not installed")

# Each kernel as torch.profiler spells it, and as NVIDIA's tools do.
MUL = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor"
    "<float, float, float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, "
    "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > const&)"
    "::{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<float>)",
    "void at::native::elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl_nocast<at::native::"
    "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>>"
    "(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)",
)
COPY = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda"
    "(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int, "
    "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul>)",
    "void at::native::vectorized_elementwise_kernel<(int)8, at::native::bfloat16_copy_kernel_cuda"
    "(at::TensorIteratorBase &)::[lambda(float) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)",
)
FLASH = (
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t, "
    "Flash_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >, false, true>(flash::Flash_fwd_params)",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)128, (int)64, (int)4, (bool)0, (bool)0, "
    "cutlass::bfloat16_t, Flash_kernel_traits<(int)128, (int)128, (int)64, (int)4, cutlass::bfloat16_t>>, (bool)0, "
    "(bool)1>(flash::Flash_fwd_params)",
)
SOFTMAX = (
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<2, float, float, float, at::native::"
    "(anonymous namespace)::LogSoftMaxForwardEpilogue>(float*, float*, int)",
    "void at::native::<unnamed>::cunn_SoftMaxForward<(int)2, float, float, float, at::native::<unnamed>::"
    "LogSoftMaxForwardEpilogue>(T4 *, const T2 *, int)",
)
GEMM = ("volta_sgemm_128x64_tn", "volta_sgemm_128x64_tn")
CUTLASS = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>"
    "(cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2::Params)",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>(T1::Params)",
)
NORM = (
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
    "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
    "std::enable_if<((8)>(0))&&vllm::_typeConvert<T1>::exists, void>::type "
    "vllm::fused_add_rms_norm_kernel<c10::BFloat16, (int)8>(T1 *, long)",
)
PLAIN = ("add_one(float*, int)", "add_one(float *, int)")
KERNELS = (MUL, COPY, FLASH, SOFTMAX, GEMM, CUTLASS, NORM, PLAIN)


@pytest.mark.parametrize("expected", KERNELS, ids=lambda pair: pair[0][:40])
@pytest.mark.parametrize("spelling", [0, 1], ids=["Kineto's", "NVIDIA's"])
def test_a_kernel_is_found_under_either_name_and_no_other_is(expected: tuple[str, str], spelling: int) -> None:
    found = re.compile(kernel_filter([expected[spelling]]))
    for either in (0, 1):
        assert [kernel for kernel in KERNELS if found.search(kernel[either])] == [expected]


def test_kernels_of_one_function_are_told_apart_by_what_they_are_made_of() -> None:
    add = MUL[1].replace("MulFunctor", "AddFunctor")
    assert not re.search(kernel_filter([MUL[0]]), add)
    assert not re.search(kernel_filter([GEMM[0]]), f"{GEMM[0]}_splitK")
    assert not re.search(kernel_filter(["sgemm_128x64_tn"]), GEMM[0])


def test_several_kernels_are_one_expression() -> None:
    found = re.compile(kernel_filter([MUL[0], GEMM[0], MUL[0]]))
    assert [pair for pair in KERNELS if found.search(pair[1])] == [MUL, GEMM]


def typed(**asked) -> str:
    request = Request(Path("/runs/rank0.n"), **asked)
    return tool_line(TOOLS["ncu"], "ncu", request, ("./app",)).typed()


def test_command_line_for_the_heaviest_kernels() -> None:
    assert typed(kernels=("sgemm_nt", "f(int)"), set_name="roofline", metrics=("ipc", "a__b.sum")) == (
        "ncu --target-processes=all --launch-count=200 --kernel-name-base=demangled "
        r"'--kernel-name=regex:(^|[ :])(sgemm_nt(\(|$)|f(\(|$))' "
        "--metrics=smsp__inst_executed.avg.per_cycle_active,a__b.sum --set=roofline "
        "--export=/runs/rank0.n ./app"
    )


def test_nvprof_takes_its_own_names() -> None:
    request = Request(Path("/runs/a"), metrics=("ipc", "dram_utilization"))
    line = tool_line(TOOLS["nvprof"], "nvprof", request, ("./app",)).words
    assert " --metrics ipc,dram_utilization " in " ".join(line)


def test_a_rate_is_recorded_as_its_parts_once() -> None:
    assert ncu_names(("l1_cache_local_hit_rate", "l1_cache_local_hit_rate")) == tuple(
        f"l1tex__t_sectors_pipe_lsu_mem_local_op_{one}{part}.sum"
        for part in ("_lookup_hit", "")
        for one in ("ld", "st")
    )


# -- with NVIDIA's own ----------------------------------------------------------------------------------


@needs_ncu
def test_every_name_is_a_metric_of_volta_ampere_and_hopper() -> None:
    expected = {name.partition(".")[0] for names in NCU_NAMES.values() for name in names}
    asked = ["ncu", "--query-metrics", "--chips", "gv100,ga100,gh100"]
    listed = ran(*asked).stdout
    for chip in listed.split("\nChip ")[1:]:
        known = {line.split()[0] for line in chip.splitlines() if "__" in line}
        assert expected - known == set(), chip[:5]


@needs_ncu
@pytest.mark.traces
@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["void two_blocktiling<128, 128, 8, 8, 8>(int, int, int, float const*)"], ["two_blocktiling"]),
        (["warptiling<128, 128>", "void one_blocktiling<64>(int)"], ["one_blocktiling", "warptiling"]),
        (["blocktiling"], []),
    ],
)
def test_ncu_finds_them_in_a_report(names: list[str], found: list[str], shared_traces: Path) -> None:
    report = shared_traces / "ncu" / "a10g_5_kernels.ncu-rep"
    asked = ["--kernel-name-base=demangled", f"--kernel-name=regex:{kernel_filter(names)}"]
    done = ran(*("ncu", "--import", report, "--csv", "--page", "raw"), *asked, "--print-kernel-base=function")
    rows = list(csv.DictReader(done.stdout.splitlines())) if found else []
    assert [row["Kernel Name"] for row in rows if row["ID"]] == found


@needs_ncu
@pytest.mark.traces
def test_a_report_that_was_cut_is_known(tmp_path: Path, shared_traces: Path) -> None:
    content = (shared_traces / "ncu" / "a10g_5_kernels.ncu-rep").read_bytes()
    (kind,) = TOOLS["ncu"].written
    report = tmp_path / "a.ncu-rep"
    report.write_bytes(content)
    assert kind.lacks(report, "ncu") == ""
    for size in (len(content) - 9, 1000, 0):
        report.write_bytes(content[:size])
        assert kind.lacks(report, "ncu").startswith("ncu --import: ==ERROR== Failed to load")
