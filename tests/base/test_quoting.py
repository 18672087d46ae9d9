import unicodedata

import pytest

from stepscope.base.errors import StepScopeError
from stepscope.base.quoting import one_line, printable, printable_lines

STEERING = [
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067",
    *"\u2068\u2069\u00ad\ufeff\ufff9\U000e0041\udc9b\ue000\u3164\u2800\u034f\uffa0\u115f",
]


@pytest.mark.parametrize("letter", STEERING, ids=lambda letter: f"{ord(letter):04x}")
def test_what_steers_a_terminal_or_cannot_be_seen_is_replaced(letter: str) -> None:
    for shown in (printable(f"a{letter}b"), one_line(f"a{letter}b")):
        assert letter not in shown
        assert shown in ("a\N{REPLACEMENT CHARACTER}b", "a b")


@pytest.mark.parametrize("text", ["", "plain", "größer", "测试", "a😀b", "e\u0301", "(a,  b)", "µs – …"])
def test_what_can_be_seen_is_left_alone(text: str) -> None:
    assert printable(text) == text


def test_every_kind_of_space_is_a_space() -> None:
    spaces = [chr(n) for n in range(0x10000) if unicodedata.category(chr(n)) == "Zs"]
    assert printable("".join(spaces)) == " " * len(spaces)


def test_runs_of_spaces_and_lines() -> None:
    assert one_line("a\x1b[31mred\r\n\tb\x07") == "a�[31mred b�"
    assert printable_lines("a\x07\n  b\n") == "a�\n  b\n"


def test_an_error_that_nobody_catches_is_safe_too() -> None:
    error = StepScopeError("a\x1b[2J\nb  c: \u202egone", hint="try 'b  c'\r", slug="s")
    assert str(error) == error.message == "a�[2J b  c: �gone"
    assert error.hint == "try 'b  c'"
