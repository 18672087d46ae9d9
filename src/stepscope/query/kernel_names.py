"""Shortens kernel names to fit a table, and keeps them distinct.

A C++ kernel's name is mostly template arguments and parameters: `void at::native::vectorized_elementwise_
kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>(int, ...)`. The kernel and the functor
distinguish it: `vectorized_elementwise_kernel<CUDAFunctor_add<float>>`. Data keep the full name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from stepscope.formats.demangle import demangled

_NAMESPACES = re.compile(r"\b(?:\w+::)+(?=\w)")
_LAMBDAS = re.compile(r"(?:(?:::| ) ?(?:lambda|operator|const)(?![\w<]))+")
"""A lambda is best described by the function that contains it."""
_COMPILED = re.compile(r"::|[<(]|void |[{\[](?:lambda|clone)")
"""What a compiler writes into names; without any of it, brackets are part of a name."""
_COLONS = re.compile(r"(?:::){2,}")
_NOISE = re.compile(
    r"-?\d+[uUlL]*|true|false|unsigned int|(?:array|Array|OffsetCalculator|TrivialOffsetCalculator"
    r"|LoadWith\w*|StoreWith\w*)\b.*"
)
"""Template arguments that say how a kernel was compiled, not what it does."""
_TENSILE = re.compile(r"(Cijk(?:_[A-Z][a-z]{1,9}){1,4}(?:_[A-Z]{1,9}){0,4})_(?:\w*?_)?(MT\d+(?:x\d+)+)_")
"""The name of a Tensile kernel (rocBLAS, hipBLASLt): problem, types and tile; the rest says how it was tuned."""
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_MIRRORED = str.maketrans("()", ")(")
_LONGEST = 1 << 12
"""Longer names stay unchanged: they come from files."""
_MAX_TIDIED = 1 << 16
"""Characters of one name that are tidied: nested arguments are tidied again with each one around them."""
_MAX_CACHED = 1 << 13


def short_names(names: Sequence[str]) -> list[str]:
    """Each kernel's name without its noise; different names stay different.

    >>> short_names(["void at::native::add_kernel<4, at::Half>(int, char*)", "ncclKernel"])
    ['add_kernel<Half>', 'ncclKernel']
    """
    short = {name: name for name in names}
    open_names = set(names)
    for shorten in _LEVELS:
        tried = {name: shorten(name) for name in open_names}
        taken = Counter(tried.values())
        taken.update(short[name] for name in short if name not in open_names)
        for name, text in tried.items():
            if taken[text] == 1:
                short[name] = text
                open_names.discard(name)
    return [short[name] for name in names]


def cut_apart(texts: Sequence[str], width: int) -> list[str]:
    """Cuts each text to the width; different texts stay different if the width allows it.

    A text loses its middle. Texts that would look alike show the place where they begin to differ.

    >>> cut_apart(["gemm_bf16_128x128_32x3_tn_align8", "gemm_bf16_128x128_64x3_tn_align8"], 16)
    ['gemm_…32x3_tn_a…', 'gemm_…64x3_tn_a…']
    """
    cut = {text: _without_middle(text, width) for text in texts}
    same: dict[str, list[str]] = {}
    for text, short in cut.items():
        same.setdefault(short, []).append(text)
    for group in same.values():
        if len(group) > 1:
            start = _common_start(group)
            for text in group:
                cut[text] = _from(text, start, width)
    return [cut[text] for text in texts]


@lru_cache(_MAX_CACHED)  # the same names are in most answers of a report
def _simplified(name: str) -> str:
    """The name without parameters, namespaces, and template arguments that do not distinguish it."""
    if len(name) <= _LONGEST and name.replace("_", "").isalnum() and (tensile := _TENSILE.match(name)):
        return "_".join(tensile.groups())
    if not _COMPILED.search(name) or (inside := _inside_brackets(name)) is None:
        return name
    return _tidy(inside)


def _inside_brackets(name: str) -> str | None:
    """The name with its template arguments sifted and all in parentheses left out; None where brackets
    do not match, or where it is longer, or deeper, than any compiler's."""
    if len(name) > _LONGEST:
        return None
    name = " ".join(name.split())
    levels: list[list[str]] = [[""]]
    position, end, tidied = 0, len(name), 0
    while position < end:
        sign = name[position]
        if sign in _CLOSING:
            inside = _matching(name, position)
            if inside is None:
                return None
            if sign != "(":  # {lambda(int)#1}, and Nsight's [lambda(int) (instance 1)]
                levels[-1][-1] += "lambda" if name.startswith("lambda", position + 1) else ""
            position = inside
        elif sign == "<":
            levels.append([""])
        elif sign == ">" and len(levels) > 1:
            tidied += sum(map(len, levels[-1]))
            if tidied > _MAX_TIDIED:
                return None
            arguments = [text for text in map(_tidy, levels.pop()) if text and not _NOISE.fullmatch(text)]
            levels[-1][-1] += f"<{', '.join(arguments)}>" if arguments else ""
        elif sign == "," and len(levels) > 1:
            levels[-1].append("")
        else:
            levels[-1][-1] += sign
        position += 1
    return levels[0][0] if len(levels) == 1 else None


def _matching(name: str, start: int) -> int | None:
    """Where the bracket that opens at `start` closes."""
    opening, closing = name[start], _CLOSING[name[start]]
    depth = 0
    for position in range(start, len(name)):
        depth += (name[position] == opening) - (name[position] == closing)
        if depth == 0:
            return position
    return None


def _tidy(text: str) -> str:
    plain = _COLONS.sub("::", _LAMBDAS.sub("", text)).strip().removeprefix("::")
    return _NAMESPACES.sub("", plain.removeprefix("void ").removeprefix("::")).strip()


def _without_parameters(name: str) -> str:
    """The name without namespaces, return type and parameters."""
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "").rstrip()
    if plain.endswith(")"):
        start = _matching(plain[::-1].translate(_MIRRORED), 0)
        plain = plain if start is None else plain[: len(plain) - start - 1]
    return _NAMESPACES.sub("", plain).strip()


_LEVELS: tuple[Callable[[str], str], ...] = (
    lambda name: _simplified(demangled(name)) or name,
    lambda name: _without_parameters(demangled(name)) or name,
    demangled,
)
"""From the shortest to the full name."""


def _without_middle(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def _common_start(texts: Sequence[str]) -> int:
    first, last = min(texts), max(texts)
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))


def _from(text: str, start: int, width: int) -> str:
    """A text's first few letters, then the text from `start`."""
    head = max(1, width // 3)
    if start <= head:
        return text if len(text) <= width else f"{text[: width - 1]}…"
    end = text[start:]
    room = width - head - 1
    return f"{text[:head]}…{end}" if len(end) <= room else f"{text[:head]}…{end[: room - 1]}…"
