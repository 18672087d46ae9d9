"""Numbers and units as tools spell them in several languages."""

import pytest

from stepscope.formats.counters.units import base_unit, decimal_mark, number_of


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("61.84", "."), ("61,84", ","), ("4,963,609,951.19", "."), ("4.963.609.951,19", ","),
        ("1,024", None), ("1.024", None), ("1.024.000", ","), ("1,024,000", "."), ("0,123", ","),
        ("12345.678", "."), ("7", None), ("", None), ("CachePreferNone", None), ("1.2.3,4.5", None),
        ("1\u202f024,5", ","), ("1'024.5", "."), ("-0.5", "."), ("1.5e-07", "."),
    ],
)  # fmt: skip
def test_which_mark_stands_before_the_decimals(text, mark):
    assert decimal_mark(text) == mark


@pytest.mark.parametrize(
    ("text", "mark", "value"),
    [
        ("4,963,609,951.19", ".", 4963609951.19), ("4.963.609.951,19", ",", 4963609951.19),
        ("1,024", ".", 1024), ("1,024", ",", 1.024), ("1\u00a0024,5", ",", 1024.5), ("-3.5", ".", -3.5),
        ("12 (4; 8)", ".", 12), ("61,84", ".", None), ("1,2,3", ",", None), ("(1, 1, 1)", ".", None),
        ("", ".", None), ("no data", ".", None), ("1.5e-07", ".", 1.5e-07), (".5", ".", 0.5),
    ],
)  # fmt: skip
def test_a_number_is_read_by_the_mark_of_its_file_or_not_at_all(text, mark, value):
    assert number_of(text, mark) == value


@pytest.mark.parametrize(
    ("unit", "base", "factor"),
    [
        ("usecond", "ns", 1e3), ("ms", "ns", 1e6), ("second", "ns", 1e9), ("Gbyte/second", "byte/s", 1e9),
        ("Mbyte/s", "byte/s", 1e6), ("GiB/s", "byte/s", 2**30), ("Kbyte/block", "byte/block", 1e3),
        ("cycle/nsecond", "hz", 1e9), ("Ghz", "hz", 1e9), ("cycle/second", "hz", 1), ("inst", "inst", 1),
        ("byte/cycle", "byte/cycle", 1), ("%", "%", 1), ("", None, 1), ("register/thread", "register/thread", 1),
    ],
)  # fmt: skip
def test_units_lose_their_prefix(unit, base, factor):
    assert base_unit(unit) == (base, factor)
