"""The table of element-wise operators against torch's own list of them."""

import pytest

from stepscope.costs.dtype import SIZES, promote, recorded_dtype, scalar_type
from stepscope.costs.families.pointwise import POINTWISE, entry
from stepscope.costs.registry import BY_NAME

_POLYNOMIALS = (
    *(f"chebyshev_polynomial_{kind}" for kind in "tuvw"), *(f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
)  # fmt: skip
# Of rrelu another operator inside does the work.
WITHOUT_MODEL = {"rrelu", "mvlgamma", "mvlgamma_", *(f"special_{name}" for name in _POLYNOMIALS)}


@pytest.mark.torch
def test_every_operator_that_torch_calls_pointwise_has_a_model() -> None:
    torch = pytest.importorskip("torch")
    pointwise = set()
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
            overload = getattr(packet, schema.overload_name or "default", None)
            if overload is not None and torch.Tag.pointwise in overload.tags:
                pointwise.add(schema.name)
    assert len(pointwise) > 200
    missing = {name for name in pointwise if name not in BY_NAME}
    assert {name.removeprefix("aten::") for name in missing} <= WITHOUT_MODEL


@pytest.mark.torch
def test_results_have_the_type_that_torch_gives_them() -> None:
    torch = pytest.importorskip("torch")
    names = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
             "float64", "complex64", "complex128")  # fmt: skip
    for left in names:
        for right in names:
            a, b = (torch.ones(1, dtype=getattr(torch, name)) for name in (left, right))
            assert f"torch.{promote([left, right])}" == str(torch.result_type(a, b)), (left, right)
            zero_dim = torch.result_type(a, b.reshape(()))
            ours = promote([left], [right])
            if zero_dim.is_complex and not a.is_complex():
                continue  # a complex number takes the width of the tensor it meets
            assert f"torch.{ours}" == str(zero_dim), (left, right)


@pytest.mark.torch
def test_scalar_types_have_the_numbers_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for number in range(64):
        name = scalar_type(number)
        if name is not None and hasattr(torch, name):
            dtype = getattr(torch, name)
            assert SIZES[name] == dtype.itemsize, name
    empty = torch.empty(0, dtype=torch.bfloat16)
    assert torch.ops.aten.empty.memory_format([0], dtype=15).dtype == empty.dtype
    for number, name in ((5, "float16"), (6, "float32"), (24, "float8_e4m3fn"), (44, "float8_e8m0fnu")):
        assert torch.ops.aten.empty.memory_format([0], dtype=number).dtype == getattr(torch, name)


def test_a_python_number_is_not_taken_for_a_tensor() -> None:
    assert recorded_dtype("float") == "float32"
    assert recorded_dtype("Float") is None
    assert recorded_dtype("Scalar") is None


def test_in_place_forms_share_the_row_of_the_plain_one() -> None:
    assert entry("mul_") == (POINTWISE["mul"], True)
    assert entry("__ior__") == (POINTWISE["__ior__"], True)
    assert entry("nothing_") is None
