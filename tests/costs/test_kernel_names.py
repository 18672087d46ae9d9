"""What kernels' names tell: tensor cores, generation, type, class, library. One line a kernel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.costs.kernel_name import CLASSES, class_of, element_type, kernel_class, library
from stepscope.costs.registry import BY_NAME
from stepscope.costs.tensor_cores import Misaligned, alignment, arithmetic_type, misaligned, tensor_core_use

USED = [
    ("volta_h884gemm_256x64_ldg8_nn", "Volta", "float16"),
    ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "Volta", "float16"),
    ("volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_exp_small_nhwc_tn_v1", "Volta", "float16"),
    ("turing_h1688gemm_128x128_ldg8_nn", "Turing", "float16"),
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn", "Turing", "float16"),
    ("turing_int8_i8816gemm_int8_256x128_ldg16_relu_tn", "Turing", "int8"),
    ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "Ampere", "float16"),
    ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_relu_f2f_tn", "Ampere", "bfloat16"),
    ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(P)", "Ampere", "tf32"),
    ("cutlass_75_tensorop_f16_s1688gemm_f16_128x128_nn_align1", "Turing", "float16"),
    ("cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8", "Ampere", "bfloat16"),
    ("cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1", "Ampere", "float64"),
    ("cutlass_tensorop_s1688dgrad_optimized_tf32_64x256_32x4_nhwc_align4", "Ampere", "tf32"),
    ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tensor16x8x8", "Ampere", "tf32"),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_cublas", "Hopper", "bfloat16"),
    ("nvjet_tst_192x208_64x4_1x1_h_bz_coopB_bias_TNT", None, "bfloat16"),
    ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNN", None, "float16"),
    ("nvjet_qqtst_112x128_128x7_2x1_v_bz_coopA_algo2_TNN", None, "float8_e4m3fn"),
    ("nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT", "Blackwell", "bfloat16"),
    ("nvjet_sm100_tst_mma_128x256_64", "Blackwell", "bfloat16"),
    ("nvjet_sss_tf32_128x256_TNT", None, "tf32"),
    ("cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_ttt_align8", "Hopper", "float16"),
    ("cutlass3x_sm100_bstensorop_s256x256x64gemm_block_scaled_ue4m3xf4_ue4m3xf4_f32", "Blackwell", "float4_e2m1fn_x2"),
    ("void cutlass::device_kernel<Universal<MainloopSm90TmaGmmaWarpSpecialized<cutlass::bfloat16_t>>>",
     "Hopper", "bfloat16"),
    ("void cutlass::device_kernel<Universal<MainloopSm100TmaUmmaWarpSpecialized<float_e4m3_t>>>",
     "Blackwell", "float8_e4m3fn"),
    ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_sm100f", "Blackwell", "float4_e2m1fn_x2"),
    ("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128", "Blackwell", "float8_e4m3fn"),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, cutlass::bfloat16_t>>", "Ampere", "bfloat16"),
    ("void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<half_t>>", "Ampere", "float16"),
    ("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<half>>>", "Hopper", "float16"),
    ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)", "Ampere", "bfloat16"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", "Hopper", "float16"),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT32x32x64_MI16x16x1_SN_ISA90a_IU1", "CDNA2", "bfloat16"),
    ("Cijk_Alik_Bljk_HHS_BH_Bias_MT16x16x128_MI16x16x1_SN_ISA942_IU1", "CDNA3", "float16"),
    ("igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt64x64x64", "CDNA2", "bfloat16"),
    ("_ZN2ck16kernel_gemm_xdlops_v2r3I", None, None),
    ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", None, "float4_e2m1fn_x2"),
]  # fmt: skip
NOT_USED = [
    "volta_sgemm_128x64_nn",
    "ampere_sgemm_32x32_sliced1x4_tn",
    "maxwell_sgemm_128x64_tn",
    "volta_hgemm_128x64_nn",
    "volta_dgemm_64x64_nn",
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
    "cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
    "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)",
    "cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_128x128x16_1x1x1_3_tnn_align1_bias_f32_relu",
    "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x64x8_stage3_warpsize2x2x1_ffma_cublas",
    "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int)",
    "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)",
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(P)",
    "void splitKreduce_kernel<32, 16, int, float, float, float, float, true, true, false>(P)",
    "void magma_sgemmEx_kernel<float, float, float, false, false, 6, 3, 5, 3, 3>(int)",
    "fmha_cutlassF_f16_aligned_64x64_rf_sm50(PyTorchMemEffAttention::Params)",
    "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_TT4_4_VW4",
]
SILENT = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
    "triton_poi_fused_add_0",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "my_kernel",
    "",
]


@pytest.mark.parametrize(("name", "generation", "dtype"), USED)
def test_kernels_that_use_tensor_cores(name, generation, dtype) -> None:
    found = tensor_core_use(name)
    assert (found.used, found.generation, found.dtype) == (True, generation, dtype)
    assert found.rule


@pytest.mark.parametrize("name", NOT_USED)
def test_kernels_that_do_not(name) -> None:
    assert tensor_core_use(name).used is False


@pytest.mark.parametrize("name", SILENT)
def test_names_that_tell_nothing(name) -> None:
    assert tensor_core_use(name).used is None


@pytest.mark.parametrize("name", ["triton_tem_fused_mm_3", "attn_fwd", "kernel_unified_attention_2d"])
def test_a_product_in_triton_depends_on_its_type(name) -> None:
    assert tensor_core_use(name).used is None
    assert tensor_core_use(name, "bfloat16").used is True
    assert tensor_core_use(name, "float32").used is None


def test_float32_on_tensor_cores_is_tf32() -> None:
    tf32 = tensor_core_use("cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4")
    assert arithmetic_type("float32", tf32) == "tf32"
    assert arithmetic_type("float32", tensor_core_use("ampere_sgemm_128x64_nn")) == "float32"
    assert arithmetic_type("bfloat16", tf32) == "bfloat16"
    assert arithmetic_type(None, tf32) is None


def test_what_a_cutlass_kernel_is_aligned_to() -> None:
    assert alignment("cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1") == 1
    assert alignment("cutlass_80_tensorop_bf16_s16816gemm_bf16_tn_align8::Params") == 8
    assert alignment("ampere_sgemm_128x64_nn") is None


def test_eligible_operators_are_products_convolutions_and_attention() -> None:
    for name in ("aten::addmm", "aten::cudnn_convolution", "aten::_flash_attention_forward"):
        assert BY_NAME[name].is_eligible
    for name in ("aten::add", "aten::prelu", "aten::cudnn_convolution_backward_bias"):
        assert not BY_NAME[name].is_eligible
    assert sum(model.is_eligible for model in BY_NAME.values()) > 80


BF16 = '["c10::BFloat16", "c10::BFloat16"]'


def test_odd_sequence_lengths_are_named() -> None:
    """The batched products of attention over 5185 tokens."""
    assert misaligned("aten::bmm", "[[16, 64, 5185], [16, 5185, 64]]", BF16) == [Misaligned("K", 5185, 8)]
    assert misaligned("aten::bmm", "[[16, 5184, 64], [16, 64, 5184]]", BF16) == []
    assert misaligned("aten::bmm", "[[16, 5185, 64], [16, 64, 5185]]", BF16) == [Misaligned("N", 5185, 8)]


def test_what_must_be_aligned_is_what_is_contiguous() -> None:
    """A transposed first matrix is contiguous along M."""
    strides = "[[1, 100], [8, 1]]"
    assert misaligned("aten::mm", "[[100, 33], [33, 8]]", BF16, strides) == [Misaligned("M", 100, 8)]
    assert misaligned("aten::mm", "[[100, 33], [33, 8]]", BF16) == [Misaligned("K", 33, 8)]


def test_the_multiple_is_16_bytes_whatever_the_type() -> None:
    e4m3 = '["c10::Float8_e4m3fn", "c10::Float8_e4m3fn"]'
    assert misaligned("aten::_scaled_mm", "[[16, 24], [24, 16]]", e4m3) == [Misaligned("K", 24, 16)]
    single = '["float", "float"]'
    assert misaligned("aten::mm", "[[16, 24], [24, 16]]", single) == []
    assert misaligned("aten::linear", "[[5, 24], [30, 24]]", single) == [Misaligned("N", 30, 4)]


def test_the_channels_of_a_convolution_must_be_aligned() -> None:
    found = misaligned("aten::cudnn_convolution", "[[32, 3, 224, 224], [64, 3, 7, 7]]", BF16)
    assert found == [Misaligned("channels in", 3, 8)]
    assert misaligned("aten::add", "[[3], [3]]", BF16) == []
    assert misaligned("aten::mm", "nonsense") == []


CLASSED = [
    ("ampere_sgemm_128x64_nn", "GEMM", "cuBLAS"),
    ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", "GEMM", "cuBLAS"),
    ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_tn_align4>(P)", "GEMM", "CUTLASS"),
    ("Cijk_Alik_Bljk_BBS_BH_MT32x32x64_MI16x16x1", "GEMM", "hipBLASLt or rocBLAS"),
    ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_sm100f", "GEMM", "TensorRT-LLM"),
    ("void splitKreduce_kernel<float, float>(P)", "GEMM", "cuBLAS"),
    ("triton_tem_fused_addmm_2", "GEMM", "Triton"),
    ("volta_scudnn_128x64_relu_medium_nn_v1", "convolution", "cuDNN"),
    ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_execute_kernel_cudnn_train", "convolution", "cuDNN"),
    ("cutlass_tensorop_s1688fprop_optimized_tf32_nhwc_align4", "convolution", "CUTLASS"),
    ("igemm_wrw_gtcx2_nhwc_bf16_bx0", "convolution", "MIOpen"),
    ("void pytorch_flash::flash_fwd_kernel<T>(P)", "attention", "FlashAttention"),
    ("fmhaSm100aKernel_QkvE4m3OBfloat16", "attention", "TensorRT-LLM"),
    ("attn_fwd", "attention", "Triton"),
    ("void cudnn::bn_fw_tr_1C11_singleread<float, 512, true>(P)", "normalisation", "cuDNN"),
    ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
     "normalisation", "PyTorch"),
    ("void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(P)", "normalisation", "vLLM"),
    ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwd", "normalisation", "Composable Kernel"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
     "element-wise", "PyTorch"),
    ("triton_poi_fused_add_relu_0", "element-wise", "Triton"),
    ("triton_poi_fused_convolution_relu_3", "element-wise", "Triton"),
    ("triton_poi_fused_matmul_0", "element-wise", "Triton"),
    ("triton_red_fused_convolution_backward_1", "reduction", "Triton"),
    ("triton_per_fused__scaled_dot_product_attention_mul_sum_2", "reduction", "Triton"),
    ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(P)", "element-wise", "vLLM"),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(P)", "reduction", "PyTorch"),
    ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true>(P)", "softmax", "PyTorch"),
    ("void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, true, false>(P)",
     "softmax", "PyTorch"),
    ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, "
     "at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(P)", "softmax", "PyTorch"),
    ("triton_per_fused__softmax_1", "softmax", "Triton"),
    ("void cunn_SoftMaxXEntropyForward<4, float>(P)", "reduction", "PyTorch"),
    ("triton_per_fused_sum_4", "reduction", "Triton"),
    ("void cub::DeviceScanKernel<int>(P)", "reduction", "CUB"),
    ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication", "NCCL"),
    ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(P)", "communication", "PyTorch"),
    ("Memcpy HtoD (Pinned -> Device)", "copy", "CUDA runtime"),
    ("Memset (Device)", "copy", "CUDA runtime"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)", "copy", "PyTorch"),
    ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 1>(P)", "copy", "PyTorch"),
    ("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(int)", "optimizer", "Apex"),
    ("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>(P)", "optimizer", "PyTorch"),
    ("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int)", "copy", "FBGEMM"),
    ("my_kernel", "other", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "label", "origin"), CLASSED)
def test_a_kernel_has_a_class_and_a_library(name, label, origin) -> None:
    assert kernel_class(name) == label
    assert library(name) == origin


def test_the_operator_decides_before_the_name() -> None:
    assert class_of("convolution", "volta_sgemm_64x64_nt") == "convolution"
    assert class_of(None, "volta_sgemm_64x64_nt") == "GEMM"
    assert class_of("generated", "triton_red_fused_sum_1") == "reduction"
    assert class_of("softmax", "triton_red_fused_sum_1") == "softmax"
    assert class_of("loss", "void cunn_SoftMaxForward<4, float>(P)") == "reduction"
    assert class_of("reduction", "Memset (Device)") == "copy"
    assert class_of("gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL") == "communication"


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>(int)", "float32"),
        ("void f<BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>>(P)", "bfloat16"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<long, unsigned int, 2>(P)", "int64"),
        ("void elementwise_kernel<128, 2, copy::{lambda(c10::Half)#1}>(int)", "float16"),
        ("ampere_sgemm_128x64_nn", None),
    ],
)
def test_the_type_of_a_kernels_elements(name, dtype) -> None:
    assert element_type(name) == dtype


@examples(60)
@given(st.text(max_size=200) | st.sampled_from([name for name, _, _ in USED]).map(lambda n: n * 50))
def test_any_text_is_a_kernels_name(name) -> None:
    assert kernel_class(name) in CLASSES
    assert tensor_core_use(name).used in (True, False, None)
    element_type(name)
    library(name)
