"""Tools of Intel and AMD, perf and py-spy: their exact command lines, and how one knows their files."""

import struct
from pathlib import Path

import pytest

from stepscope.base.captured_steps import StepRange
from stepscope.launch.line import tool_line
from stepscope.launch.tool import Request
from stepscope.launch.tools import TOOLS

STEM = Path("/runs/rank3.node07")


def typed(name: str, **asked) -> str:
    tool = TOOLS[name]
    return tool_line(tool, name, Request(STEM, steps=StepRange(3, 4), **asked), ("./app", "-x")).typed()


@pytest.mark.parametrize(
    ("name", "asked", "line"),
    [
        (
            "vtune",
            {},
            "vtune -collect=hotspots -finalization-mode=none -strategy=ldconfig:notrace:notrace "
            "-result-dir=/runs/rank3.node07.vtune -- ./app -x",
        ),
        (
            "vtune",
            {"set_name": "uarch-exploration", "delay_s": 60.5, "options": ("-knob", "sampling-interval=100")},
            "vtune -collect=uarch-exploration -finalization-mode=none "
            "-strategy=ldconfig:notrace:notrace -start-paused -resume-after=60.5 "
            "-knob sampling-interval=100 -result-dir=/runs/rank3.node07.vtune -- ./app -x",
        ),
        (
            "vtune",
            {"set_name": "memory-access", "capture": "itt", "options": ("--finalization-mode=full",)},
            "vtune -collect=memory-access -strategy=ldconfig:notrace:notrace -start-paused "
            "--finalization-mode=full -result-dir=/runs/rank3.node07.vtune -- ./app -x",
        ),
        ("aps", {}, "aps --result-dir=/runs/rank3.node07.aps ./app -x"),
        (
            "aps",
            {"set_name": "mpi", "capture": "itt"},
            "aps --collection-mode=mpi --start-paused --result-dir=/runs/rank3.node07.aps ./app -x",
        ),
        (
            "rocprofv3",
            {"version": (1, 1, 0)},
            "rocprofv3 --runtime-trace --output-format=rocpd --output-directory=/runs "
            "--output-file=rank3.node07.%pid% -- ./app -x",
        ),
        (
            "rocprofv3",
            {"version": (), "set_name": "hip", "delay_s": 60.0, "duration_s": 2.5},
            "rocprofv3 --hip-trace --kernel-trace --memory-copy-trace --output-format=pftrace "
            "--collection-period=60:2.5:1 --output-directory=/runs "
            "--output-file=rank3.node07.%pid% -- ./app -x",
        ),
        (
            "rocprofv3",
            {"version": (1, 0, 0), "set_name": "kernel", "capture": "roctx", "options": ("-f", "json", "--stats")},
            "rocprofv3 --kernel-trace --memory-copy-trace --selected-regions -f json --stats "
            "--output-directory=/runs --output-file=rank3.node07.%pid% -- ./app -x",
        ),
        (
            "py-spy",
            {},
            "py-spy record --subprocesses --format=speedscope --output=/runs/rank3.node07.speedscope.json -- ./app -x",
        ),
        (
            "py-spy",
            {"set_name": "raw", "duration_s": 0.2, "options": ("--native", "-r", "10")},
            "py-spy record --subprocesses --format=raw --duration=1 --native -r 10 "
            "--output=/runs/rank3.node07.raw.txt -- ./app -x",
        ),
        (
            "perf",
            {"version": (5, 10), "delay_s": 1.5},
            "perf record --call-graph=fp --freq=99 --delay=1500 --output=/runs/rank3.node07.perf.data -- ./app -x",
        ),
        (
            "perf",
            {"version": (6, 1, 192), "delay_s": 60.0, "duration_s": 10.0, "options": ("-g", "-F", "999")},
            "perf record --delay=60000-70000 -g -F 999 --output=/runs/rank3.node07.perf.data -- ./app -x",
        ),
        (
            "perf",
            {"set_name": "stat", "delay_s": 1.0},
            "perf stat --delay=1000 --output=/runs/rank3.node07.perf.txt -- ./app -x",
        ),
        (
            "rocprofv3",
            {"version": (1, 0, 0), "set_name": "marker", "delay_s": 1.0},
            "rocprofv3 --marker-trace --kernel-trace --output-format=rocpd "
            "--collection-period=1:10000000:1 --output-directory=/runs "
            "--output-file=rank3.node07.%pid% -- ./app -x",
        ),
    ],
)
def test_command_line(name: str, asked: dict, line: str) -> None:
    assert typed(name, **asked) == line


def test_a_raw_result_of_vtune_is_finished_once(tmp_path: Path) -> None:
    finalize = TOOLS["vtune"].finalize
    assert finalize is not None
    assert finalize(tmp_path) == []
    (tmp_path / "data.0").mkdir()
    assert finalize(tmp_path) == ["-finalize", f"-result-dir={tmp_path}", "-search-dir=/"]
    (tmp_path / "sqlite-db").mkdir()
    assert finalize(tmp_path) == []


def header(data_size: int) -> bytes:
    """The start of a perf.data, as include/.../header.h of Linux has it."""
    return b"PERFILE2" + struct.pack("=6Q", 104, 144, 120, 144, 264, data_size) + bytes(48)


@pytest.mark.parametrize(
    ("tool", "name", "content", "lacks"),
    [
        ("perf", "a.perf.data", header(1056), ""),
        ("perf", "a.perf.data", header(0), "perf was ended before it had written all"),
        ("perf", "a.perf.data", b"", "it is empty"),
        ("perf", "a.perf.data", header(1)[:30], "it is not a perf.data file"),
        ("perf", "a.perf.txt", b" Performance counter stats", ""),
        ("py-spy", "a.speedscope.json", b'{"shared": {"frames": []}}\n', ""),
        ("py-spy", "a.speedscope.json", b'{"shared": {"frames": [', "it ends early"),
        ("py-spy", "a.speedscope.json", b"", "it is empty"),
        ("py-spy", "a.raw.txt", b"main;burn 80", ""),
        ("rocprofv3", "a.7_results.db", b"", "it is empty"),
        ("rocprofv3", "a.7_results.pftrace", b"x", ""),
    ],
)
def test_a_file_that_is_not_complete_is_known(tmp_path: Path, tool: str, name: str, content: bytes, lacks: str) -> None:
    (tmp_path / name).write_bytes(content)
    (kind,) = TOOLS[tool].written
    (found,) = kind.find(tmp_path / "a")
    assert kind.lacks(found, tool) == lacks
