"""SIGTERM and `os._exit`: what was measured is saved, and the process ends as it would have ended without us."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import python

START = """
import os, signal, sys, threading, time
from pathlib import Path
from stepscope.record.job.exit_reason import exit_reason
from stepscope.record.job import at_end
AtEnd = at_end.AtEnd
out = Path(sys.argv[1])
save = lambda: (out / "saved").write_text(str(os.getpid()))
"""
READY = """
print("ready", flush=True)
"""
WAIT = "for _ in range(600): time.sleep(0.1)\n"


def _terminated(tmp_path: Path, code: str) -> tuple[int, str, bool]:
    """Exit status, further output, and whether it was saved, of code that gets SIGTERM once it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", START + code, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    try:
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, output, (tmp_path / "saved").exists()


def _left(tmp_path: Path, code: str) -> tuple[int, str, str]:
    """How a process ends that ends by itself, and what it prints."""
    done = python("-c", START + code, str(tmp_path))
    return done.returncode, done.stdout, done.stderr


def test_a_job_without_a_handler_ends_by_the_signal_after_saving(tmp_path: Path) -> None:
    code = "AtEnd(save=lambda: (save(), print(exit_reason())))" + READY + WAIT
    assert _terminated(tmp_path, code) == (-signal.SIGTERM, "{'signal': 'SIGTERM'}\n", True)


def test_a_jobs_own_handler_runs_after_saving(tmp_path: Path) -> None:
    code = (
        "signal.signal(signal.SIGTERM, lambda *_: (print((out / 'saved').exists()), sys.exit(3)))\n"
        "AtEnd(save=lambda: (save(), print(exit_reason())))" + READY + WAIT
    )
    # It decides whether the job ends.
    assert _terminated(tmp_path, code) == (3, "None\nTrue\n", True)


def test_a_handler_around_ours_decides_whether_the_job_goes_on(tmp_path: Path) -> None:
    """As Lightning does, which finishes its step and leaves by itself."""
    code = (
        "AtEnd(save=save)\n"
        "ours = signal.getsignal(signal.SIGTERM)\n"
        "asked = threading.Event()\n"
        "signal.signal(signal.SIGTERM, lambda *a: (asked.set(), ours(*a)))"
        + READY
        + "while not asked.is_set(): time.sleep(0.05)\ntime.sleep(0.2)\nprint('left by itself')\n"
    )
    assert _terminated(tmp_path, code) == (0, "left by itself\n", True)


def test_what_the_job_puts_in_our_place_is_left_alone_and_the_data_is_saved(tmp_path: Path) -> None:
    code = (
        "AtEnd(save=save)\n"
        "asked = threading.Event()\n"
        "signal.signal(signal.SIGTERM, lambda *_: asked.set())" + READY + "asked.wait(30)\n"
        "for _ in range(100):\n"
        "    if (out / 'saved').exists(): break\n"
        "    time.sleep(0.05)\n"
        "print('done')\n"
    )
    assert _terminated(tmp_path, code) == (0, "done\n", True)


def test_a_job_that_takes_no_signals_is_ended_all_the_same(tmp_path: Path) -> None:
    """One that waits in C, as in a collective whose other ranks are gone."""
    code = (
        "import ctypes\n"
        "at_end.PATIENCE_SECONDS = 0.3\n"
        "AtEnd(save=save)\n"
        "mutex, lock = ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock\n"
        "threading.Timer(1, lambda: print('ready', flush=True)).start()\n"
        "lock(mutex); lock(mutex)\n"
    )
    assert _terminated(tmp_path, code) == (-signal.SIGTERM, "", True)


def test_saving_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    code = "at_end.PATIENCE_SECONDS = 0.2\nAtEnd(save=lambda: time.sleep(100))" + READY + WAIT
    assert _terminated(tmp_path, code)[0] == -signal.SIGTERM


