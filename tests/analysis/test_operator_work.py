"""Which work is charged to which call, and that nothing counts twice or vanishes."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

from stepscope.analysis.operators.calls import distinct_rows
from stepscope.analysis.operators.charging import NO_STEP
from stepscope.analysis.operators.work import classes_of, device_work_of
from stepscope.query.scope import Scope

MM = {"dims": "[[8, 4], [4, 2]]", "types": '["float", "float"]'}
LINEAR = {"dims": "[[8, 4], [2, 4], []]", "types": '["float", "float", ""]'}
NO_MORE = {"strides": None, "values": None}


def host(number: int, name: str, parent: int | None = None, given: int | None = None, **more):
    return {"id": number, "name": name, "parent_id": parent, "input_id": given, "device_ns": 1, **more}


def kernel(operator: int | None, ns: int, name: str = "volta_sgemm_32x32", **more):
    return {"name": name, "dur_ns": ns, "operator_id": operator, **more}


def work_of(make_scope, hosts, kernels, *inputs, **tables):
    """The device work of some operators and kernels, with inputs numbered from 0."""
    given = [{"input_id": number, **texts} for number, texts in enumerate(inputs)]
    rows = {"operator_input": given, "host_event": hosts, "device_event": kernels, **tables}
    return device_work_of(make_scope(rows))


def charged(found) -> dict[str, tuple[int, float]]:
    """Device time and calls by what they are charged to."""
    result: dict[str, tuple[int, float]] = {}
    for variant, ns, weight in zip(found.rows["variant"], found.rows["device_ns"], found.rows["weight"], strict=True):
        name = found.variants[variant].name
        before = result.get(name, (0, 0.0))
        result[name] = (before[0] + int(ns), before[1] + float(weight))
    return result


def test_a_product_within_a_linear_layer_counts_once_for_the_inner_one(make_scope):
    hosts = [
        host(0, "aten::linear", None, 0),
        host(1, "a range", 0, None, kind="annotation"),
        host(2, "aten::mm", 1, 1),
    ]
    found = work_of(make_scope, hosts, [kernel(2, 10), kernel(2, 30)], LINEAR, MM)
    assert charged(found) == {"aten::mm": (40, 1.0)}


def test_a_composite_answers_where_nothing_below_it_can(make_scope):
    hosts = [host(0, "aten::linear", None, 0), host(1, "my::unknown", 0)]
    found = work_of(make_scope, hosts, [kernel(1, 10)], LINEAR)
    assert charged(found) == {"aten::linear": (10, 1.0)}


def test_work_without_operator_or_formula_keeps_its_time_under_its_own_name(make_scope):
    kernels = [kernel(0, 1), kernel(1, 2), kernel(None, 4), kernel(None, 8, graph_id=3)]
    kernels.append({"name": "a range", "kind": "annotation", "dur_ns": 999})
    found = work_of(make_scope, [host(0, "my::unknown"), host(1, "aten::mm")], kernels)
    assert charged(found) == {
        "my::unknown": (1, 1.0),
        "aten::mm": (2, 1.0),
        "(no operator)": (4, 1.0),
        "CUDA graph 3 (unattributed)": (8, 1.0),
    }
    assert {v.name: v.why for v in found.variants} == {
        "my::unknown": "no formula",
        "aten::mm": "inputs not recorded",
        "(no operator)": "no operator known",
        "CUDA graph 3 (unattributed)": "no operator known",
    }


def test_kernels_that_multiply_share_the_work_by_duration_and_helpers_have_none(make_scope):
    kernels = [
        kernel(0, 30, "volta_sgemm_32x32"),
        kernel(0, 10, "volta_sgemm_64x64"),
        kernel(0, 60, "void at::native::elementwise_kernel<4>"),
    ]
    found = work_of(make_scope, [host(0, "aten::mm", None, 0)], kernels, MM)
    weight = {found.kernels[k]: float(w) for k, w in zip(found.rows["kernel"], found.rows["weight"], strict=True)}
    assert weight == {
        "volta_sgemm_32x32": 0.75,
        "volta_sgemm_64x64": 0.25,
        "void at::native::elementwise_kernel<4>": 0.0,
    }
    assert found.rows["shared_ns"].sum() == 40
    assert {v.kernel for v in found.variants} == {"volta_sgemm_32x32"}


BACKWARD = {
    "dims": "[[2, 8, 6, 6], [2, 3, 8, 8], [8, 3, 3, 3], [], [], [], [], [], [], [], []]",
    "types": json.dumps(["float"] * 3 + ["ScalarList"] * 8),
}


def backward_of_a_convolution(make_scope, mask, *kernels):
    """FLOPs of each kernel, the call's FLOPs and the number of calls."""
    values = ["", "", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1", str(mask)]
    given = {**BACKWARD, "values": json.dumps(values)}
    launched = [kernel(0, ns, name) for name, ns in kernels]
    found = work_of(make_scope, [host(0, "aten::convolution_backward", None, 0)], launched, given)
    flops = dict.fromkeys((name for name, _ in kernels), 0)
    calls = 0.0
    for variant, name, weight in zip(found.rows["variant"], found.rows["kernel"], found.rows["weight"], strict=True):
        one = found.variants[variant]
        flops[found.kernels[name]] += round(weight * one.work.flops)
        calls += weight * one.first
    return list(flops.values()), sum(flops.values()), round(calls, 9)


GRADIENT = 2 * 2 * 8 * 6 * 6 * 3 * 3 * 3
BIAS = 2 * 8 * 6 * 6


@pytest.mark.parametrize(
    ("mask", "kernels", "shares"),
    [
        ([True, True, False], (("x_dgrad", 10), ("x_wgrad", 30)), (GRADIENT, GRADIENT)),
        ([True, True, False], (("x_sgemm", 30), ("x_wgrad", 10)), (GRADIENT, GRADIENT)),
        ([True, True, False], (("x_sgemm", 30), ("y_sgemm", 10)), (GRADIENT * 3 // 2, GRADIENT // 2)),
        ([True, True, False], (("x_dgrad", 9), ("x_wgrad", 9), ("cgemm", 9)), (GRADIENT, GRADIENT, 0)),
        ([True, True, True], (("x_dgrad", 10), ("x_wgrad", 30)), (GRADIENT, GRADIENT + BIAS)),
        ([True, True, True], (("x_dgrad", 10), ("x_wgrad", 30), ("cgemm", 9)), (GRADIENT, GRADIENT + BIAS, 0)),
        ([False, True, False], (("x_dgrad", 10), ("cgemm", 30)), (GRADIENT // 4, GRADIENT * 3 // 4)),
        ([True, True, False], (("x_wgrad", 10), ("copy_kernel", 30)), (2 * GRADIENT, 0)),
    ],
)  # fmt: skip
def test_gradients_go_to_the_kernels_named_after_them_and_the_rest_to_the_others(make_scope, mask, kernels, shares):
    given, whole, calls = backward_of_a_convolution(make_scope, mask, *kernels)
    assert given == list(shares)
    assert whole == GRADIENT * sum(mask[:2]) + BIAS * mask[2]
    assert calls == 1


def test_kernels_of_no_duration_share_evenly(make_scope):
    kernels = [kernel(0, 0), kernel(0, 0, "volta_sgemm_64x64")]
    found = work_of(make_scope, [host(0, "aten::mm", None, 0)], kernels, MM)
    assert found.rows["weight"].tolist() == [0.5, 0.5]


def test_a_forward_convolution_learns_its_extent_from_its_backward(make_scope):
    """Old recordings have no values: stride and padding are only seen in the gradient's shape."""
    types = json.dumps(["float", "float", *["GenericList"] * 3, "Int", "Bool", "Bool", "Bool"])
    more = json.dumps(["float"] * 3 + ["GenericList"] * 3 + ["Int", "Bool", "Bool", "GenericList"])
    forward = {"dims": "[[1,3,8,8],[4,3,3,3],[],[],[],[],[],[],[]]", "types": types, **NO_MORE}
    back = {"dims": "[[1,3,8,8],[1,4,4,4],[4,3,3,3],[],[],[],[],[],[],[]]", "types": more, **NO_MORE}
    hosts = [
        host(0, "aten::cudnn_convolution", None, 0),
        host(1, "aten::cudnn_convolution_backward", None, 1, forward_id=0),
    ]
    (variant,) = work_of(make_scope, hosts, [kernel(0, 10, "implicit_convolve_sgemm")], forward, back).variants
    assert variant.work is not None
    assert variant.work.flops == 2 * (4 * 4 * 4) * (3 * 3 * 3)


def test_the_type_of_lists_is_taken_from_the_kernel(make_scope):
    functor = "void multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpScalarFunctor<float>>"
    given = {"dims": "[[[4], [8]], []]", "types": '["TensorList", "Scalar"]', **NO_MORE}
    (variant,) = work_of(
        make_scope, [host(0, "aten::_foreach_mul_", None, 0)], [kernel(0, 10, functor)], given
    ).variants
    assert variant.work is not None
    assert variant.work.bytes == 2 * 12 * 4


def test_a_communication_kernel_is_a_call_of_its_own(make_scope):
    reduced = {"id": 9, "operation": "all_reduce", "dtype": "Float", "elements_in": 100, "elements_out": 100}
    kernels = [kernel(0, 7, "ncclDevKernel", id=9, kind="communication")]
    hosts, collectives = [host(0, "c10d::allreduce_")], [{**reduced, "group_size": 4}]
    (variant,) = work_of(make_scope, hosts, kernels, collective=collectives).variants
    assert (variant.name, variant.dims) == ("all_reduce", "[[100]]")
    assert variant.work is not None
    assert variant.work.link_bytes == 100 * 4 * 2 * 3 // 4


def test_a_device_without_a_name_is_like_the_others_where_all_are_alike(make_scope):
    named = {"device": 0, "name": "AMD Instinct MI300X", "sm_count": 304}
    work = {"device_event": [kernel(None, 1, device=2)]}
    (variant,) = device_work_of(make_scope({"device": [named], **work})).variants
    assert variant.device == ("AMD Instinct MI300X", 304)
    two = [named, {**named, "device": 1, "name": "AMD Instinct MI210"}]
    (variant,) = device_work_of(make_scope({"device": two, **work})).variants
    assert variant.device.name is None


def test_only_the_asked_steps_and_ranks_count(make_scope):
    rows = {
        "step": [{"step": 1, "start_ns": 0, "end_ns": 9}, {"step": 2, "start_ns": 9, "end_ns": 99}],
        "host_event": [host(0, "a", step=1), host(1, "b", step=2), host(0, "c", rank=1)],
        "device_event": [kernel(0, 1, step=1), kernel(1, 2, step=2), kernel(0, 4, rank=1)],
    }
    assert charged(device_work_of(make_scope(rows, steps=[2]))) == {"b": (2, 1.0)}
    assert charged(device_work_of(make_scope(rows, ranks=[1]))) == {"c": (4, 1.0)}
    everything = device_work_of(make_scope(rows))
    assert everything.rows["step"].tolist().count(NO_STEP) == 1


def test_a_rank_without_the_asked_step_has_no_part_in_it(make_scope):
    steps = [{"rank": rank, "step": rank + 1, "start_ns": 0, "end_ns": 9} for rank in (0, 1)]
    rows = {"step": steps, "device_event": [kernel(None, 1, step=1), kernel(None, 2, step=2, rank=1)]}
    assert charged(device_work_of(make_scope(rows, steps=[2]))) == {"(no operator)": (2, 1.0)}


def test_nothing_recorded_is_nothing(make_scope):
    found = device_work_of(make_scope({}))
    assert found.device_ns == 0
    assert found.parts(np.zeros(0, np.int64)) == []
    assert len(classes_of(found)) == 0


def test_a_scope_remembers_what_was_joined(make_scope):
    scope = make_scope({"device_event": [kernel(None, 4)]})
    assert device_work_of(scope) is device_work_of(scope)


@examples(60)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from([-(1 << 62), -1, 0, 1, 1 << 40]), st.integers(-3, 3), st.integers(0, 2)), max_size=30
    )
)
def test_distinct_rows_are_those_of_a_set(rows):
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)] or [np.zeros(0, np.int64)]
    distinct, place = distinct_rows(*columns)
    assert distinct == sorted(set(rows))
    assert [distinct[p] for p in place] == rows


