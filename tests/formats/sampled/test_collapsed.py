"""Collapsed stacks of py-spy and of FlameGraph's scripts, and text that is none."""

import pytest
from tests.formats.sampled.profiles import read_text, stacks

from stepscope.formats.sampled.collapsed import looks_like

PY_SPY = """\
process 31993:"/usr/bin/python train.py";thread (7): helper;run (threading.py:982);cool (train.py:9) 2
process 31993:"/usr/bin/python train.py";thread (5): MainThread;<module> (train.py:11);malloc (libc.so.6) 17
"""


def test_a_line_of_py_spy_names_process_thread_and_frames(tmp_path):
    name, tables = read_text(tmp_path, PY_SPY)
    assert name == "collapsed"
    assert stacks(tables) == [
        ("helper", "train.py(9): cool;threading.py(982): run", 2, None),
        ("MainThread", "libc.so.6!malloc;train.py(11): <module>", 17, None),
    ]
    assert tables.facts.pid == 31993
    assert tables.stack_sample["clock"].to_pylist() == ["running"] * 2


def test_what_other_scripts_write_has_no_clock_and_no_thread(tmp_path):
    name, tables = read_text(tmp_path, "python;main;a::b<int>::f(int, char) 3\npython;main 4\n")
    assert name == "collapsed"
    assert stacks(tables) == [(None, "a::b<int>::f(int, char);main;python", 3, None), (None, "main;python", 4, None)]
    assert tables.stack_sample["clock"].to_pylist() == [None] * 2


def test_a_line_that_breaks_off_is_counted_and_costs_no_other(tmp_path):
    lines = "a;b 1\n" * 12000 + "a;b"
    _, tables = read_text(tmp_path, lines)
    assert stacks(tables) == [(None, "b;a", 12000, None)]
    assert (tables.report.damage, tables.report.dropped) == ({"unreadable": 1}, 1)


def test_a_damaged_line_of_a_short_file_is_counted_and_the_rest_is_read(tmp_path):
    name, tables = read_text(tmp_path, "a;b 1\nthread 0x7f (idl\na;c 2\n")
    assert name == "collapsed"
    assert stacks(tables) == [(None, "b;a", 1, None), (None, "c;a", 2, None)]
    assert (tables.report.damage, tables.report.dropped) == ({"unreadable": 1}, 1)


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1\nepoch 2\n", "loss; 3.5 at step 4\nsaved; 5\n", "see a;b for the second run\n", "x;y 1\n\n# end\n",
        "", "a;b 1\0", "a;b 1\n# made by hand\n# twice\na;b 2\n", '{"a": 1; 2\n',
    ],
)  # fmt: skip
def test_other_text_is_none(text):
    assert not looks_like(text.encode())
