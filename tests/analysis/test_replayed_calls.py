"""Which recorded calls a script makes again, and with which inputs."""

import pytest

from stepscope.analysis.operators.replayed_calls import ReplayedCall, heaviest_calls, rebuilt
from stepscope.base.errors import UsageError

INPUTS = [
    {"input_id": 0, "dims": "[[8, 4]]", "types": '["float"]'},
    {"input_id": 1, "dims": "[[8, 4]]", "types": '["c10::BFloat16"]'},
]


def host(number, name, parent=None, given=0, **more):
    return {"id": number, "name": name, "parent_id": parent, "input_id": given, "dur_ns": 10, **more}


def chosen(make_scope, events, kind="operator", pattern="*", device_events=(), top=10):
    rows = {"operator_input": INPUTS, "host_event": events, "device_event": list(device_events)}
    return heaviest_calls(make_scope(rows), kind, pattern, top)


def names(*asked, **more):
    return [call.name for call in chosen(*asked, **more)]


def test_the_outermost_public_operator_is_replayed(make_scope):
    events = [
        host(0, "aten::scaled_dot_product_attention"),
        host(1, "a range", 0, None, kind="annotation"),
        host(2, "aten::_scaled_dot_product_flash_attention", 1),
        host(3, "aten::_flash_attention_forward", 2),
    ]
    (call,) = chosen(make_scope, events, pattern="_flash_attention_forward")
    assert (call.name, call.within) == ("aten::scaled_dot_product_attention", {"aten::_flash_attention_forward"})


@pytest.mark.parametrize(
    "around",
    ["AddmmBackward0", "autograd::engine::evaluate_function: MmBackward0", "my::extension", "aten::einsum"],
)  # fmt: skip
def test_what_cannot_be_made_again_is_not_replayed_in_place_of_what_can(make_scope, around):
    events = [host(0, around), host(1, "aten::mm", 0)]
    assert names(make_scope, events, pattern="mm") == ["aten::mm"]


def test_an_operator_without_inputs_is_passed_over(make_scope):
    events = [host(0, "aten::matmul", None, None), host(1, "aten::mm", 0)]
    assert names(make_scope, events, pattern="aten::mm") == ["aten::mm"]


def test_an_internal_operator_that_a_program_called_is_replayed_itself(make_scope):
    events = [host(0, "aten::_foreach_add_"), host(1, "aten::_to_copy"), host(2, "aten::copy_", 1)]
    assert names(make_scope, events, pattern="_foreach_add_") == ["aten::_foreach_add_"]
    assert names(make_scope, events, pattern="copy_") == ["aten::copy_"]


def test_of_autocasts_two_calls_the_one_that_computed_is_replayed(make_scope):
    events = [
        host(0, "aten::linear", None, 0),
        host(1, "aten::to", 0, 0),
        host(2, "aten::linear", 0, 1),
        host(3, "aten::addmm", 2, 1),
    ]
    for pattern in ("addmm", "linear"):
        (call,) = chosen(make_scope, events, pattern=pattern)
        assert (call.name, call.texts[1]) == ("aten::linear", '["c10::BFloat16"]')
    assert names(make_scope, events, pattern="to") == ["aten::to"]


def test_variants_are_ordered_by_device_time_and_a_call_is_counted_once(make_scope):
    events = [
        host(0, "aten::mm", None, 0, device_ns=5, dur_ns=900),
        host(1, "aten::mm", None, 1, device_ns=4),
        host(2, "aten::mm", None, 1, device_ns=4),
        host(3, "aten::mm", None, 0, device_ns=None),
    ]
    kernels = [{"name": f"k{of}", "operator_id": of, "dur_ns": 4} for of in (0, 1, 2)]
    first, second = chosen(make_scope, events, device_events=kernels)
    assert (first.texts[1], first.calls, first.device_ns, first.host_ns) == (
        '["c10::BFloat16"]', 2, 8, 20,
    )  # fmt: skip
    assert (second.calls, second.device_ns, dict(second.kernels)) == (2, 5, {"k0": 1})
    assert len(chosen(make_scope, events, top=1)) == 1


def test_without_a_device_variants_are_ordered_by_host_time(make_scope):
    events = [host(0, "aten::mm"), host(1, "aten::add", dur_ns=11)]
    assert names(make_scope, events) == ["aten::add", "aten::mm"]


