"""Demangles the names of kernels: turns what compilers made of C++ names back into readable ones.

Kineto's traces have readable names; nvprof and other tools keep those of the object files. This reads
the part of the Itanium C++ ABI that occurs in names of device functions: namespaces, templates,
lambdas, parameter types. It is our own because crafted names can crash the system's demanglers.
A name that it cannot read stays as it is.

Source: Itanium C++ ABI, section 5.1, External Names (a.k.a. Mangling).
"""

from __future__ import annotations

import re
from functools import lru_cache

_LONGEST_NAME = 16_384
_LONGEST_RESULT = 65_536
_DEEPEST = 96
_MAX_STEPS = 20_000
_MAX_WRITTEN = 1 << 22
"""Characters written while reading a name: references within it can make it grow without end."""

_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long",
    "m": "unsigned long", "x": "long long", "y": "unsigned long long", "n": "__int128",
    "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double", "g": "__float128",
    "z": "...", "Dn": "decltype(nullptr)", "Dh": "half", "Df": "decimal32", "Dd": "decimal64",
    "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t", "Da": "auto", "Dc": "decltype(auto)",
}  # fmt: skip
_STANDARD = {
    "t": "std", "a": "std::allocator", "b": "std::basic_string", "s": "std::string",
    "i": "std::istream", "o": "std::ostream", "d": "std::iostream",
}  # fmt: skip
_OPERATORS = {
    "cl": "()", "ix": "[]", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "eq": "==",
    "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "aS": "=", "pL": "+=", "mI": "-=",
    "mL": "*=", "dV": "/=", "ls": "<<", "rs": ">>", "aa": "&&", "oo": "||", "nt": "!", "co": "~",
    "an": "&", "or": "|", "eo": "^", "pp": "++", "mm": "--", "pt": "->", "ng": "-", "ps": "+",
    "de": "*", "ad": "&", "nw": " new", "dl": " delete",
}  # fmt: skip
_PARAMETER = re.compile(r"\x01(\d+)\x02")
_SUFFIX = {"j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}

Type = tuple[str, str]
"""A type as the text before and after the name that it would declare."""


@lru_cache(maxsize=65_536)
def demangled(name: str) -> str:
    """A readable name; a name that is not mangled, or cannot be read, is returned as it is.

    >>> demangled("_ZN2at6native13reduce_kernelILi512EfEEvT0_")
    'void at::native::reduce_kernel<512, float>(float)'
    >>> demangled("volta_sgemm_128x64_nn")
    'volta_sgemm_128x64_nn'
    """
    if not name.startswith("_Z") or len(name) > _LONGEST_NAME or not name.isascii():
        return name
    reader = _Reader(name)
    try:
        text = reader.encoding()
    except (_UnreadableError, IndexError, RecursionError, ValueError):
        return name
    suffix = name[reader.at :]
    if (suffix and not suffix.startswith((".", "@"))) or "\x01" in text or not text:
        return name
    return text


class _UnreadableError(Exception):
    """The text is not in the part of the grammar that is read here."""


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 2
        self.seen: list[Type] = []
        self.arguments: list[str] = []
        self.depth = 0
        self.steps = 0
        self.written = 0

    # -- the text --------------------------------------------------------------------------------

    def looking_at(self, *starts: str) -> bool:
        return self.text.startswith(starts, self.at)

    def take(self, start: str) -> bool:
        if self.text.startswith(start, self.at):
            self.at += len(start)
            return True
        return False

    def expect(self, start: str) -> None:
        if not self.take(start):
            raise _UnreadableError

    def number(self) -> int:
        start = self.at
        while self.at < len(self.text) and self.text[self.at].isdecimal():
            self.at += 1
        if start == self.at or self.at - start > 6:
            raise _UnreadableError
        return int(self.text[start : self.at])

    def enter(self) -> None:
        self.depth += 1
        self.steps += 1
        if self.depth > _DEEPEST or self.steps > _MAX_STEPS:
            raise _UnreadableError

    def checked(self, text: str) -> str:
        self.written += len(text)
        if len(text) > _LONGEST_RESULT or self.written > _MAX_WRITTEN:
            raise _UnreadableError
        return text

    # -- names -----------------------------------------------------------------------------------

    def encoding(self, *, local: bool = False) -> str:
        """A function with its parameters, or a variable. The function around a name is shown without its result."""
        self.enter()
        outer, self.arguments = self.arguments, []
        name, qualifiers, returns = self.name(declares=True)
        if self.at < len(self.text) and not self.looking_at("E", ".", "@"):
            result = self.type() if returns else ("", "")
            parameters = self.parameters()
            if local:
                result = ("", "")
            before = f"{result[0]} " if result[0] else ""
            name = f"{before}{name}({parameters}){qualifiers}{result[1]}"
        name = self.checked(_PARAMETER.sub(self.argument, self.checked(name)))
        self.arguments = outer
        self.depth -= 1
        return self.checked(name)

    def parameters(self) -> str:
        """Types up to the end of the encoding or function type."""
        types = []
        while self.at < len(self.text) and not self.looking_at("E", ".", "@"):
            types.append(_plain(self.type()))
        return "" if types == ["void"] else ", ".join(types)

    def name(self, *, declares: bool = False) -> tuple[str, str, bool]:
        """A name, its qualifiers (` const`), and whether a function with it states its return type."""
        if self.take("N"):
            return self.nested(declares=declares)
        if self.take("Z"):
            return self.local(declares=declares)
        if self.looking_at("S") and not self.looking_at("St"):
            base = self.substitution()[0]
        else:
            base = ("std::" if self.take("St") else "") + self.unqualified("")
            if self.looking_at("I"):
                self.seen.append((base, ""))
        if self.looking_at("I"):
            return base + self.template_arguments(keep=declares), "", True
        return base, "", False

    def nested(self, *, declares: bool) -> tuple[str, str, bool]:
        qualifiers = ""
        while self.looking_at("r", "V", "K"):
            qualifiers += {"r": " restrict", "V": " volatile", "K": " const"}[self.text[self.at]]
            self.at += 1
        if self.take("R"):
            qualifiers += " &"
        elif self.take("O"):
            qualifiers += " &&"
        so_far, last, templated = "", "", False
        while not self.take("E"):
            self.steps += 1
            if self.looking_at("I"):
                so_far += self.template_arguments(keep=declares)
                templated = True
            elif self.looking_at("S") and not self.looking_at("St"):
                so_far = self.substitution()[0]
                last, templated = so_far.rpartition("::")[2].partition("<")[0], False
                continue
            elif self.looking_at("T"):
                so_far, templated = self.template_parameter(), False
            else:
                part = "std" if self.take("St") else self.unqualified(last)
                last, templated = part, False
                so_far = f"{so_far}::{part}" if so_far else part
                if part == "std":
                    continue
            if not self.looking_at("E"):
                self.seen.append((self.checked(so_far), ""))
        return so_far, qualifiers, templated

    def local(self, *, declares: bool) -> tuple[str, str, bool]:
        outside = self.encoding(local=True)
        self.expect("E")
        if self.take("s"):
            self.discriminator()
            return f"{outside}::string literal", "", False
        if self.take("d"):
            if not self.looking_at("_"):
                self.number()
            self.expect("_")
        inside, qualifiers, templated = self.name(declares=declares)
        self.discriminator()
        return f"{outside}::{inside}", qualifiers, templated

    def discriminator(self) -> None:
        if self.looking_at("__"):
            self.at += 2
            self.number()
            self.expect("_")
        elif self.looking_at("_") and self.text[self.at + 1 : self.at + 2].isdecimal():
            self.at += 2

    def unqualified(self, enclosing: str) -> str:
        self.enter()
        try:
            self.take("L")  # internal linkage
            following = self.text[self.at]
            if following.isdecimal():
                return self.source_name()
            if self.take("Ul"):
                parameters = self.parameters()
                self.expect("E")
                return f"{{lambda({parameters})#{self.ordinal()}}}"
            if self.take("Ut"):
                return f"{{unnamed type#{self.ordinal()}}}"
            if following in "CD" and self.text[self.at + 1] in "0123":
                self.at += 2
                return enclosing if following == "C" else f"~{enclosing}"
            if self.take("cv"):
                return f"operator {_plain(self.type())}"
            sign = _OPERATORS.get(self.text[self.at : self.at + 2])
            if sign is None:
                raise _UnreadableError
            self.at += 2
            return f"operator{sign}"
        finally:
            self.depth -= 1

    def source_name(self) -> str:
        length = self.number()
        name = self.text[self.at : self.at + length]
        if not length or len(name) != length:
            raise _UnreadableError
        self.at += length
        if name.startswith("_GLOBAL__N"):
            name = "(anonymous namespace)"
        while self.take("B"):
            name += f"[abi:{self.source_name()}]"
        return name

    def ordinal(self) -> int:
        if self.take("_"):
            return 1
        number = self.number() + 2
        self.expect("_")
        return number

    def substitution(self) -> Type:
        self.expect("S")
        following = self.text[self.at]
        if following in _STANDARD:
            self.at += 1
            return _STANDARD[following], ""
        index = self.sequence_number(36)
        if index >= len(self.seen):
            raise _UnreadableError
        return self.seen[index]

    def sequence_number(self, base: int) -> int:
        """`_` is 0, `0_` is 1, and so on."""
        start = self.at
        end = self.text.index("_", start)
        if end - start > 6:
            raise _UnreadableError
        self.at = end + 1
        return int(self.text[start:end], base) + 1 if end > start else 0

    # -- templates -------------------------------------------------------------------------------

    def template_parameter(self) -> str:
        """A mark in place of an argument: a later reference to it may mean another function's argument."""
        self.expect("T")
        return f"\x01{self.sequence_number(10)}\x02"

    def argument(self, mark: re.Match[str]) -> str:
        """The type that a mark means in the current function."""
        index = int(mark[1])
        if index >= len(self.arguments):
            return "auto"  # of a generic lambda
        return self.arguments[index]

    def template_arguments(self, *, keep: bool) -> str:
        """`<...>`. Parameters in the signature of a declaration stand for the arguments of its own name."""
        self.enter()
        self.expect("I")
        arguments: list[str] = []
        while not self.take("E"):
            self.template_argument(arguments)
        if keep:
            self.arguments = arguments
        self.depth -= 1
        listed = ", ".join(argument for argument in arguments if argument)
        return self.checked(f"<{listed}{' ' if listed.endswith('>') else ''}>")

    def template_argument(self, arguments: list[str]) -> None:
        if self.take("X"):
            arguments.append(self.expression())
            self.expect("E")
        elif self.looking_at("L"):
            arguments.append(self.literal())
        elif self.take("J"):
            pack: list[str] = []
            while not self.take("E"):
                self.template_argument(pack)
            arguments.append(", ".join(pack))
        else:
            arguments.append(_plain(self.type()))

    def expression(self) -> str:
        if self.looking_at("L"):
            return self.literal()
        if self.looking_at("T"):
            return self.template_parameter()
        sign = _OPERATORS.get(self.text[self.at : self.at + 2])
        if sign is None:
            raise _UnreadableError
        self.enter()
        one_operand = self.looking_at("nt", "ng", "co", "ps", "ad", "de")
        self.at += 2
        left = self.expression()
        result = f"{sign}({left})" if one_operand else f"({left}){sign}({self.expression()})"
        self.depth -= 1
        return self.checked(result)

    def literal(self) -> str:
        self.expect("L")
        if self.take("_Z"):
            name = self.encoding()
            self.expect("E")
            return name
        code = self.text[self.at]
        kind = _plain(self.type())
        end = self.text.index("E", self.at)
        value = self.text[self.at : end].replace("n", "-", 1)
        self.at = end + 1
        if code == "b" and value in ("0", "1"):
            return "true" if value == "1" else "false"
        if code == "i":
            return value
        return value + _SUFFIX[code] if code in _SUFFIX else f"({kind}){value}"

    # -- types -----------------------------------------------------------------------------------

    def type(self) -> Type:
        self.enter()
        kind, is_new = self.some_type()
        if is_new:
            self.seen.append(kind)
        self.depth -= 1
        self.checked(kind[0])
        return kind

    def some_type(self) -> tuple[Type, bool]:
        """A type, and whether later ones may refer to it."""
        letters = self.text[self.at : self.at + 2]
        letter = letters[:1]
        if letters in _BUILTIN:
            self.at += 2
            return (_BUILTIN[letters], ""), False
        if letter in _BUILTIN:
            self.at += 1
            return (_BUILTIN[letter], ""), False
        if letter in ("P", "R", "O"):
            self.at += 1
            return _pointing(self.type(), {"P": "*", "R": "&", "O": "&&"}[letter]), True
        if letter in ("K", "V", "r"):
            return self.qualified(), True
        if letter == "F":
            return self.function(), True
        if letter == "A":
            return self.array(), True
        if letter == "T":
            kind = self.template_parameter()
            if self.looking_at("I"):
                self.seen.append((kind, ""))
                kind += self.template_arguments(keep=False)
            return (kind, ""), True
        if letters == "Dp":
            self.at += 2
            return self.type(), True
        if letter == "u":
            self.at += 1
            return (self.source_name(), ""), True
        if letter == "S" and letters != "St":
            return self.substituted()
        if letter in ("N", "Z") or letter.isdecimal() or letters == "St" or letters in ("Ul", "Ut"):
            return (self.name()[0], ""), True
        raise _UnreadableError

    def substituted(self) -> tuple[Type, bool]:
        kind = self.substitution()
        if self.looking_at("I"):
            return (kind[0] + self.template_arguments(keep=False), kind[1]), True
        return kind, False

    def qualified(self) -> Type:
        words = ""
        while self.looking_at("r", "V", "K"):
            words = {"r": " restrict", "V": " volatile", "K": " const"}[self.text[self.at]] + words
            self.at += 1
        before, after = self.type()
        return before + words, after

    def function(self) -> Type:
        self.expect("F")
        self.take("Y")
        result = self.type()
        parameters = self.parameters()
        self.expect("E")
        return f"{result[0]} (", f")({parameters}){result[1]}"

    def array(self) -> Type:
        self.expect("A")
        size = "" if self.looking_at("_") else str(self.number())
        self.expect("_")
        before, after = self.type()
        return f"{before} (", f") [{size}]{after}"


def _plain(kind: Type) -> str:
    """The type when no name is declared: `void (int)`, not `void ()(int)`."""
    before, after = kind
    if before.endswith(" (") and after.startswith(")"):
        return before[:-1] + after[1:].lstrip(" ")
    return before + after


def _pointing(kind: Type, sign: str) -> Type:
    before, after = kind
    if sign != "*" and before.endswith("&"):  # references collapse
        return (before if sign == "&&" else before.rstrip("&") + "&"), after
    return before + sign, after
