"""What a process that is ours alone does without, for commands: none of them needs it.

Where pandas is installed, Arrow imports it as soon as it makes an array, which takes a quarter of a
second. (`None` in `sys.modules` in place of it makes Arrow fail; it has to be refused as one that is
not installed.) NumPy starts a thread of linear algebra for each further processor, and each of them turns in a loop
for some hundredths of a second before it sleeps.
"""

from __future__ import annotations

import os
import sys


def own_process() -> None:
    """Makes imports of pandas fail in this process from now on, unless it has been imported already, and NumPy start
    no threads."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _Watches())


class _Watches:
    """The first to be asked where a module is: pandas is nowhere."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("left out: see stepscope.store.own_process", name=name)
        if name == "numpy":
            # Now and not before: a command that starts the user's job imports no NumPy and hands on its environment.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
