import pytest

from stepscope.base.errors import UsageError
from stepscope.base.known_names import check_name, did_you_mean, nearest


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UsageError, match="no column 'totl_ns' of kernels") as caught:
        check_name("totl_ns", ["name", "total_ns"], "column", of="kernels")
    assert caught.value.hint == "did you mean total_ns? there is: name, total_ns"
    assert caught.value.slug == "unknown-column"
    assert caught.value.exit_code == 2
    assert check_name("name", ["name", "total_ns"], "column") == "name"


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("kernel", ["kernels", "gpu-kernels"]), ("KERNELS", ["kernels", "gpu-kernels"]), ("step", ["steps"]),
        ("s", []), ("", []), ("nothing like it", []),
    ],
)  # fmt: skip
def test_what_is_near_is_spelled_alike_or_contains_it(typed, near):
    assert nearest(typed, ["steps", "gpu-kernels", "kernels", "memory"]) == near


def test_a_hint_never_calls_near_what_is_not():
    many = [f"operator{number}" for number in range(9)]
    assert did_you_mean("zzz", many).startswith("there is: operator0, operator1")
    assert did_you_mean("zzz", many).endswith("operator4 and 4 more")
    assert did_you_mean("operatr3", many).startswith("did you mean operator3 or ")
    assert did_you_mean("zzz", []) == ""
