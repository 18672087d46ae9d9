import os
import signal
import threading

import pytest
from tests.literal import literal_store
from tests.processes import python

from stepscope.store.interrupt import interruptible

ENDLESS = "SELECT count(*) FROM range(3000000000) AS a, range(1000) AS b WHERE hash(a.range) = b.range"


def test_the_result_and_the_error_of_the_work_come_through():
    with literal_store({}) as store:
        cursor = store.cursor()
        assert interruptible(cursor, lambda: 3) == 3
        with pytest.raises(ZeroDivisionError):
            interruptible(cursor, lambda: 1 // 0)
        cursor.close()


def test_outside_the_main_thread_it_is_simply_done():
    seen: list[bool] = []

    def ask() -> None:
        with literal_store({}) as store:
            thread = threading.current_thread()
            interruptible(store.cursor(), lambda: seen.append(threading.current_thread() is thread))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert seen == [True]


def test_an_interrupted_query_ends_and_the_store_stays_usable():
    with literal_store({}) as store:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            store.sql(ENDLESS)
        timer.join()
        assert store.sql("SELECT 1 AS n").to_pylist() == [{"n": 1}]


def test_an_interrupted_command_ends_with_130_and_one_line(tmp_path):
    code = (
        "import os, signal, sys, threading\n"
        "from stepscope.cli import main as m\n"
        "from tests.literal import literal_store\n"
        "def run(_):\n"
        "    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        f"    with literal_store({{}}) as store: store.sql({ENDLESS!r})\n"
        "m._run = run\n"
        "sys.exit(m.main([]))"
    )
    done = python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stepscope: interrupted\n")
