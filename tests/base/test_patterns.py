"""What is not compiled does not match."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.base.patterns import _Uncompiled, lazily, words_of

_MODULES = ("costs.kernel_name", "costs.tensor_cores", "formats.communication", "formats.vocabulary")


def _uncompiled(held: object) -> list[_Uncompiled]:
    if isinstance(held, _Uncompiled):
        return [held]
    return [one for part in held for one in _uncompiled(part)] if isinstance(held, tuple) else []


def _given() -> list[tuple[str, int]]:
    """The patterns of our modules."""
    modules = [import_module(f"stepscope.{name}") for name in _MODULES]
    return [one._given for module in modules for held in vars(module).values() for one in _uncompiled(held)]


@pytest.mark.parametrize(
    "text", ["ab|cd(e|f)", "abc?d", "ab[|)]cd|e", r"a\|bc|de", "(?<!ab)cd", "ab{0}c", "^ab|cd$", "a.b|"]
)
@given(st.text("abcdef|)]", max_size=6))
def test_words_do_not_hide_a_match(text: str, within: str) -> None:
    """A pattern finds what it finds compiled."""
    for name in ("search", "match", "fullmatch"):
        found, expected = getattr(lazily(text), name)(within), getattr(re.compile(text), name)(within)
        assert (found and found.span()) == (expected and expected.span())


@examples(200)
@given(st.data())
def test_what_our_patterns_match_has_one_of_their_words(data: st.DataObject) -> None:
    """Texts that are made to match are found."""
    text, flags = data.draw(st.sampled_from(_given()))
    matching = data.draw(st.from_regex(re.compile(text, flags)))
    assert lazily(text, flags).search(matching)


def test_most_patterns_of_kernels_have_words() -> None:
    """Else each would be compiled for the first name."""
    assert sum(bool(words_of(*one)) for one in _given()) > len(_given()) / 2


def test_a_pattern_is_compiled_when_a_text_has_a_word() -> None:
    """And answers as compiled from then on."""
    pattern = lazily("abc+d")
    assert isinstance(pattern, _Uncompiled)
    assert pattern.search("xyz") is None
    assert "search" not in vars(pattern)
    found = lazily("gemm_(s+)").search("gemm_ss")
    assert found is not None
    assert found[1] == "ss"
    assert lazily("a(b)").sub(r"\1", "abab") == "bb"
