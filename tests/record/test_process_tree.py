"""What a process and those below it take of the host."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from stepscope.record.process_tree import ProcessTree

SPIN = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"


def test_processor_time_of_children_counts_when_they_have_ended() -> None:
    tree = ProcessTree()
    before = (tree.figures() or {})["processes"]  # tests of this process may have left some
    subprocess.run([sys.executable, "-c", SPIN], check=True, timeout=60)
    figures = tree.figures()
    assert figures is not None
    assert figures["user_ns"] + figures["system_ns"] >= 150_000_000
    assert figures["elapsed_ns"] >= 200_000_000
    assert figures["processes"] == before
    assert figures["peak_memory_of_a_child_bytes"] > 1 << 20


def test_living_children_and_threads_are_seen() -> None:
    tree = ProcessTree()
    before = (tree.figures() or {})["processes"]
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        figures = tree.figures()
    finally:
        stop.set()
        thread.join()
        child.communicate(b"\n", timeout=60)
    assert figures is not None
    assert figures["processes"] == before + 1
    assert figures["threads_alive"] >= 2
    assert figures["processors"] > 0


def test_what_was_taken_before_does_not_count() -> None:
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    figures = ProcessTree().figures()
    assert figures is not None
    assert figures["user_ns"] + figures["system_ns"] <= 60_000_000


def test_a_system_without_proc_has_no_figures(tmp_path) -> None:
    assert ProcessTree(tmp_path).figures() is None


def test_threads_count_from_the_start_of_the_recording() -> None:
    """What the process did before, importing torch above all, is none of the run's."""
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    figures = ProcessTree().figures()
    assert figures is not None
    assert sum(ns for _, ns in figures["threads"]) < 100_000_000
    assert (figures["ran_ns"] or 0) < 100_000_000
