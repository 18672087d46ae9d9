"""Tells from a kernel's name whether it uses tensor cores, and what keeps a product from them.

"Tensor cores" includes AMD's matrix cores and Intel's matrix engines. Names follow their libraries' conventions: cuBLAS
and cuDNN contain the instruction's shape (`s884` Volta, `s1688` Turing and Ampere's TF32, `16816` Ampere, `imma`), xmma
and CUTLASS the words `tensorop`, `gmma`, `tcgen05` as opposed to `simt` and `ffma`; `nvjet` and flash attention exist
in no other form, Tensile writes the matrix instruction (`MI16x16x1`), MIOpen `gtcx`. A name that no rule matches gives
None, not no.

Sources: the lists of PyProf (`prof/tc.py`) and the TensorBoard plugin (`tensor_core.py`), CUTLASS's and Tensile's
naming references, and recorded traces.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from stepscope.base.patterns import lazily
from stepscope.costs.call import parse_call
from stepscope.costs.dtype import size_of
from stepscope.costs.registry import model_of

_LONGEST_NAME = 8192


class TensorCoreUse(NamedTuple):
    """What a kernel's name says about tensor cores.

    Args:
        used: whether it computes on them; None if the name does not say.
        generation: of its instructions (`Volta`, `Turing`, `Ampere`, `Ada`, `Hopper`, `Blackwell`, `CDNA`, ... `CDNA4`,
            `RDNA3`); an older generation runs below a newer device's peak.
        dtype: element type of the products (`tf32` for float32 on tensor cores).
        rule: the naming convention that matched.
    """

    used: bool | None
    generation: str | None = None
    dtype: str | None = None
    rule: str | None = None


class _Rule(NamedTuple):
    rule: str
    pattern: re.Pattern[str]
    generation: str | None = None
    dtype: str | None = None


def _rules(*rows: tuple[str, ...]) -> tuple[_Rule, ...]:
    return tuple(_Rule(rule, lazily(pattern), *details) for rule, pattern, *details in rows)


_NOT = _rules(
    ("xmma without tensor cores", r"xmma_.{0,120}(_ffma|_simt)|f32f32_f32f32_f32"),
    (
        "helpers that multiply nothing",
        r"compute\w{0,60}Offsets|im2col|reduce_wgrad|nchwToNhwc|nhwcToNchw|epilogue::impl::globalKernel|"
        r"_finalize_matmul|scalePackedTensor|splitK[rR]educe|ReduceSplitK|(?:^|\W)reduce_1Block",
    ),
    ("CUTLASS without tensor cores", r"_simt_|OpClassSimt|MmaSimt"),
    (
        "cuBLAS in plain arithmetic",
        r"(^|_)(maxwell|pascal|volta|turing|ampere|sm\d\d)_(s|h|c|z|fp16_s)gemm_(?!.{0,120}(884|1688|16816))",
    ),
    ("cuBLAS in plain double precision", r"(^|_)(maxwell|pascal|volta|turing)_dgemm"),
    ("cuDNN in plain arithmetic", r"_[sh]cudnn_(?!.{0,120}(884|1688|16816))"),
    (
        "cuDNN's first convolutions",
        r"implicit_convolve_[sdh]gemm|explicit_convolve_[sdh]gemm|wgrad_alg\d_engine|dgrad_engine|"
        r"dgrad2d_|wgrad2d_|conv2d_grouped_direct|fft2d_|winograd_nonfused|winograd::generate",
    ),
    (
        "matrix times vector and other small products",
        r"gemv|gemmk1_kernel|gemmSN_|dot_kernel|magma_[sdcz]gemm|conv_depthwise|gemm_kernel2x2_core",
    ),
    ("memory-efficient attention before Volta", r"fmha_cutlass[FB]_f(16|32)\w{0,60}_sm50"),
    ("memory-efficient attention in float32", r"fmha_cutlass[FB]_f32\w{0,60}_sm7\d"),
    ("Tensile without matrix instructions", r"^Cijk_(?!.*_MI\d+x\d+x)"),
    ("Composable Kernel without matrix instructions", r"\bck::.{0,120}_dl_|DeviceGemmDl"),
)

_USED = _rules(
    ("nvjet", r"\bnvjet_(sm1\d\d_|\w*2cta)", "Blackwell"),
    ("nvjet", r"\bnvjet_sm90_", "Hopper"),
    ("nvjet", r"\bnvjet_"),
    ("tcgen05", r"tcgen05|umma|Umma|UMMA", "Blackwell"),
    ("gmma", r"wgmma|gmma|Gmma|GMMA|QGMMA|HGMMA", "Hopper"),
    ("TensorRT-LLM batched product", r"^(bmm|gemm)_[A-Z]\w*_sm10\d", "Blackwell"),
    ("TensorRT-LLM batched product", r"^(bmm|gemm)_[A-Z]\w*_sm90"),
    ("fused attention", r"fmhaSm10\d|fmha_\w{0,60}sm10\d", "Blackwell"),
    ("fused attention", r"FlashAttn(Fwd|Bwd)Sm90|fmhaSm90|fmha_v2\w{0,60}sm90|sdpa_sm90", "Hopper"),
    ("fused attention", r"FlashAttn(Fwd|Bwd)Sm80", "Ampere"),
    (
        "memory-efficient attention",
        r"fmha_cutlass[FB]_(bf16|f16|f32)\w{0,60}_sm80|PyTorchMemEffAttention|AttentionKernel<.{0,120}Sm80",
        "Ampere",
    ),
    ("memory-efficient attention", r"fmha_cutlass[FB]_f16\w{0,60}_sm75", "Turing"),
    ("memory-efficient attention", r"fmha_cutlass[FB]_f16\w{0,60}_sm70", "Volta"),
    ("flash attention 2", r"flash_(fwd|bwd)_\w{0,60}kernel|flash_fwd_splitkv|Flash_(fwd|bwd)_kernel_traits", "Ampere"),
    ("cuDNN attention", r"cudnn_generated\w{0,60}sdpa\w{0,60}|cudnn\w{0,60}flash_(fprop|bprop)"),
    ("CUTLASS 3", r"cutlass3x_sm1[02]\d|sm1[02]\d_\w{0,60}tensorop", "Blackwell"),
    ("CUTLASS 3", r"cutlass3x_sm90|MainloopSm90", "Hopper"),
    ("CUTLASS 3", r"MainloopSm1[02]0", "Blackwell"),
    ("double-precision tensor cores", r"d884(gemm|conv)|tensorop_d884", "Ampere", "float64"),
    ("CUTLASS for Turing", r"cutlass_75_\w{0,60}tensorop", "Turing"),
    ("CUTLASS for Volta", r"cutlass_70_\w{0,60}tensorop", "Volta"),
    ("CUTLASS for Ada", r"cutlass_89_\w{0,60}tensorop", "Ada"),
    ("TF32 on tensor cores", r"tensorop_\w{0,60}tf32|tf32f32_tf32f32|f32f32_tf32f32|tfloat32_t", "Ampere", "tf32"),
    ("CUTLASS for Ampere", r"cutlass_8[06]_\w{0,60}tensorop_s1688gemm_(?!f16|bf16)", "Ampere", "tf32"),
    ("CUTLASS for Ampere", r"cutlass_8[06]_\w{0,60}tensorop", "Ampere"),
    ("xmma for Hopper", r"sm90_xmma", "Hopper"),
    ("xmma for Ampere", r"sm8[06]_xmma", "Ampere"),
    ("xmma for Ada", r"sm89_xmma", "Ada"),
    ("xmma for Turing", r"sm75_xmma", "Turing"),
    ("xmma for Volta", r"sm7[02]_xmma", "Volta"),
    ("xmma for Blackwell", r"sm1[02]\d_xmma", "Blackwell"),
    ("xmma", r"xmma_(gemm|implicit_gemm|sparse_gemm|sparse_conv|warp_specialized|fprop|dgrad|wgrad)"),
    ("Volta's instruction in the name", r"[hs]884", "Volta", "float16"),
    ("Ampere's instruction in the name", r"(?<!\d)(16816|161616|16832|16864)(?!\d)", "Ampere"),
    ("Turing's instruction in the name", r"turing_\w{0,60}[hsci]1688|[hc]1688|i8816", "Turing"),
    ("instruction in the name", r"s1688"),
    ("instruction in the name", r"\b\w*([hiqd]mma|HMMA|IMMA|wmma|WMMA)"),
    ("CUTLASS", r"tensorop|MmaTensorOp|OpClassTensorOp"),
    (
        "cuDNN kernels on the makers' list",
        r"dgrad_1x1_stride_2x2|first_layer_wgrad_kernel|conv1x1|conv2d_c1_k1|direct_group",
    ),
    ("Tensile", r"^Cijk_(?=.*_MI\d+x\d+x).*(ISA950)", "CDNA4"),
    ("Tensile", r"^Cijk_(?=.*_MI\d+x\d+x).*(ISA94\d)", "CDNA3"),
    ("Tensile", r"^Cijk_(?=.*_MI\d+x\d+x).*(ISA90a)", "CDNA2"),
    ("Tensile", r"^Cijk_(?=.*_MI\d+x\d+x).*(ISA908)", "CDNA"),
    ("Tensile", r"^Cijk_.*_MI\d+x\d+x"),
    ("MIOpen implicit product", r"igemm_\w{1,60}_gtcx3", "CDNA3"),
    ("MIOpen implicit product", r"igemm_\w{1,60}_gtcx2", "CDNA2"),
    ("MIOpen implicit product", r"igemm_\w{1,60}_gtcx", "CDNA"),
    ("matrix instructions of AMD", r"xdlops|_xdl|Xdl|mfma|MFMA"),
    ("Composable Kernel", r"ck_tile.{0,120}(Fmha|Gemm)"),
)
"""Special rules before general ones, with generation and element type if the rule implies them."""

_TRITON_PRODUCT = lazily(
    r"triton_tem_fused_|_matmul_ogs|(^|_)matmul_kernel|fused_moe_kernel|_w8a8_block_\w{0,60}matmul|"
    r"_scaled_mm_kernel|(^|_)attn_(fwd|bwd)|bwd_kernel_d[kq]|kernel_unified_attention|flex_attention|"
    r"_fwd_kernel_(stage|destindex)?|grouped_gemm_kernel|_grouped_mm"
)
"""Products in Triton: on tensor cores for 16 bits and less, by a switch for float32."""

_DTYPES = tuple(
    (lazily(pattern), dtype)
    for pattern, dtype in (
        (r"nvjet_(sm\d+_)?o[a-z]*_|MxE2m1|[eE]2m1|mxfp4|nvfp4|xf4_|fp4", "float4_e2m1fn_x2"),
        (r"nvjet_(sm\d+_)?q[a-z]*_|QkvE4m3|MxE4m3|[eE]4m3|fp8", "float8_e4m3fn"),
        (r"nvjet_(sm\d+_)?r[a-z]*_|[eE]5m2", "float8_e5m2"),
        (r"nvjet_(sm\d+_)?t[a-z]*_", "bfloat16"),
        (r"nvjet_(sm\d+_)?h[a-z]*_", "float16"),
        (r"nvjet_(sm\d+_)?s[a-z]*_", "tf32"),
        (r"nvjet_(sm\d+_)?d[a-z]*_", "float64"),
        (r"tf32|tfloat32", "tf32"),
        (r"bf16|bfloat16|BFloat16|DF16b", "bfloat16"),
        (r"^Cijk_\w+?_B_?[BS]", "bfloat16"),
        (r"^Cijk_\w+?_H_?[HS]", "float16"),
        (r"^Cijk_\w+?_SB?_", "float32"),
        (r"^Cijk_\w+?_D[BD]?_", "float64"),
        (r"^Cijk_\w+?_F8|^Cijk_\w+?_8", "float8_e4m3fnuz"),
        (r"fp16|f16|half|_h884|_h1688|_h16816|hmma|HMMA|s884|s16816", "float16"),
        (r"i8816|i16832|imma|IMMA|int8|s8_", "int8"),
        (r"d884|f64|dgemm", "float64"),
    )
)


@lru_cache(maxsize=16_384)
def tensor_core_use(kernel: str, dtype: str | None = None) -> TensorCoreUse:
    """Tells from a kernel's name whether it uses tensor cores; `dtype` of the operator decides for Triton's products.

    >>> tensor_core_use("volta_fp16_s884cudnn_fp16_128x128_ldg8_relu_exp_small_nhwc_tn_v1").generation
    'Volta'
    >>> tensor_core_use("ampere_sgemm_128x64_nn").used
    False
    """
    name = kernel[:_LONGEST_NAME]
    for rule in _NOT:
        if rule.pattern.search(name):
            return TensorCoreUse(False, rule=rule.rule)
    for rule in _USED:
        if rule.pattern.search(name):
            products = rule.dtype or _dtype(name) or dtype
            return TensorCoreUse(True, rule.generation, products, rule.rule)
    if _TRITON_PRODUCT.search(name):
        products = _dtype(name) or dtype
        narrow = products is not None and (products == "tf32" or (size_of(products) or 8) <= 2)
        return TensorCoreUse(True if narrow else None, None, products, "product in Triton")
    return TensorCoreUse(None)


def _dtype(name: str) -> str | None:
    for pattern, dtype in _DTYPES:
        if pattern.search(name):
            return dtype
    return None


def arithmetic_type(dtype: str | None, use: TensorCoreUse) -> str | None:
    """Element type whose peak bounds a product: `tf32` for float32 in kernels that use tensor cores."""
    return "tf32" if dtype == "float32" and use.used else dtype


def alignment(kernel: str) -> int | None:
    """Alignment of a CUTLASS kernel's operands in elements, from its name; 1 loads element by element. None if it does
    not say.

    >>> alignment("cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1")
    1
    """
    match = re.search(r"_align(\d{1,3})(?!\d)", kernel[:_LONGEST_NAME])
    return int(match.group(1)) if match else None


_WITHOUT = lazily(
    r"(?i)\bGTX\b|\bTITAN Xp?\b|\b(?:Tesla|GRID) [KMP]\d|\bQuadro (?:[KMP]+|GP|T)\d|"
    r"\bT(?:400|500|550|600|1000|1200)\b|\bMX(?:[1-4]\d\d|550)\b"
)


def lacks_tensor_cores(device: str | None) -> bool:
    """Whether a CUDA device's name shows that it has no tensor cores: all before Volta, and Turing's TU116 and TU117.

    Source: NVIDIA Turing TU116 launch notes, and the specifications of these cards.

    >>> lacks_tensor_cores("NVIDIA GeForce GTX 1660 Ti"), lacks_tensor_cores("NVIDIA T4"), lacks_tensor_cores(None)
    (True, False, False)
    """
    return device is not None and _WITHOUT.search(device) is not None


class Misaligned(NamedTuple):
    """A size (`M`, `N`, `K`, `channels in`, `channels out`) that keeps a product from fast kernels, and its due
    multiple."""

    dimension: str
    size: int
    multiple: int


def misaligned(
    operator: str, dims: str | None, types: str | None = None, strides: str | None = None, values: str | None = None
) -> list[Misaligned]:
    """Lists the sizes of a product or convolution that are not multiples of 16 bytes; texts as in `registry.Row`.

    Kernels load 16 bytes at a time: 8 elements of 16 bits, 4 of float32, 16 of 8 bits. Source: NVIDIA, Deep Learning
    Performance Guide, Matrix Multiplication, section on tensor-core requirements.
    """
    model = model_of(operator)
    call = parse_call(operator, dims, types, strides, values)
    if model is None or model.aligned_sizes is None or call is None:
        return []
    sizes_of = model.aligned_sizes(call)
    if sizes_of is None or sizes_of[0].element_size is None:
        return []
    like, sizes = sizes_of
    multiple = max(1, 16 // (like.element_size or 1))
    return [Misaligned(name, extent, multiple) for name, extent in sizes.items() if extent % multiple]
