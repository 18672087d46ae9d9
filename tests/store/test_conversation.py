"""What a process of ours hears from the one that started it, and tells it."""

import json
import os
import signal
import subprocess
import sys

from tests.processes import python

CONVERSATION = """
import os, subprocess
from stepscope.store.worker_process import conversation

asked, tell = conversation()
for line in asked:
    subprocess.run("echo from a program; cat", shell=True)
    os.write(1, b"from a library")
    print("from a plug-in", flush=True)
    tell(heard=line.strip())
"""


def test_what_others_print_and_read_is_no_part_of_the_conversation():
    told = python("-c", CONVERSATION, input="1\n2\n")
    assert [json.loads(line) for line in told.stdout.splitlines()] == [{"heard": "1"}, {"heard": "2"}]
    assert told.stderr.count("from a") == 6


BUSY = """
import sys, time
from stepscope.store.worker_process import conversation

asked, tell = conversation()
next(asked)
tell(busy=True)
time.sleep(600)
"""
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {BUSY!r}], stdin=subprocess.PIPE)
child.stdin.write(b"work\\n")
child.stdin.flush()
child.wait()
"""


def test_a_process_at_work_ends_when_the_one_that_started_it_is_killed():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert json.loads(parent.stdout.readline()) == {"busy": True}
        os.kill(parent.pid, signal.SIGKILL)
        assert parent.stdout.read() == b""  # its end: the child has the pipe as long as it runs
