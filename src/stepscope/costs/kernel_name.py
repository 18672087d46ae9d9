"""Reads a kernel's class of work, library and element type from its name, for kernels without a known operator."""

from __future__ import annotations

import re
from functools import lru_cache

from stepscope.base.patterns import lazily
from stepscope.costs.work import FAMILIES
from stepscope.formats.communication import communicating

CLASSES: tuple[str, ...] = (
    "GEMM", "convolution", "attention", "normalisation", "softmax", "element-wise", "reduction", "communication", "copy",
    "optimizer", "other",
)  # fmt: skip
"""Classes of work. `copy` moves elements (copies, fills, layouts, gathering, scattering, embeddings), `reduction`
includes scans, losses and pooling. Softmax is separate because it reveals attention that is not fused."""

_LONGEST_NAME = 8192


def _compiled(*rows: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((lazily(pattern), label) for label, pattern in rows)


_CLASSES = _compiled(
    ("copy", r"^(hip)?mem(cpy|set)"),
    (
        "optimizer",
        r"adam|adagrad|lamb(functor|stage)|fused_?sgd|sgdfunctor|rmsprop|novograd|"
        r"^(?=.*multi_tensor_apply_kernel<).*(addcdiv|addcmul|lerp)functor",
    ),
    (
        "attention",
        r"flash_?(fwd|bwd|attn)|fmha|attn_(fwd|bwd)|attention|\bmha_|_mha_|sdpa|"
        r"bwd_kernel_d[kq]",
    ),
    (
        "normalisation",
        r"batch_?norm|layer_?norm|rms_?norm|group_?norm|instance_?norm|cudnn::bn_|"
        r"bnfw|bnbw|\bbn_(fw|bw)|rowwisemoments|gammabeta|computeinternalgradients|"
        r"computegradientfusedparams|computefusedparams|miopenbatchnorm|cucomputegrad|"
        r"cuapplylayernorm|weight_norm|_native_batch_norm",
    ),
    ("softmax", r"softmax(?!_?xentropy)"),
    (
        "convolution",
        r"[sh]\d*cudnn_|implicit_convolve|explicit_convolve|convolution|dgrad|wgrad|fprop|"
        r"winograd|igemm_(fwd|bwd|wrw)|\bconv_?\d?d|conv_depthwise|im2col|col2im|implicit_gemm|"
        r"implicitgemmconv|computeoffsets|computeb?offsets|computewgrad|miopen(sp3asmconv|gcnasmconv)|"
        r"gcnasmconv|naive_conv|reduce_wgrad",
    ),
    (
        "GEMM",
        r"(?<!fb)gemm|nvjet_|^cijk_|gemv|splitkreduce|matmul|^bmm_|triton_tem_fused_\w{0,60}(mm|linear)|"
        r"cutlass.{0,120}(tensorop|device_kernel)|xmma|dot_kernel|fused_moe_kernel|cublas|_scaled_mm|"
        r"mma_kernel",
    ),
    (
        "copy",
        r"direct_copy|copy_device_to_device|copy_kernel|catarray|nchwtonhwc|nhwctonchw|"
        r"transpose|fillfunctor|(?<!masked_)fill_kernel|index|gather|scatter|(?<!rotary_)embedding|permute|"
        r"reshape_and_cache|bfloat16_copy|float16_copy|recat_copy|repeat|roll_cuda|flip_|"
        r"triu_tril|pad_\w{0,60}kernel|masked_select|to_dense|subtensoropwithcast|scalepackedtensor|"
        r"subtensoropwithscalar|bucketize_sparse|fused_moe_align|memset|memcpy",
    ),
    (
        "reduction",
        r"reduce|softmax_?xentropy|reduction|cub::.{0,120}(scan|histogram|select)|cumsum|cumprod|scan_|"
        r"nll_?loss|classnll|topk|sort|pool|arg(max|min)|norm_kernel|meanops|triton_(red|per)_|"
        r"segment|cross_entropy|searchsorted|unique|upsample",
    ),
    (
        "element-wise",
        r"elementwise|pointwise|triton_poi_|dropout|distribution_|multi_tensor_apply|"
        r"masked_scale|swiglu|silu|gelu|relu|rotary|rope|quant|threshold|"
        r"arange|_act_|activation|cast|bias_add|masked_fill",
    ),
)
"""In order, for lower-case names: a pattern that ignores case takes four times as long."""

_PIECE_OF_INDUCTOR = lazily(r"^triton_(?:poi|per|red|for|unk)_")
"""A kernel that Inductor made of element-wise operators and reductions; its name may contain a product's, whose
template is `triton_tem_`."""
_PRODUCTS = frozenset({"attention", "convolution", "GEMM"})

_GRADIENTS = _compiled(
    (
        "convolution.input_gradient",
        r"(?i)dgrad|bprop_data|igemm_bwd_|naive_conv_\w{0,60}_bwd_|conv_depthwise[23]d_backward_kernel",
    ),
    (
        "convolution.weight_gradient",
        r"(?i)wgrad|igemm_wrw_|naive_conv_\w{0,60}_wrw_|conv_depthwise[23]d_(grad_)?weight",
    ),
)
"""Gradients of a convolution in names of cuDNN and CUTLASS (`dgrad`), MIOpen (`wrw`) and torch."""

_LIBRARIES = _compiled(
    ("NCCL", r"(?i)nccl(Kernel|Dev|_)|ncclKernel"),
    ("RCCL", r"(?i)rccl"),
    ("NVSHMEM", r"(?i)nvshmem"),
    ("CUDA runtime", r"^Mem(cpy|set)"),
    ("HIP runtime", r"^hipMem|__amd_rocclr"),
    ("cuDNN", r"cudnn|scudnn|cask_|implicit_convolve|explicit_convolve|winograd_nonfused"),
    ("Triton", r"^triton_|^triton__|_matmul_ogs|^attn_(fwd|bwd)|kernel_unified_attention"),
    ("FlashAttention", r"flash_(fwd|bwd)|flash::|FlashAttn|Flash_(fwd|bwd)"),
    ("TensorRT-LLM", r"tensorrt_llm|fmhaSm|^bmm_[A-Z]|moe::dev|^gemm_[A-Z]"),
    ("vLLM", r"vllm::"),
    ("FBGEMM", r"fbgemm|split_embedding|permute_pooled_embs|bounds_check_indices|recat_copy"),
    ("Composable Kernel", r"\bck::|ck_tile|N2ck|_ZN2ck"),
    ("hipBLASLt or rocBLAS", r"^Cijk_"),
    ("MIOpen", r"(?i)igemm_|miopen|batched_transpose_|SubTensorOp|gcnAsmConv"),
    ("MAGMA", r"magma_"),
    (
        "cuBLAS",
        r"nvjet_|cublas|splitK[rR]educe|gemv|gemmk1|gemmSN|dot_kernel|reduce_1Block|"
        r"^(maxwell|pascal|volta|turing|ampere|sm\d\d)_\w*gemm|^sm\d\d_xmma_gemm",
    ),
    ("CUTLASS", r"cutlass"),
    ("CUB", r"\bcub::|N3cub"),
    (
        "PyTorch",
        r"\bat::|N2at|2at6native|cunn_|at_cuda_detail|kernelPointwise|kernelReduce|"
        r"indexSelect|softmax_warp|multimem_all|indexing_backward",
    ),
    ("Apex", r"multi_tensor_apply_kernel|FusedLAMB"),
    ("xmma", r"xmma"),
)

_TYPES: dict[str, str] = {
    "c10::BFloat16": "bfloat16",
    "__nv_bfloat16": "bfloat16",
    "__hip_bfloat16": "bfloat16",
    "cutlass::bfloat16_t": "bfloat16",
    "c10::Half": "float16",
    "__half": "float16",
    "cutlass::half_t": "float16",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "double": "float64",
    "float": "float32",
    "long": "int64",
    "int": "int32",
    "bool": "bool",
}
_NAMED = "|".join(re.escape(name) for name in sorted(_TYPES, key=len, reverse=True))
_SINGLE = lazily(r"scudnn|sgemm|f32f32_f32f32|_s1688")
"""Libraries' names for single precision in the names of their products."""
_WITNESSES = tuple(
    lazily(pattern)
    for pattern in (
        rf"(?:Functor|Functor_\w{{1,60}}|CatArrayBatchedCopy\w{{0,60}})<({_NAMED})[,>]",
        rf"lambda\(({_NAMED})[,)]",
        rf"^[^<(]*<({_NAMED})[,>]",
    )
)
"""Places of the element type in a name: a functor's argument, a lambda's, the first of the kernel."""


@lru_cache(maxsize=16_384)
def kernel_class(kernel: str) -> str:
    """Class of work of a kernel, copy or fill, by its name; `other` if unknown.

    >>> kernel_class("ampere_sgemm_128x64_nn"), kernel_class("Memcpy DtoH (Device -> Pinned)")
    ('GEMM', 'copy')
    """
    exchange = communicating(kernel)
    if exchange is not None:
        return "GEMM" if exchange.fused else "communication"
    name = kernel[:_LONGEST_NAME].lower()
    left_out = _PRODUCTS if _PIECE_OF_INDUCTOR.match(name) else ()
    by_name = (label for pattern, label in _CLASSES if label not in left_out and pattern.search(name))
    return next(by_name, "other")


@lru_cache(maxsize=16_384)
def gradient_of(kernel: str) -> str | None:
    """Formula of the gradient of a convolution that a kernel computes; None if its name does not say.

    >>> gradient_of("cutlass_tensorop_s1688dgrad_optimized_tf32_64x256_32x4_nhwc_align4")
    'convolution.input_gradient'
    """
    name = kernel[:_LONGEST_NAME]
    return next((formula for pattern, formula in _GRADIENTS if pattern.search(name)), None)


@lru_cache(maxsize=16_384)
def library(kernel: str) -> str | None:
    """Library that a kernel comes from, by its name; None if unknown.

    >>> library("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN"), library("my_kernel")
    ('cuBLAS', None)
    """
    name = kernel[:_LONGEST_NAME]
    return next((label for pattern, label in _LIBRARIES if pattern.search(name)), None)


@lru_cache(maxsize=16_384)
def element_type(kernel: str) -> str | None:
    """Element type in the template arguments of a kernel's name, for lists of tensors; None if it does not say.

    >>> element_type("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>")
    'float32'
    """
    name = kernel[:_LONGEST_NAME]
    for pattern in _WITNESSES:
        types = pattern.search(name)
        if types is not None:
            return _TYPES[types.group(1)]
    return None


def product_type(kernel: str) -> str | None:
    """Element type that a product multiplies in, by the kernel's name; None if it does not say.

    >>> product_type("volta_sgemm_128x64_nn")
    'float32'
    """
    return element_type(kernel) or ("float32" if _SINGLE.search(kernel[:_LONGEST_NAME]) else None)


def class_of(family: str | None, kernel: str) -> str:
    """Class of work from the launching operator's family, else the kernel's name; communication, copies and fills keep
    theirs."""
    by_name = kernel_class(kernel)
    if by_name == "communication" or kernel.startswith(("Memcpy", "Memset")):
        return by_name
    return FAMILIES.get(family or "") or by_name
