"""Makes a memory snapshot of any size by repeating the events of a real one.

    python benchmarks/repeat_snapshot.py --from step.pickle --size 1GB -o big.pickle

The events of the first device are repeated with the same times, as pickled: each repetition has its own lists of call
stacks, so that the file is as hard to read as a real one of its size.
"""

from __future__ import annotations

import argparse
import gzip
import pickletools
from pathlib import Path

from generate_trace import size_in_bytes


def parts_of(data: bytes) -> tuple[bytes, bytes]:
    """Splits a pickle, without the frames that group its bytes, into the first device's events and what precedes them.

    Args:
        data: a snapshot of one device, pickled with protocol 4.
    """
    operations = list(pickletools.genops(data))
    ends = [place for _, _, place in operations[1:]] + [len(data)]
    named = next(at for at, (_, value, _) in enumerate(operations) if value == "device_traces")
    # The list of devices and the first device's own, each with its memoize operation.
    first = next(at for at in range(named, len(operations)) if operations[at][0].name == "MARK")
    last, opened = first, 0
    while opened or operations[last][0].name in ("MARK", "FRAME"):
        name = operations[last][0].name
        opened += (name == "MARK") - (name in ("APPENDS", "SETITEMS", "TUPLE"))
        last += 1

    def bytes_of(start: int, end: int) -> bytes:
        return b"".join(
            data[operations[at][2] : ends[at]] for at in range(start, end) if operations[at][0].name != "FRAME"
        )

    return bytes_of(0, first), bytes_of(first, last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="source", type=Path, required=True)
    parser.add_argument("--size", type=size_in_bytes, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    data = asked.source.read_bytes()
    before, events = parts_of(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    with asked.output.open("wb") as output:
        output.write(before)
        for _ in range(max(1, (asked.size - len(before)) // len(events))):
            output.write(events)
        # Appends that list to the one of all devices, that to the snapshot, and ends.
        output.write(b"au.")


if __name__ == "__main__":
    main()
