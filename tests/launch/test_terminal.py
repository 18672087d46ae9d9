"""A terminal's Ctrl-C ends the command once, below a tool that stays in the terminal's group."""

import fcntl
import os
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from tests.launch.conftest import bare_environment

SCRIPT = """
import sys, time
try:
    print("ready", sys.stdin.isatty(), flush=True)
    time.sleep(20)
except KeyboardInterrupt:
    time.sleep(0.2)
    sys.exit(9)
"""


@pytest.mark.parametrize("tool", ["nsys", "onednn"])
def test_what_is_typed_arrives_once(tool: str, stand_ins: Path, tmp_path: Path) -> None:
    typing, terminal = os.openpty()
    words = [sys.executable, "-m", "stepscope", "launch", "--tool", tool, "-o", str(tmp_path)]
    environment = bare_environment()
    with subprocess.Popen(
        [*words, "--", sys.executable, "-c", SCRIPT],
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.DEVNULL,
        env=environment | {"PATH": f"{stand_ins}{os.pathsep}{environment['PATH']}"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        os.close(terminal)
        seen = b""
        while b"ready True" not in seen:
            seen += os.read(typing, 100)
        os.write(typing, b"\x03")
        assert process.wait(20) == 9
    os.close(typing)
