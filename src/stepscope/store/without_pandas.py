"""A process without pandas, for commands: none of them needs it.

Where pandas is installed, Arrow imports it as soon as it makes an array, which takes a quarter of a
second. (`None` in `sys.modules` in place of it makes Arrow fail; it has to be refused as one that is
not installed.) For processes that are ours alone.
"""

from __future__ import annotations

import sys


def leave_out_pandas() -> None:
    """Makes imports of pandas fail in this process from now on, unless it has been imported already."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _Refuses())


class _Refuses:
    """The first to be asked where a module is: pandas is nowhere."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("left out: see stepscope.store.without_pandas", name=name)
