"""A pattern that is compiled on first use answers as a compiled one."""

import re
from unittest import mock

from stepscope.base.patterns import lazily


def test_a_pattern_is_compiled_when_it_is_first_used():
    with mock.patch.object(re, "compile", wraps=re.compile) as compiled:
        pattern = lazily("gemm_(S+)", re.IGNORECASE)
        assert not compiled.called
        found = pattern.search("gemm_ss")
        assert found is not None
        assert found[1] == "ss"
        assert pattern.search("xyz") is None
        assert compiled.call_count == 1
    assert lazily("a(b)").sub(r"\1", "abab") == "bb"
