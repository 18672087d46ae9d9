"""Keeps commands from importing what they do not need: pandas and OpenBLAS threads.

If pandas is installed, Arrow imports it as soon as it makes an array, which takes a quarter of a second. (`None` in its
place in `sys.modules` makes Arrow fail; it must be refused like a package that is not installed.) NumPy starts a thread
of linear algebra for each further processor, each of which spins for some hundredths of a second before it sleeps.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

_START = """
import sys
from importlib import import_module
if not sys.path[0]:
    del sys.path[0]
sys.path.append(sys.argv[1])
sys.exit(import_module(sys.argv[2]).main())
"""
"""Runs one of our modules. With `-m`, Python would look for every module in the working directory first, which may
contain what others have sent."""

_SETTINGS = {
    # glibc keeps freed arrays of up to 32 MB, and others between them, for later; these are given back at once.
    "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "OPENBLAS_NUM_THREADS": "1",
}

_LOOK_S = 0.05
"""How often a process whose input has ended looks whether its parent was killed: the input ends just before that."""


def limit_imports() -> None:
    """From now on makes imports of pandas fail in this process, unless it was imported already, and keeps NumPy from
    starting threads."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _Watches())


def started(module: str) -> subprocess.Popen[str]:
    """Starts a process of ours that runs the `main` of a module: lines on its stdin and stdout.

    Raises:
        OSError: it cannot be started.
    """
    import subprocess  # imported here: a question does not need it

    return subprocess.Popen(  # noqa: S603  # our own interpreter and code
        [sys.executable, "-c", _START, str(Path(__file__).parents[2]), module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | _SETTINGS,
        # Ctrl-C is for the parent, which ends its children itself.
        start_new_session=True,
    )


def conversation() -> tuple[Iterator[str], Callable[..., None]]:
    """The lines from the process that started this one, and a function that sends it a JSON object on a line.

    From now on, what plug-ins, C libraries and programs that they start read and print stays out of it. If the process
    that started this one is killed, this one ends at once, whatever it does: it would write to a place that others
    clean up.
    """
    requests, answers = os.dup(0), os.fdopen(os.dup(1), "w")
    null_device = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null_device, 0)
    os.close(null_device)
    os.dup2(2, 1)
    parent, lines = os.getppid(), SimpleQueue[str]()

    def listen() -> None:
        partial = b""
        # Not a file object: Python cannot end while a thread reads from one.
        while block := os.read(requests, 1 << 16):
            *complete, partial = (partial + block).split(b"\n")
            for line in complete:
                lines.put(line.decode())
        lines.put("")
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        os._exit(1)

    def send(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    threading.Thread(target=listen, name="stepscope-requests", daemon=True).start()
    return iter(lines.get, ""), send


class _Watches:
    """The first import finder that Python asks: it finds no pandas."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("left out: see stepscope.store.worker_process", name=name)
        if name == "numpy":
            # Only now: a command that starts the user's job imports no NumPy and passes its environment on.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
