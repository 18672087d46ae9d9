"""What a process of ours hears from the one that started it, and tells it."""

import json

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
