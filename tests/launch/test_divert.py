"""A tool's lines are taken out of an output, and every other byte passes, in order and at once."""

import os
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.launch.divert import Sieve

PREFIXES = (b"onednn_verbose,", b"dnnl_verbose,")
LINES = st.lists(
    st.sampled_from(
        [b"loss 0.5\n", b"half", b"\r\x00\xff", b"onednn_verbos", b"o", b"dnnl_", b"\n", b"onednn_verbose,1\n"]
    ),
    max_size=12,
)


def parted(pieces: list[bytes]) -> tuple[bytes, bytes]:
    sieve = Sieve(PREFIXES)
    parts = [sieve.part(piece) for piece in pieces]
    return b"".join(ours for ours, _ in parts) + sieve.let_go(), b"".join(theirs for _, theirs in parts)


@examples(200)
@given(LINES, st.lists(st.integers(0, 100), max_size=8))
def test_where_the_stream_is_cut_changes_nothing(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(lines)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert parted(pieces) == parted([data])


@examples(100)
@given(st.lists(st.binary(max_size=30), max_size=8))
def test_nothing_is_lost(pieces: list[bytes]) -> None:
    ours, theirs = parted(pieces)
    assert sorted(ours + theirs) == sorted(b"".join(pieces))


def test_a_line_that_comes_within_a_line_is_taken_out() -> None:
    assert parted([b"step 3: onednn_verbose,exec,1\n0.5\n"]) == (b"step 3: 0.5\n", b"onednn_verbose,exec,1\n")


VERBOSE = """
import os, sys
assert os.environ["ONEDNN_VERBOSE"] == "1", os.environ
print("tty" if sys.stdout.isatty() else "pipe", flush=True)
os.write(1, b"onednn_verbose,exec,cpu,matmul\\n")
os.write(1, b"o\\x00\\r\\n\\xff")
os.write(2, b"onednn_verbose,of stderr\\n")
print(input(), flush=True)
sys.exit(3)
"""


def test_lines_of_onednn_go_into_a_file_of_the_rank(launch, tmp_path) -> None:
    with launch("--", sys.executable, "-c", VERBOSE, tool="onednn", PMI_RANK="2", PMI_SIZE="4") as process:
        output = process.stdout.buffer
        assert output.readline() == b"pipe\n"
        process.stdin.write("typed\n")
        process.stdin.flush()
        out = output.read()
        warnings = process.stderr.read()
        assert process.wait(20) == 3
    assert out == b"o\x00\r\n\xfftyped\n"
    (file,) = (tmp_path / "out").iterdir()
    assert file.name.startswith("rank2.")
    assert file.read_text() == "onednn_verbose,exec,cpu,matmul\n"
    assert warnings.startswith("onednn_verbose,of stderr\n")


def test_a_command_on_a_terminal_stays_on_one(launch, tmp_path, stand_ins) -> None:
    reading, writing = os.openpty()
    words = [sys.executable, "-m", "stepscope", "launch", "--tool", "onednn", "-o", str(tmp_path)]
    with subprocess.Popen(
        [*words, "--", sys.executable, "-c", VERBOSE], stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE
    ) as process:
        os.close(writing)
        process.communicate(b"typed\n", timeout=20)
    out = b""
    try:
        while piece := os.read(reading, 1000):
            out += piece
    except OSError:  # the other end is closed
        pass
    os.close(reading)
    assert out.startswith(b"tty\r\n")
    assert b"verbose" not in out


def test_who_closes_the_output_stops_the_command(launch) -> None:
    with launch("--", "sh", "-c", "while echo y; do :; done", tool="onednn") as process:
        assert process.stdout.readline() == "y\n"
        process.stdout.close()
        process.wait(20)
        assert process.returncode != 0


@pytest.mark.torch
def test_a_real_matrix_product_is_reported(launch, tmp_path) -> None:
    script = "import torch\ntorch.nn.Conv2d(16, 32, 3)(torch.rand(8, 16, 64, 64))\nprint('done')"
    with launch("--", sys.executable, "-c", script, tool="onednn") as process:
        out, warnings = process.communicate(timeout=60)
    assert out == "done\n", warnings
    (file,) = (tmp_path / "out").iterdir()
    assert ",convolution," in file.read_text()
