"""Which integer inputs are indices, and what they index."""

import pytest

from stepscope.costs import index_bound
from stepscope.costs.call import parse_call


@pytest.mark.parametrize(
    ("name", "dims", "types", "values", "bounds"),
    [
        ("embedding", "[[100, 8], [4]]", '["float", "long int"]', None, [None, 100]),
        ("cross_entropy_loss", "[[4, 10], [4]]", '["float", "long int"]', None, [None, 10]),
        ("nll_loss", "[[10], []]", '["float", "long int"]', None, [None, 10]),
        ("gather", "[[5, 7], [], [5, 2]]", '["float", "Scalar", "long int"]', '["", "-1", ""]', [None, None, 7]),
        # The dimension is not recorded, or there is none such: not known, and no error.
        ("gather", "[[5, 7], [], [5, 2]]", '["float", "Scalar", "long int"]', None, [None] * 3),
        ("index_select", "[[5, 7], [], [2]]", '["float", "Scalar", "long int"]', '["", "2", ""]', [None] * 3),
        ("embedding_dense_backward", "[[4, 8], [4], [], [], []]",
         '["float", "long int", "Scalar", "Scalar", "Scalar"]',
         '["", "", "50", "-1", "False"]', [None, 50, None, None, None]),
        ("nll_loss_backward", "[[], [4, 9], [4]]", '["float", "float", "long int"]', None, [None, None, 9]),
        ("mul", "[[4], [4]]", '["long int", "long int"]', None, [None, None]),
    ],
)  # fmt: skip
def test_indices_lie_below_the_size_of_what_they_index(name, dims, types, values, bounds):
    call = parse_call(f"aten::{name}", dims, types, None, values)
    assert [index_bound(call, position) for position in range(len(bounds))] == bounds
