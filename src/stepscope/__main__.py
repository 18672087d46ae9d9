"""The `stepscope` command, which is also `python -m stepscope`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Runs the command line of this process and returns the exit code; Ctrl-C ends it without a traceback from the
    start on, and not only once everything is imported."""
    ends = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ends:
        signal.signal(signal.SIGINT, _end)
    from stepscope.cli.main import main as run

    if ends:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


def _end(*_: object) -> None:
    """As `cli.main` ends; nothing was begun that had to be undone."""
    os.write(2, b"stepscope: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
