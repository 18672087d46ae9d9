"""Asks every question of one store in one process and says how long each took.

    python benchmarks/question_times.py STORE

Prints one JSON object: seconds to open the store, and for each question the first and the second time.
The first pays for reading Parquet pages and importing the question; the second is what a person who
goes on asking waits for.
"""

from __future__ import annotations

import json
import sys
import time

import stepscope
from stepscope.questions import names


def main() -> None:
    """Times the store named on the command line."""
    began = time.perf_counter()
    with stepscope.open(sys.argv[1]) as trace:
        opened = time.perf_counter() - began
        questions = []
        for name in names():
            seconds = []
            for _ in range(2):
                began = time.perf_counter()
                answer = trace.ask(name)
                seconds.append(time.perf_counter() - began)
            questions.append(
                {
                    "question": name,
                    "rows": len(answer),
                    "first_s": seconds[0],
                    "second_s": seconds[1],
                }
            )
    sys.stdout.write(json.dumps({"open_s": opened, "questions": questions}) + "\n")


if __name__ == "__main__":
    main()
