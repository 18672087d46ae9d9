"""How ncu finds a kernel again that another recording names.

What tools agree on in a name is in `floor/kernel_spelling.py`. ncu's own `function` names are without template
arguments, and all of cutlass's kernels are one `Kernel2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepscope.floor.kernel_spelling import argument_names, function_of

_MOST_WORDS = 5
"""Of the template arguments: the longest, which tell most. Each is one more way for a regular expression to fail."""


def kernel_filter(names: Iterable[str]) -> str:
    """The regular expression that finds kernels of these names among demangled ones.

    >>> kernel_filter(["void f<4, at::Add<float> >(int)", "sgemm_nt"])
    '(^|[ :])(f<.*Add.*float|sgemm_nt(\\\\(|$))'
    """
    found = dict.fromkeys(map(_expression, names))
    return f"(^|[ :])({'|'.join(found)})"


def _expression(name: str) -> str:
    own, arguments = function_of(name)
    if not arguments:
        return re.escape(own) + r"(\(|$)"
    words = dict.fromkeys(argument_names(arguments))
    longest = sorted(words, key=len, reverse=True)[:_MOST_WORDS]
    return "".join([re.escape(own), "<", *(f".*{word}" for word in words if word in longest)])
