"""Makes a Kineto trace of any size, from a real trace's shape or a built-in one, or the traces of a simulated job.

    python benchmarks/generate_trace.py --shape builtin --size 500MB -o big.json
    python benchmarks/generate_trace.py --shape job --ranks 64 --hosts 8 --size 200MB -o folder
    python benchmarks/generate_trace.py --from trace.json.gz --size 2GB --mark-steps -o big.json
    python benchmarks/generate_trace.py --from trace.json --steps 20 --gzip -o big.json.gz

Sizes are of the uncompressed text, in powers of ten; the trace ends with the first complete copy at or above the size.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from builtin_shape import builtin_trace
from repeat_events import GAP_US, Template, make_template, mark_as_step, split_recording

ROOT = Path(__file__).resolve().parents[1]
UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True)
class Generated:
    """The result: bytes of text, events and training steps."""

    size_bytes: int
    events: int
    steps: int


def size_in_bytes(text: str) -> int:
    """`500MB` → 500 000 000."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]B)?", text.strip().upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 500MB or 2GB")
    return int(float(match[1]) * UNITS[match[2] or ""])


def write_trace(template: Template, out: BinaryIO, *, size_bytes: int = 0, steps: int = 0) -> Generated:
    """Writes copies until the text has the requested size and steps; at least one copy."""
    recording = template.recording
    written = out.write((recording.head + recording.separator.join(recording.once)).encode())
    copies = 0
    for copy in template.copies():
        if copies == 0 and not recording.once:
            copy = copy[len(recording.separator) :]
        written += out.write(copy)
        copies += 1
        if written >= size_bytes and copies * template.steps >= steps:
            break
    closing = template.closing(copies)
    ending = "".join(recording.separator + raw for raw in closing) + recording.tail
    written += out.write(ending.encode())
    events = copies * template.events + len(recording.once) + len(closing)
    return Generated(written, events, copies * template.steps)


def generate(
    shape: Path | None, target: Path, *, size_bytes: int = 0, steps: int = 0, mark: bool = False, gzipped: bool = False
) -> Generated:
    """Reads the shape (None for the built-in one) and writes the trace to `target`."""
    recording = split_recording(builtin_trace() if shape is None else read_text(shape))
    if mark:
        mark_as_step(recording)
    template = make_template(recording)
    opened: Callable[[Path], BinaryIO] = open_gzip if gzipped else (lambda path: path.open("wb"))
    with opened(target) as out:
        return write_trace(template, out, size_bytes=size_bytes, steps=steps)


def generate_job(folder: Path, *, ranks: int, hosts: int, size_bytes: int) -> Generated:
    """Writes the traces of a simulated job, each of at least the size; all ranks repeat at the same moments."""
    sys.path.insert(0, str(ROOT))
    from tests.simulated_job import START_NS, Job, simulate

    simulated = simulate(Job(ranks=ranks, hosts=hosts, layers=12))
    period_us = (max(simulated.moments.at) - START_NS) // 1000 + GAP_US
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for rank in range(ranks):
        template = make_template(split_recording(simulated.text(rank)), period_us)
        with (folder / simulated.file_name(rank)).open("wb") as out:
            made.append(write_trace(template, out, size_bytes=size_bytes))
    return Generated(sum(one.size_bytes for one in made), sum(one.events for one in made), made[0].steps)


def read_text(path: Path) -> str:
    """The trace's text; gzip is recognised by its first bytes."""
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")


def open_gzip(path: Path) -> BinaryIO:
    """Opens a gzip file for writing, fast rather than small."""
    from isal import igzip

    return cast("BinaryIO", igzip.open(path, "wb", compresslevel=1))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--from", dest="source", type=Path, metavar="TRACE", help="a Kineto trace to repeat")
    source.add_argument(
        "--shape", choices=["builtin", "job"], help="a made-up training recording, or those of a simulated job"
    )
    parser.add_argument("--ranks", type=int, default=8, help="ranks of the simulated job")
    parser.add_argument("--hosts", type=int, default=1, help="and how many hosts they run on")
    parser.add_argument("--size", type=size_in_bytes, default=0, help="at least this much text: 500MB, 2GB")
    parser.add_argument("--steps", type=int, default=0, help="at least this many steps")
    parser.add_argument("--mark-steps", action="store_true", help="make each copy a step where the trace has none")
    parser.add_argument("--gzip", action="store_true", help="compress the output")
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    began = time.perf_counter()
    made = (
        generate_job(asked.output, ranks=asked.ranks, hosts=asked.hosts, size_bytes=asked.size)
        if asked.shape == "job"
        else generate(
            asked.source,
            asked.output,
            size_bytes=asked.size,
            steps=asked.steps,
            mark=asked.mark_steps,
            gzipped=asked.gzip,
        )
    )
    seconds = time.perf_counter() - began
    sys.stdout.write(
        f"{asked.output}: {made.size_bytes / 1e6:.0f} MB of text, {made.events} events, "
        f"{made.steps} steps, in {seconds:.1f} s\n"
    )


if __name__ == "__main__":
    main()
