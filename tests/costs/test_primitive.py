"""Operations of oneDNN's primitives, by hand."""

import pytest

from stepscope.costs.primitive import primitive_flops


@pytest.mark.parametrize(
    ("primitive", "shape", "flops"),
    [
        ("matmul", "1x12800x128:1x128x64", 2 * 12800 * 128 * 64),
        ("matmul", "2x3:3x4:2x4", 48),
        ("matmul", "8x1x2x3:1x5x3x4", 8 * 5 * 48),
        ("matmul", "2x3:4x4", None),
        ("matmul", "2x3", None),
        ("convolution", "mb2_ic3oc4_ih5oh5kh3sh1dh0ph1_iw5ow5kw3sw1dw0pw1", 2 * 2 * 3 * 4 * 25 * 9),
        ("convolution", "g3mb2_ic3oc6_iw9ow7kw3sw1dw0pw0", 2 * 2 * 3 * 6 * 7 * 3 // 3),
        ("convolution", "mb1_ic2oc2_id4od2kd3_ih4oh2kh3_iw4ow2kw3", 2 * 2 * 2 * 8 * 27),
        ("deconvolution", "mb1_ic2oc3_ih4oh8kh2_iw4ow8kw2", 2 * 2 * 3 * 16 * 4),
        ("inner_product", "mb32ic512oc1000", 2 * 32 * 512 * 1000),
        ("inner_product", "mb1ic2ih3iw4oc5", 2 * 2 * 12 * 5),
        ("convolution", "2x3x4", None),
        ("reorder", "64x3x7x7", None),
        ("eltwise", None, None),
    ],
)
def test_operations(primitive, shape, flops):
    assert primitive_flops(primitive, shape) == flops
