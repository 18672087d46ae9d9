"""Operator calls of torch written the way Kineto writes them, for the tests of the work models."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from stepscope.costs import Work, work

KINETO_NAMES = {
    "torch.float64": "double",
    "torch.float32": "float",
    "torch.float16": "c10::Half",
    "torch.bfloat16": "c10::BFloat16",
    "torch.int64": "long int",
    "torch.int32": "int",
    "torch.int16": "short",
    "torch.int8": "signed char",
    "torch.uint8": "unsigned char",
    "torch.bool": "bool",
    "torch.complex64": "c10::complex<float>",
    "torch.float8_e4m3fn": "c10::Float8_e4m3fn",
}
SCALAR_TYPES = {
    "torch.uint8": 0,
    "torch.int8": 1,
    "torch.int16": 2,
    "torch.int32": 3,
    "torch.int64": 4,
    "torch.float16": 5,
    "torch.float32": 6,
    "torch.float64": 7,
    "torch.complex64": 9,
    "torch.bool": 11,
    "torch.bfloat16": 15,
}


def _is_tensor(item: Any) -> bool:
    return any(base.__name__ == "Tensor" for base in type(item).__mro__)


@dataclass(frozen=True)
class Seen:
    """One operator that torch ran: its name, its inputs by the order of its schema, its results."""

    name: str
    arguments: list[Any]
    results: list[Any]
    schema: str

    def texts(self) -> tuple[str, str, str, str]:
        """Dims, types, strides and values as Kineto writes them."""
        inputs: list[tuple[Any, str, Any, str]] = []
        for argument in self.arguments:
            if _is_tensor(argument):
                kind = KINETO_NAMES[str(argument.dtype)]
                inputs.append((list(argument.shape), kind, list(argument.stride()), ""))
            elif isinstance(argument, (list, tuple)) and any(_is_tensor(item) for item in argument):
                shapes = [list(item.shape) for item in argument]
                inputs.append((shapes, "TensorList", [list(item.stride()) for item in argument], ""))
            elif argument is None:
                inputs.append(([], "", [], ""))
            elif isinstance(argument, (list, tuple)):
                inputs.append(([], "ScalarList", [], "[" + ", ".join(str(item) for item in argument) + "]"))
            else:
                inputs.append(([], "Scalar", [], str(SCALAR_TYPES.get(str(argument), argument))))
        dims, types, strides, values = (json.dumps(texts) for texts in list(zip(*inputs, strict=True)) or [[]] * 4)
        return dims, types, strides, values

    def work(self, **options: Any) -> Work | None:
        """The work that the model counts for it."""
        return work(self.name, *self.texts(), **options)


@pytest.fixture
def seen_operators() -> Callable[[Callable[[], Any]], list[Seen]]:
    """Run a function and list the operators that reach the device in it, with inputs and results."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Seen] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = dict(kwargs or {})
            schema = func._schema
            arguments = [
                args[position] if position < len(args) and not argument.kwarg_only
                else given.get(argument.name, argument.default_value)
                for position, argument in enumerate(schema.arguments)
            ]  # fmt: skip
            # What an operator reads is seen before it is overwritten; only shapes matter here.
            result = func(*args, **given)
            results = list(result) if isinstance(result, (list, tuple)) else [result]
            self.seen.append(Seen(schema.name, arguments, results, str(schema)))
            return result

    def watch(function: Callable[[], Any]) -> list[Seen]:
        torch.manual_seed(0)
        with Watching() as mode:
            function()
        return mode.seen

    return watch
