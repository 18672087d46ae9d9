"""Runs a script or module in this process as `python SCRIPT` and `python -m MODULE` do.

`runpy` gives a script a relative `__file__`, which is wrong after the script changes its directory, and removes its
`__main__` after its last line, although its threads and exit handlers may still use it.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import pkgutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_NAME = Path("/proc/self/comm")


class MainProgram:
    """Makes a program the main one: `sys.argv`, `sys.path[0]`, `__main__` and the process's name."""

    def __init__(self) -> None:
        self._before = sys.argv[:], sys.path[:], sys.modules["__main__"]
        self._named = _named(Path(sys.executable).name)

    def restore(self) -> None:
        sys.argv, sys.path[:], sys.modules["__main__"] = self._before
        if self._named is not None:
            _named(self._named)

    def run_script(self, path: str, arguments: Sequence[str]) -> None:
        """Runs a Python file, or a folder or archive with a `__main__`; its exceptions pass through."""
        sys.argv = [path, *arguments]
        absolute = path if Path(path).is_absolute() else f"{Path.cwd()}/{path}"
        if pkgutil.get_importer(path) is not None:
            _replace_first_path(absolute)
            spec = PathFinder.find_spec("__main__", [absolute])
            if spec is None:
                raise SystemExit(f"{sys.executable}: can't find '__main__' module in {path!r}")
            _run_found(spec)
            return
        _replace_first_path(str(Path(absolute).resolve().parent))
        _run(_code(absolute), absolute, SourceFileLoader("__main__", absolute), None)

    def run_module(self, name: str, arguments: Sequence[str]) -> None:
        """Runs a module, or a package's `__main__`; its exceptions pass through, and Python's without one."""
        sys.argv = ["-m", *arguments]
        try:
            _replace_first_path(str(Path.cwd()))
        except OSError:  # it was deleted
            _replace_first_path()
        spec = _find_spec(name)
        sys.argv[0] = spec.origin or name
        _run_found(spec)


def _named(name: str) -> str | None:
    """Names the process for the system and its threads; returns its previous name, None if the system has none."""
    with suppress(OSError):
        before = _NAME.read_text().rstrip("\n")
        _NAME.write_text(name)
        return before
    return None


def _run_found(spec: ModuleSpec) -> None:
    loader: Any = spec.loader
    code = loader.get_code(spec.name) if hasattr(loader, "get_code") else None
    if code is None:
        raise SystemExit(f"{sys.executable}: there is no code in {spec.name}")
    _run(code, spec.origin, loader, spec)


def _run(code: CodeType, file: str | None, loader: Any, spec: ModuleSpec | None) -> None:
    main = ModuleType("__main__")
    if "__annotations__" in vars(
        sys.modules["__main__"]
    ):  # not in Python 3.14, which makes them when they are asked for
        vars(main)["__annotations__"] = {}
    vars(main).update(
        __builtins__=builtins,
        __file__=file,
        __cached__=None if spec is None else spec.cached,
        __loader__=loader,
        __package__=None if spec is None else spec.parent,
        __spec__=spec,
    )
    sys.modules["__main__"] = main
    exec(code, vars(main))  # noqa: S102 - the user's own program is what is to be run


def _code(path: str) -> CodeType:
    with io.open_code(path) as file:
        compiled: CodeType | None = pkgutil.read_code(file)
        if compiled is None:
            file.seek(0)
            # Otherwise this file's future statements would apply to that one.
            compiled = compile(file.read(), path, "exec", dont_inherit=True)
    return compiled


def _find_spec(name: str) -> ModuleSpec:
    spec = importlib.util.find_spec(name) if _has_parents(name) else None
    if spec is not None and spec.submodule_search_locations is not None:
        name = f"{name}.__main__"
        spec = importlib.util.find_spec(name)
    if spec is None:
        raise SystemExit(f"{sys.executable}: No module named {name}")
    return spec


def _has_parents(name: str) -> bool:
    parent = name.rpartition(".")[0]
    if not parent:
        return True
    return _has_parents(parent) and importlib.util.find_spec(parent) is not None


def _replace_first_path(*first: str) -> None:
    # With -P or -I, Python does not add the program's folder, so neither do we.
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0:1] = first