def test_a_kernel_leads_to_the_operator_that_launched_it(make_scope):
    events = [
        host(0, "aten::linear", device_ns=4),
        host(1, "aten::mm", 0, device_ns=4),
        host(2, "aten::add", device_ns=4),
    ]
    kernels = [
        {"name": "void gemm::run<4>(int)", "operator_id": 1, "dur_ns": 4},
        {"name": "void other(int)", "operator_id": 2, "dur_ns": 4},
    ]
    for pattern in ("void gemm::run<4>(int)", "*gemm*", "run"):  # the last is its short name
        (call,) = chosen(make_scope, events, "kernel", pattern, kernels)
        assert (call.name, call.within) == ("aten::linear", {"aten::mm"})
        assert list(call.kernels) == ["void gemm::run<4>(int)"]


@pytest.mark.parametrize(
    ("kind", "pattern", "words"),
    [
        ("operator", "mn", "the recording has no operator aten::mn"),
        ("kernel", "gemm", "the recording has no kernel gemm"),
        ("operator", "MmBackward0", "the recording has no operator aten::MmBackward0"),
        ("operator", "/Backward/", "no operator of torch with recorded inputs encloses"),
    ],
)
def test_what_is_not_there_is_named(make_scope, kind, pattern, words):
    with pytest.raises(UsageError, match=words) as refused:
        chosen(make_scope, [host(0, "MmBackward0"), host(1, "aten::mm", 0)], kind, pattern)
    assert "MmBackward0" not in refused.value.hint


def given(dims, types, strides=None, values=None, name="aten::op", kernels=()):
    call = ReplayedCall(name, (dims, types, strides, values))
    call.kernels.update(kernels)
    return rebuilt(call)


def test_inputs_become_literals():
    found = given(
        "[[2, 3], [[4], [5]], [], [], [], [], []]",
        '["c10::Half", "TensorList", "Scalar", "ScalarList", "", "Scalar", "Bool"]',
        "[[1, 2], [[1], [2]], [], [], [], [], []]",
        '["", "", "0.125", "[1, 2]", "", "-inf", ""]',
    )
    assert found.inputs == [
        {"shape": [2, 3], "dtype": "float16", "strides": [1, 2]},
        {
            "tensors": [
                {"shape": [4], "dtype": "float16", "strides": [1]},
                {"shape": [5], "dtype": "float16", "strides": [2]},
            ]
        },
        {"value": 0.125},
        {"value": [1, 2]},
        None,
        {"float": "-inf"},
        {"unknown": "Bool"},
    ]
    assert found.assumed == ("tensors of lists, whose type is not recorded, are float16",)


def test_what_is_assumed_is_said():
    kernel = "void multi_tensor_apply_kernel<TensorListMetadata<1>, AdamFunctor<float>>"
    found = given("[[2], [3], [[4]]]", '["long int", "bool", "TensorList"]', kernels=[kernel])
    assert found.inputs[2]["tensors"][0]["dtype"] == "float32"
    assert found.assumed == (
        "tensors of lists, whose type is not recorded, are float32 as a kernel's name has it",
        "tensors, whose strides are not recorded, are contiguous",
        "integers that are not known to be indices are 0",
        "masks are True everywhere",
    )


@pytest.mark.parametrize(
    ("dims", "types", "values", "why"),
    [
        ("[[2]]", None, None, "the types of its inputs are not recorded"),
        ("[[2", '["float"]', None, "its recorded inputs cannot be read"),
        ("[[2]]", '["c10::qint8"]', None, "input 0: a quantized tensor, whose scale is not recorded"),
        ("[[2]]", '["somebody\'s"]', None, "input 0: a tensor whose type is not known"),
        ("[[]]", '["TensorList"]', None, "input 0: a list of tensors that is not recorded"),
        ("[[]]", '["GenericList"]', None, "input 0: a list that is not recorded"),
        ("[[]]", '["ScalarList"]', '["[1, inf]"]', "input 0: a list that is not recorded in full"),
        ("[[]]", '["Scalar"]', '["); import os"]', "input 0: a text that is not recorded in full"),
    ],
)  # fmt: skip
def test_why_a_call_cannot_be_made_again(dims, types, values, why):
    found = given(dims, types, None, values)
    assert isinstance(found, str)
    assert found.startswith(why)


def test_strides_that_torch_does_not_have_are_refused():
    assert "strides" in given("[[2]]", '["float"]', "[[-1]]")
