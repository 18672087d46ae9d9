"""What a process and those below it take of the host."""

import json
import os
import shutil
import subprocess
import sys
import threading

from stepscope.record.hardware import process_tree
from stepscope.record.hardware.process_tree import ProcessTree

OWN_PROCESS = """
import json, subprocess, sys, threading
from stepscope.record.hardware.process_tree import ProcessTree

SPIN = "import time; end = time.process_time() + 0.2\\nwhile time.process_time() < end: pass"
tree = ProcessTree()
print(json.dumps(tree.figures()))
subprocess.run([sys.executable, "-c", SPIN], check=True)
print(json.dumps(tree.figures()))
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
stop = threading.Event()
threading.Thread(target=stop.wait).start()
print(json.dumps(tree.figures()))
stop.set()
child.communicate(b"\\n")
"""


def test_children_and_threads_are_seen_and_what_ended_ones_took_counts() -> None:
    """In a process of its own: that of the tests has children of others, who come and go."""
    ran = subprocess.run([sys.executable, "-c", OWN_PROCESS], check=True, timeout=60, capture_output=True)
    first, ended, living = map(json.loads, ran.stdout.splitlines())
    assert ended["user_ns"] + ended["system_ns"] >= 150_000_000
    assert ended["elapsed_ns"] >= 200_000_000
    assert ended["peak_memory_of_a_child_bytes"] > 1 << 20
    assert [one["processes"] for one in (first, ended, living)] == [1, 1, 2]
    assert [one["threads_alive"] for one in (first, ended, living)] == [1, 1, 2]
    assert living["processors"] > 0


def test_a_system_without_proc_has_no_figures(tmp_path) -> None:
    assert ProcessTree(tmp_path).figures() is None


def test_a_thread_has_the_name_that_python_gave_it(monkeypatch) -> None:
    """The system knows it by that of the process which started it."""
    monkeypatch.setattr(process_tree, "_MAX_THREADS", 10_000)  # of the tests' process, too
    tree, stop = ProcessTree(), threading.Event()
    thread = threading.Thread(target=stop.wait, name="loader of batches")
    thread.start()
    try:
        figures = tree.figures()
    finally:
        stop.set()
        thread.join()
    assert "loader of batches" in [name for name, _ in (figures or {})["threads"]]


TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")


def _process(proc, pid, *, cpu_ticks=0, waited_ticks=0, pages=0, read=0, children=""):
    """A process of one thread as the system describes it in `/proc`."""
    task = proc / pid / "task" / "1"
    task.mkdir(parents=True, exist_ok=True)
    (task / "children").write_text(children)
    (task / "schedstat").write_text(f"{cpu_ticks * TICK_NS} {waited_ticks * TICK_NS} 9\n")
    stat = [0] * 22
    stat[11], stat[13], stat[21] = cpu_ticks, waited_ticks, pages
    for described in (proc / pid, task):
        (described / "stat").write_text(f"1 (a (b) c) {' '.join(map(str, stat))}")
    (proc / pid / "io").write_text(f"rchar: 9\nread_bytes: {read}\nwrite_bytes: 0\n")


def test_what_was_taken_before_does_not_count(tmp_path) -> None:
    """Importing torch above all, of the process, of those below it, and of the threads."""
    _process(tmp_path, "self", cpu_ticks=500, waited_ticks=70, read=4000, children="7")
    _process(tmp_path, "7", cpu_ticks=3000, read=80)
    tree = ProcessTree(tmp_path)
    _process(tmp_path, "self", cpu_ticks=512, waited_ticks=73, read=4005, children="7")
    _process(tmp_path, "7", cpu_ticks=3001, read=80)
    figures = tree.figures()
    assert figures is not None
    assert (figures["user_ns"], figures["read_bytes"]) == (16 * TICK_NS, 5)
    assert [ns for _, ns in figures["threads"]] == [12 * TICK_NS]
    assert (figures["ran_ns"], figures["waited_ns"]) == (12 * TICK_NS, 3 * TICK_NS)


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
    assert first is not None
    assert second is not None
    assert third is not None
    assert (second.cpu_ns - first.cpu_ns, second.read_bytes - first.read_bytes) == (10 * TICK_NS, 4)
    assert second.resident_bytes == 13 * os.sysconf("SC_PAGE_SIZE")
    assert third.cpu_ns - second.cpu_ns == 40 * TICK_NS
