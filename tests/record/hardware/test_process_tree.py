"""What a process and those below it take of the host."""

import os
import shutil
import subprocess
import sys
import threading
import time

from stepscope.record.hardware import process_tree
from stepscope.record.hardware.process_tree import ProcessTree

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


def test_a_thread_has_the_name_that_python_gave_it(monkeypatch) -> None:
    """The system knows it by that of the process which started it."""
    monkeypatch.setattr(process_tree, "_MOST_THREADS", 10_000)  # of the tests' process, too
    tree, stop = ProcessTree(), threading.Event()
    thread = threading.Thread(target=stop.wait, name="loader of batches")
    thread.start()
    try:
        figures = tree.figures()
    finally:
        stop.set()
        thread.join()
    assert "loader of batches" in [name for name, _ in (figures or {})["threads"]]


def _process(proc, pid, *, cpu_ticks=0, waited_ticks=0, pages=0, read=0, children=""):
    """A process as the system describes it in `/proc`."""
    task = proc / pid / "task" / "1"
    task.mkdir(parents=True, exist_ok=True)
    (task / "children").write_text(children)
    stat = [0] * 22
    stat[11], stat[13], stat[21] = cpu_ticks, waited_ticks, pages
    (proc / pid / "stat").write_text(f"1 (a (b) c) {' '.join(map(str, stat))}")
    (proc / pid / "io").write_text(f"rchar: 9\nread_bytes: {read}\nwrite_bytes: 0\n")


def test_what_a_child_took_before_it_was_seen_is_not_of_the_moment_in_which_it_is(tmp_path) -> None:
    """And when it ends, and its time becomes its parent's, nothing is counted twice."""
    _process(tmp_path, "self", cpu_ticks=100, pages=10, read=5)
    tree = ProcessTree(tmp_path)
    first = tree.use()
    _process(tmp_path, "7", cpu_ticks=5000, pages=3)
    _process(tmp_path, "self", cpu_ticks=110, pages=10, read=9, children="7")
    tree._looks = 0  # looks for children again
    second = tree.use()
    _process(tmp_path, "self", cpu_ticks=120, waited_ticks=5030, pages=10, read=9)
    shutil.rmtree(tmp_path / "7")
    third = tree.use()
    tick = 10**9 // os.sysconf("SC_CLK_TCK")
    assert first is not None
    assert second is not None
    assert third is not None
    assert (second.cpu_ns - first.cpu_ns, second.read_bytes - first.read_bytes) == (10 * tick, 4)
    assert second.resident_bytes == 13 * os.sysconf("SC_PAGE_SIZE")
    assert third.cpu_ns - second.cpu_ns == 40 * tick