def test_threads_that_wait_for_the_interpreter_have_it_before_python_ends(tmp_path: Path) -> None:
    """Inside torch they would abort the process; here the main thread gives the interpreter to nobody by itself."""
    code = (
        "import atexit\n"
        "at_end._PASS_SECONDS, done, ends = 1, [], threading.Event()\n"
        "sys.setswitchinterval(1000)\n"
        "atexit.register(lambda: print(done))\n"  # the last of all handlers
        "AtEnd(stop=ends.set)\n"
        "threading.Thread(target=lambda: (ends.wait(), done.append('passed')), daemon=True).start()\n"
    )
    assert _left(tmp_path, code) == (0, "['passed']\n", "")


def test_a_forked_child_ends_as_without_us(tmp_path: Path) -> None:
    code = (
        "AtEnd(save=save)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    while True: time.sleep(1)\n"
        "time.sleep(0.2)\n"
        "os.kill(child, signal.SIGTERM)\n"
        "print(os.WTERMSIG(os.waitpid(child, 0)[1]), (out / 'saved').exists())\n"
    )
    assert _left(tmp_path, code) == (0, f"{signal.SIGTERM.value} False\n", "")


def test_a_signal_to_a_child_that_was_only_just_forked_is_the_childs_alone(tmp_path: Path) -> None:
    """It arrives before the child has left the recording, as of `Process.start` and `terminate` at once."""
    code = (
        "at_end.PATIENCE_SECONDS = 0.1\n"
        # Hooks run in the order in which they were added: this one before ours.
        "os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
        "AtEnd(save=save)\n"
        "child = os.fork()\n"
        "if not child: time.sleep(30)\n"
        "print(os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)\n"
        "time.sleep(0.4)\n"
        "print((out / 'saved').exists(), signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
    )
    assert _left(tmp_path, code) == (0, f"{signal.SIGTERM.value}\nFalse set()\n", "")


def test_a_signal_to_a_child_that_c_forked_ends_no_parent(tmp_path: Path) -> None:
    """Python's hooks around a fork are not called there; the child has our handler and our socket."""
    code = (
        "import ctypes\n"
        "at_end.PATIENCE_SECONDS = 0.1\n"
        "AtEnd(save=save)\n"
        "c = ctypes.PyDLL(None)\n"
        "child = c.fork()\n"
        "if not child: c['raise'](15); c._exit(0)\n"
        "os.waitpid(child, 0); time.sleep(0.4)\n"
        "print('went on')\n"
    )
    assert _left(tmp_path, code) == (0, "went on\n", "")


@pytest.mark.parametrize("handler", ["signal.SIG_DFL", "signal.SIG_IGN", "print"])
def test_nothing_of_ours_stays_when_the_recording_is_over(tmp_path: Path, handler: str) -> None:
    code = (
        f"signal.signal(signal.SIGTERM, {handler})\n"
        "before = signal.getsignal(signal.SIGTERM), len(os.listdir('/proc/self/fd'))\n"
        "one, other = AtEnd(save=save), AtEnd(save=print)\n"
        "one.cancel(); other.cancel()\n"
        "time.sleep(0.2)\n"
        "print(before == (signal.getsignal(signal.SIGTERM), len(os.listdir('/proc/self/fd'))),\n"
        "    signal.set_wakeup_fd(-1), threading.active_count())\n"
    )
    assert _left(tmp_path, code) == (0, "True -1 1\n", "")


def test_numbers_of_ours_that_a_job_has_closed_are_the_jobs_own(tmp_path: Path) -> None:
    """As daemons do, which close all numbers that they may have inherited."""
    code = (
        "one = AtEnd(save=save)\n"
        "os.closerange(3, 64)\n"
        "files = [open(os.devnull) for _ in range(32)]\n"
        "one.cancel()\n"
        "time.sleep(0.2)\n"
        "print([os.fstat(file.fileno()).st_size for file in files] == [0] * 32)\n"
    )
    assert _left(tmp_path, code) == (0, "True\n", "")