NAMES = ("aten::linear", "aten::mm", "my::unknown", "aten::relu")
KERNELS = {"volta_sgemm": "computation", "elementwise_kernel": "computation", "Memset (Device)": "fill"}


@examples(40)
@given(
    forest=st.lists(st.tuples(st.integers(-1, 8), st.sampled_from(NAMES)), min_size=1, max_size=8),
    kernels=st.lists(st.tuples(st.integers(-1, 7), st.integers(0, 50), st.sampled_from(sorted(KERNELS))), max_size=12),
)
def test_device_time_and_calls_add_up_whatever_launched_what(forest, kernels):
    """All device time is kept, and each call that launched something counts exactly once."""
    rows = {
        "operator_input": [{"input_id": 0, **LINEAR}, {"input_id": 1, **MM}],
        "host_event": [
            host(n, name, parent if 0 <= parent < n else None, int(name != "aten::linear"))
            for n, (parent, name) in enumerate(forest)
        ],
        "device_event": [
            kernel(operator if 0 <= operator < len(forest) else None, ns, name, kind=KERNELS[name])
            for operator, ns, name in kernels
        ],
    }
    with literal_store(rows) as store, Scope(store) as scope:
        found = device_work_of(scope)
        calls = sum(weight for _, weight in charged(found).values())
    assert found.device_ns == sum(ns for _, ns, _ in kernels)
    assert int(found.rows["events"].sum()) == len(kernels)
    assert calls == pytest.approx(round(calls))
    assert (len(kernels) > 0) <= calls <= len(kernels)
