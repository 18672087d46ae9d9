"""What a person sees: the command in a pseudo-terminal of 80 and of 200 columns."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading

import pytest
from tests.store.conftest import write_directory

from stepscope.base.text_cells import cells

QUESTIONS = ("summary", "findings", "operators", "kernels", "modules", "steps", "communication")
_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

pytestmark = pytest.mark.slow


def in_terminal(width: int, *commands: list[str], **environment: str) -> str:
    """What commands write, in one process, to a terminal so wide."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    program = f"import sys; from stepscope.cli.main import main\nfor words in {commands!r}: main(words); print('=====')"
    surroundings = {
        key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=follower, stderr=follower, stdin=follower,
        env={**surroundings, "TERM": "xterm-256color", **environment},
    )  # fmt: skip
    os.close(follower)
    parts: list[bytes] = []

    def read() -> None:
        try:
            while part := os.read(leader, 1 << 16):
                parts.append(part)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    assert process.wait(60) == 0
    reader.join(10)
    os.close(leader)
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    from tests.browser.recordings import training

    folder = tmp_path_factory.mktemp("terminal")
    slower = training(ranks=2)
    for event in slower["device_event"]:
        event["dur_ns"] *= 2
    return [write_directory(folder / "a", training(ranks=2)), write_directory(folder / "b", slower)]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("width", [80, 200])
def test_no_line_is_cut_by_the_terminal(stores, width):
    asked = [[question, str(stores[0])] for question in QUESTIONS]
    said = in_terminal(width, *asked, ["diff", *map(str, stores)])
    assert said.count("=====") == len(asked) + 1
    assert "\x1b[1m" in said
    plain = _STEERING.sub("", said)
    commands = re.compile(r"^ *(?:Next: )?\S+stepscope ")  # is typed, and so never broken
    wide = [line for line in plain.splitlines() if cells(line) > width and not commands.match(line)]
    assert wide == []
    assert ("█" in plain.split("=====")[3]) == (width == 200)  # kernels: bars where there is room


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_who_wants_no_colour_gets_none(stores, environment):
    said = in_terminal(200, ["kernels", str(stores[0])], ["summary", str(stores[0])], **environment)
    assert "\x1b" not in said