def test_a_signal_writes_nothing_into_a_file_that_has_a_number_of_ours(tmp_path: Path) -> None:
    code = (
        "AtEnd(save=save)\n"
        "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "os.closerange(3, 64)\n"
        "files = [open(out / str(number), 'w') for number in range(64)]\n"
        "signal.raise_signal(signal.SIGUSR1)\n"
        "time.sleep(0.1)\n"
        "print(sum(os.fstat(file.fileno()).st_size for file in files), flush=True)\n"
        "os._exit(0)\n"
    )
    assert _left(tmp_path, code) == (0, "0\n", "")


def test_a_job_that_has_few_numbers_for_files_keeps_them_and_its_signals(tmp_path: Path) -> None:
    code = (
        "import fcntl\n"
        "def refused(*_): raise OSError(24, 'Too many open files')\n"
        "fcntl.fcntl = refused\n"
        "AtEnd(save=save)\n"
        "assert signal.set_wakeup_fd(-1) == -1\n"
    )
    assert _terminated(tmp_path, code + READY + WAIT) == (-signal.SIGTERM, "", True)


def test_a_signal_ends_a_job_that_can_start_no_thread(tmp_path: Path) -> None:
    code = (
        "AtEnd(save=save)\n"
        'def start(_): raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = start\n"
    )
    assert _terminated(tmp_path, code + READY + WAIT) == (-signal.SIGTERM, "", False)


def test_where_no_thread_can_be_started_nothing_raises_and_who_leaves_has_saved(tmp_path: Path) -> None:
    """From Python 3.12 on that is so in every exit handler."""
    code = (
        'def start(_): raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = start\n"
        "AtEnd(save=save)\n"
        "assert signal.set_wakeup_fd(-1) == -1\n"
        "os._exit(7)\n"
    )
    assert _left(tmp_path, code) == (7, "", "")
    assert (tmp_path / "saved").exists()


def test_a_job_that_leaves_past_its_exit_handlers_has_saved_before(tmp_path: Path) -> None:
    """As jobs do whose communication threads would hang; from any thread, and once."""
    code = (
        "before = os._exit\n"
        "reason = lambda: print(exit_reason(), flush=True)\n"
        "here = lambda: print(threading.current_thread() is leaving, (out / 'saved').exists(), flush=True)\n"
        "one, other = AtEnd(save=save, leave=here), AtEnd(save=reason)\n"
        "leaving = threading.Thread(target=lambda: os._exit(7)); leaving.start(); leaving.join()\n"
    )
    assert _left(tmp_path, code) == (7, "True False\n{'exit_code': 7}\n", "")
    assert (tmp_path / "saved").exists()


def test_a_job_that_becomes_another_program_has_saved_before_and_a_child_becomes_one_as_without_us(
    tmp_path: Path,
) -> None:
    """As jobs do that start themselves again."""
    code = (
        "one = AtEnd(save=save)\n"
        "shell = lambda: os.execlp('sh', 'sh', '-c', 'test ! -e $0/saved; echo $?; exit 7', str(out))\n"
        "child = os.fork()\n"
        "if not child: shell()\n"
        "os.waitpid(child, 0)\n"
        "shell()\n"
    )
    assert _left(tmp_path, code) == (7, "0\n1\n", "")


def test_a_report_comes_after_all_is_saved_and_not_before_the_process_leaves(tmp_path: Path) -> None:
    code = (
        "one = AtEnd(report=lambda: print((out / 'saved').exists(), flush=True))\n"
        "gone = AtEnd(report=lambda: print('cancelled', flush=True)); gone.cancel()\n"
        "other = AtEnd(save=save)\n"
        "os._exit(7)\n"
    )
    assert _left(tmp_path, code) == (7, "True\n", "")


def test_a_forked_child_leaves_as_without_us(tmp_path: Path) -> None:
    """Workers of a DataLoader end so, and so does every process that multiprocessing forks."""
    code = (
        "before = os._exit\n"
        "one = AtEnd(save=save)\n"
        "child = os.fork()\n"
        "if not child: os._exit(3 if os._exit is before else 4)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), (out / 'saved').exists())\n"
        "one.cancel()\n"
        "print(os._exit is before)\n"
    )
    assert _left(tmp_path, code) == (0, "3 False\nTrue\n", "")
