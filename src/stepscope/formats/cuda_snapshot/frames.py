"""What the call stacks of a memory snapshot show: where in the program memory was requested, by which
operator, and in which part of a training step.

A stack is a list of frames, innermost first, of Python and, if torch was asked for them, of C++. The
C++ frames name the operator (`at::_ops::add_Tensor::call`) and the engine that runs the backward pass,
whose threads have no Python frames at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stepscope.formats.plain_pickle import ExcessiveError
from stepscope.formats.vocabulary import is_program_frame

FORWARD, BACKWARD, OPTIMIZER, ZERO_GRAD, PARAMETERS = (
    "forward", "backward", "optimizer", "zero_grad", "parameters",
)  # fmt: skip

_MAX_FRAMES = 32
_OPERATOR = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)\(")
_OVERLOAD = re.compile(r"(?<=[a-z0-9_])_(?=[A-Z]).*$")
_LOWER_OVERLOADS = re.compile(
    r"_(?:memory_format|out|grad_input|int|int_out|dim|dims|dtype|dtype_layout|correction|start|start_step"
    r"|names|names_out|generator|size|sizes|value|self|input|other|vec|default|p|indices|list|src|result)$"
)
_ALLOCATES = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"})
"""Operators that only allocate: their caller says more."""
_BACKWARD_CPP = re.compile(r"torch::autograd::(?:Engine::|generated::\w+|CppNode|PyNode::|python::PythonEngine::)")
_OF_MODULES = re.compile(r"(?:^|/)torch/nn/modules/[^/]+$")
_OPTIMIZER = re.compile(r"optim|adam|sgd|lamb|lion|muon", re.IGNORECASE)
"""In the names of an optimizer's file and its folder."""
_MAX_SHOWN = 1 << 27
"""Characters of all texts that are made of the file's."""
LONGEST_NAME = 1 << 8
"""Characters that are shown of an annotation, a frame's function, and the end of its file's path."""
_PLUMBING = re.compile(
    r"torch::(?:unwind|CapturedTraceback|cuda)::|c10::|at::(?:detail|meta|wrapper|structured|create_out|Tensor)"
    r"|.*::redispatch$|.* |_?_?Py|__|pthread|std::|_start$|at::TensorIterator|[^:]*$"
)
"""C++ frames that every allocation has: the allocator, the dispatcher, threads."""
_BUILDS_MODULE = frozenset({"__init__", "reset_parameters", "_apply", "convert"})
_MODULE_CALL = frozenset({"_call_impl", "_wrapped_call_impl"})
_BACKWARD_PYTHON = frozenset({"_engine_run_backward", "run_backward", "backward", "unpack_hook"})


_NUMBERS = frozenset({int})


