"""Kernels that communicate, by their names in every library and era."""

import pytest

from stepscope.costs import kernel_class
from stepscope.formats import vocabulary
from stepscope.formats.communication import communicating, host_library

COMMUNICATE = [
    # NCCL: 1.x, 2.0-2.18, from 2.19, over symmetric memory
    ("void AllReduceKernel<256, 8, FuncSum<float>, float>(KernelArgs<float>)", "nccl"),
    ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "nccl"),
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "nccl"),
    ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "nccl"),
    ("ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f32(ncclSymkDevWorkArgs)", "nccl"),
    ("rcclDevKernel_Generic(x)", "rccl"),
    ("hcom_allReduce__123_0_1", "hccl"),
    ("oneccl_allreduce_small", "xccl"),
    ("void nvshmemi_barrier_kernel()", "nvshmem"),
    ("mscclKernel_Sum_half_Simple(x)", "msccl"),
    ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(P)", "symmetric_memory"),
    ("void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<float, 16, 8>(P)", "symmetric_memory"),
    ("void c10d::symmetric_memory::barrier_kernel(unsigned int**)", "symmetric_memory"),
    ("void vllm::cross_device_reduce_1stage<__half, 8>(RankData*)", "custom"),
    ("_ZN4vllm26cross_device_reduce_2stageI6__halfLi2EEEv", "custom"),
    ("void vllm::quickreduce::allreduce_prototype_twoshot<x>(P)", "custom"),
    ("void tensorrt_llm::kernels::oneShotAllReduceKernel<half>(P)", "custom"),
    ("void flashinfer::trtllm::allreduce_fusion_kernel_oneshot_lamport<(X)1, 8>(P)", "custom"),
    ("void deep_ep::internode_ll::dispatch<true>(void*)", "custom"),
    ("userbuffers_fp16_sum_inplace_gpu_rw_ag(P)", "custom"),
]
COMPUTE = [
    "volta_sgemm_64x64_nt", "void softmax<BlockAllReduce>(float*)", "WarpAllReduceKernel(float*)",
    "_scatter_gather_elementwise_kernel", "void cub::DeviceReduceKernel<int>(P)",
    # Inductor: reads what a collective gave
    "triton_poi_fused_add_all_reduce_wait_tensor_0",
]  # fmt: skip
FUSED = [
    "void trtllm::gemm_allreduce_kernel<x>(P)", "kernel_gemm_rs_producer_persistent", "ag_gemm_kernel",
    "void cutlass::device_kernel<Gemm<PersistentAsyncInputScheduler<x>>>(P)", "void bytedance::flux::kernel<x>(P)",
]  # fmt: skip


@pytest.mark.parametrize(("name", "library"), COMMUNICATE)
def test_kernels_of_every_library_communicate(name, library):
    assert communicating(name) == (library, False)
    assert vocabulary.device_kind("computation", name) == "communication"
    assert kernel_class(name) == "communication"


@pytest.mark.parametrize("name", COMPUTE)
def test_kernels_that_only_name_an_exchange_compute(name):
    assert communicating(name) is None
    assert vocabulary.device_kind("computation", name) == "computation"
    assert kernel_class(name) != "communication"


@pytest.mark.parametrize("name", FUSED)
def test_a_product_that_exchanges_is_marked_and_computes(name):
    found = communicating(name)
    assert found is not None
    assert found.fused
    assert vocabulary.device_kind("computation", name) == "computation"
    assert kernel_class(name) == "GEMM"


def test_libraries_that_communicate_on_the_host_are_known_by_their_ranges():
    assert host_library("gloo:all_reduce") == "gloo"
    assert host_library("MPI_Alltoall") == "mpi"
    assert host_library("nccl:all_reduce") is None
    assert host_library("MPIX_something") is None
