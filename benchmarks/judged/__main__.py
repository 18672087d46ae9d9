"""Scores a range of seeds, several at once."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks import judged
from benchmarks.judged.score import score, table


def main() -> int:
    parser = argparse.ArgumentParser(description=judged.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-1999", help="the first and the last seed, such as 0-1999")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once")
    parser.add_argument("--json", type=Path, help="where to write what was said of each seed, a line each")
    asked = parser.parse_args()
    first, last = map(int, asked.seeds.split("-"))
    seeds = range(first, last + 1)
    outcomes = []
    with multiprocessing.get_context("spawn").Pool(asked.jobs) as pool:
        for number, outcome in enumerate(pool.imap_unordered(score, seeds), 1):
            outcomes.append(outcome)
            if sys.stderr.isatty():
                print(f"\r{number}/{len(seeds)}", end="", file=sys.stderr, flush=True)
    if asked.json is not None:
        lines = [json.dumps(asdict(one)) for one in sorted(outcomes, key=lambda one: one.seed)]
        asked.json.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(table(outcomes))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