class _StackNumber:
    """Stands for the frames of a known stack: a file cannot contain one."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Stacks:
    """The frames and stacks of a snapshot, each stored once.

    A file refers to one long text as often as it likes, so what is made of texts is limited, and not only the texts.
    """

    def __init__(self) -> None:
        self._left = _MAX_SHOWN
        self.texts: list[str] = []
        """Each distinct text of a stack, as in `call_stack.frames`."""
        self.text: list[int] = []
        """For each stack the number of its text, -1 if nothing is left of it."""
        self.roles: list[str | None] = []
        """For each stack the part of the step, one of the words above; None if it does not show."""
        self.operators: list[str | None] = []
        """For each stack the operator that it names."""
        self.bare: list[bool] = []
        """For each stack whether it has no frame at all."""
        self._frames: dict[tuple[Any, Any, Any], int] = {}
        self._python: list[bool] = []
        self._program: list[bool] = []
        self._telling: list[bool] = []
        self._name: list[str] = []
        self._role: list[str | None] = []
        self._operator: list[str | None] = []
        self._stacks: dict[tuple[int, ...], int] = {}
        self._numbers: dict[str, int] = {}
        self._stack_numbers: list[_StackNumber] = []

    def frame(self, fields: dict[Any, Any]) -> int:
        """The number of a frame: a dictionary of `name`, `filename` and `line`."""
        name, file, line = fields.get("name"), fields.get("filename"), fields.get("line")
        if type(name) is not str or type(file) is not str or type(line) is not int:
            raise TypeError
        key = (name, file, line)
        number = self._frames.get(key)
        if number is None:
            number = self._frames[key] = len(self._name)
            name, file = name[:LONGEST_NAME], file[-LONGEST_NAME:]
            python = file.endswith(".py") or (file.startswith("<") and "::" not in name)
            text = f"{file}({line}): {name}" if python else _short(name)
            self.charge(text)
            self._python.append(python)
            self._program.append(python and is_program_frame(text))
            self._telling.append(not _PLUMBING.match(text))
            self._name.append(text.replace(";", ","))
            of_cpp = BACKWARD if _BACKWARD_CPP.match(name) else None
            self._role.append(_role_of_python(name, file) if python else of_cpp)
            operator = None if python else _OPERATOR.search(name[:200])
            self._operator.append(None if operator is None else _operator_name(operator[1]))
        return number

    def stack(self, frames: Any) -> int:
        """The number of a stack; -1 for no stack. Its list of frames is replaced by that number.

        A list that the file refers to again then takes no memory.
        """
        if type(frames) is not list:
            return -1
        if len(frames) == 1 and type(frames[0]) is _StackNumber:
            return frames[0].number
        if not _NUMBERS.issuperset(map(type, frames)):
            raise TypeError  # before hashing: nested tuples would take for ever, or all of the C stack
        key = tuple(frames)
        number = self._stacks.get(key)
        if number is None:
            number = self._stacks[key] = len(self.text)
            self._describe(key)
            self._stack_numbers.append(_StackNumber(number))
        frames[:] = (self._stack_numbers[number],)
        return number

    def charge(self, text: str) -> None:
        """Counts a text that is made of the file's.

        Raises:
            ExcessiveError: with it, they are longer than all texts of a file may be.
        """
        self._left -= len(text)
        if self._left < 0:
            raise ExcessiveError("its texts are longer than those of a snapshot")

    def _describe(self, frames: Sequence[int]) -> None:
        if min(frames, default=0) < 0:
            raise TypeError
        program_frames = [number for number in frames if self._program[number]]
        shown_frames: Sequence[int] = program_frames or [number for number in frames if self._python[number]]
        shown_frames = shown_frames or [number for number in frames if self._telling[number]] or frames
        text = ";".join(self._name[number] for number in shown_frames[:_MAX_FRAMES])
        number = self._numbers.setdefault(text, len(self.texts)) if text else -1
        if number == len(self.texts):
            self.charge(text)
            self.texts.append(text)
        self.text.append(number)
        self.bare.append(not frames)
        roles = [role for number in frames if (role := self._role[number])]
        # Recomputation by checkpointing runs in the backward pass, within frames of the forward.
        self.roles.append(BACKWARD if BACKWARD in roles else next(iter(roles), None))
        named = [operator for number in frames if (operator := self._operator[number])]
        telling = (number for number in named if number not in _ALLOCATES)
        operator = next(telling, named[0] if named else None)
        self.operators.append(None if operator is None else f"aten::{operator}")


def _operator_name(text: str) -> str:
    """The operator in the name of a struct, without the overload at its end.

    >>> _operator_name("add_Tensor"), _operator_name("_softmax"), _operator_name("sum_dim_IntList")
    ('add', '_softmax', 'sum')
    """
    return _LOWER_OVERLOADS.sub("", _OVERLOAD.sub("", text)) or text


def _short(name: str) -> str:
    """The name of a C++ function without arguments and parameters of templates.

    >>> _short("at::(anonymous namespace)::wrapper_CUDA_div(at::Tensor const&)")
    'at::wrapper_CUDA_div'
    """
    return re.split(r"[(<]", name.replace("(anonymous namespace)::", ""), maxsplit=1)[0] or name


def _role_of_python(name: str, file: str) -> str | None:
    file = file.replace("\\", "/")
    if name in _BACKWARD_PYTHON:
        return BACKWARD
    if name == "zero_grad":
        return ZERO_GRAD
    folder, _, _ = f"/{file}".rpartition("/")
    if folder.endswith("/torch/nn/modules"):
        if name in _MODULE_CALL:
            return FORWARD
        return PARAMETERS if name in _BUILDS_MODULE else None
    if name in ("step", "wrapper", "_step", "_init_group") and _is_of_optimizer(file):
        return OPTIMIZER
    return None


def _is_of_optimizer(file: str) -> bool:
    place = "/".join(file.rsplit("/", 2)[-2:])
    return "/torch/optim/" in f"/{file}" or (place.endswith(".py") and _OPTIMIZER.search(place) is not None)
