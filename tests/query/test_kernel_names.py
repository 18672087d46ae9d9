import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.query.kernel_names import cut_apart, short_names

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
GELU = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::"
    "TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}::"
    "operator()() const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int)"
)
CAT = (
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, {n}, 64, 64>"
    "(float*, at::native::(anonymous namespace)::CatArrInputTensorMetadata<float>, int)"
)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (ADD, "vectorized_elementwise_kernel<CUDAFunctor_add<float>>"),
        (GELU, "vectorized_elementwise_kernel<GeluCUDAKernelImpl>"),
        (
            "void at::native::elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl<at::"
            "native::fill_cuda(int) [lambda(int) (instance 1)]>(at::TensorIteratorBase &, const T1 &)"
            "::[lambda(int) (instance 1)]>(int, T3)",
            "elementwise_kernel<gpu_kernel_impl<fill_cuda>>",
        ),
        (CAT.replace("{n}", "1"), "CatArrayBatchedCopy<float>"),
        ("void cutlass::Kernel2<cutlass_80_gemm>(cutlass_80_gemm::Params)", "Kernel2<cutlass_80_gemm>"),
        ("_Z3addIfEvPT_i", "add<float>"), ("sm90_xmma_gemm_bf16_cublas", "sm90_xmma_gemm_bf16_cublas"),
        ("unbalanced<(", "unbalanced<("), ("", ""), ("${jndi}", "${jndi}"), ("%s%n{0}", "%s%n{0}"),
        ("add_kernel[grid]", "add_kernel[grid]"), ("Cijk_Ailk [clone .kd]", "Cijk_Ailk"),
        (
            "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT32x32x64_MI16x16x1_SN_LDSB0_ISA90a_IU1",
            "Cijk_Alik_Bljk_BBS_BH_MT32x32x64",
        ),
    ],
)  # fmt: skip
def test_what_is_noise_in_a_name_goes(name, short):
    assert short_names([name]) == [short]


def test_names_that_differ_only_in_noise_stay_apart():
    first, second = CAT.replace("{n}", "1"), CAT.replace("{n}", "2")
    assert short_names([first, second, first]) == [
        "CatArrayBatchedCopy<float, unsigned int, 1, 64, 64>",
        "CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>",
        "CatArrayBatchedCopy<float, unsigned int, 1, 64, 64>",
    ]


def test_a_crafted_name_takes_no_time():
    deep = "<" * 200_000
    assert short_names([deep, "(" * 200_000]) == [deep, "(" * 200_000]
    within = "a<" * 1_300 + ">" * 1_300  # each level was tidied once more with each that it is in
    assert short_names([within]) == [within]


@given(st.lists(st.text("ab:<>(), {}1", max_size=24), max_size=6))
def test_different_names_never_become_one(names):
    short = short_names(names)
    assert len(set(short)) == len(set(names))


@given(st.lists(st.text("ab", max_size=40), max_size=6), st.integers(12, 40))
def test_a_cut_name_fits(texts, width):
    assert all(len(text) <= width for text in cut_apart(texts, width))


def test_cut_names_show_where_they_differ():
    tiles = [f"cutlass_80_tensorop_bf16_s16816gemm_{tile}_align8" for tile in ("128x64", "64x256")]
    assert len(set(cut_apart(tiles, 24))) == 2
