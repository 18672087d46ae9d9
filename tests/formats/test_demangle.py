import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.demangle import demangled


@pytest.mark.parametrize(
    ("mangled", "readable"),
    [
        ("_Z3addPfPKfi", "add(float*, float const*, int)"), ("_Z1fv", "f()"), ("_ZN3foo3barEv", "foo::bar()"),
        ("_ZN12_GLOBAL__N_14warpIfEEvPT_", "void (anonymous namespace)::warp<float>(float*)"),
        ("_Z4scanILi512ELb1EfEvPT1_", "void scan<512, true, float>(float*)"),
        ("_Z4pairIiEvSt4pairIT_S1_E", "void pair<int>(std::pair<int, int>)"),
        ("_Z3runIZ4mainEUlvE_EvT_", "void run<main::{lambda()#1}>(main::{lambda()#1})"),
        ("_Z3runIZ4mainEUliE0_EvT_", "void run<main::{lambda(int)#2}>(main::{lambda(int)#2})"),
        ("_Z5applyPFviE", "apply(void (*)(int))"), ("_Z5applyRA4_f", "apply(float (&) [4])"),
        ("_Z1kIJifEEvDpT_", "void k<int, float>(int, float)"), ("_Z1kILin2EEvv", "void k<-2>()"),
        ("_Z1kILm7EEvv", "void k<7ul>()"), ("_ZNK2OpclEi", "Op::operator()(int) const"),
    ],
)  # fmt: skip
def test_names_of_kernels_read_as_their_programmers_wrote_them(mangled, readable):
    assert demangled(mangled) == readable


@pytest.mark.parametrize(
    "name",
    [
        "volta_sgemm_128x64_nn", "triton_poi_fused_add_0", "_Z", "_ZN", "_Z999999999x", "_Z3ab", "_ZS9_v",
        "_Z1fT_ extra", "void already::readable<int>(int)", "_Z1f\N{SNOWMAN}", "",
    ],
)  # fmt: skip
def test_what_cannot_be_read_stays_as_it_is(name):
    assert demangled(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "_Z1f" + "P" * 16_000 + "i", "_Z1f" + "I" * 16_000, "_Z" + "N" * 16_000, "_Z1f" + "F" * 8_000,
        "_Z1fi" + "".join(f"PF{ref}{ref}E" for ref in ("S_S0_S1_" * 400,)), "_Z1f" + "1aIS_" * 3000,
        "_Z1fIiE" + "St4pairIT_T_E" * 900,
    ],
)  # fmt: skip
def test_names_made_to_grow_or_nest_without_end_are_given_up_soon(name):
    began = time.process_time()
    assert len(demangled(name)) <= 65_536
    assert time.process_time() - began < 2


@examples(60)
@given(st.text(alphabet="ZNIELSTKPRvifb_0123456789axUlDpJX", max_size=60))
def test_no_text_is_an_error(text):
    assert demangled("_Z" + text)
