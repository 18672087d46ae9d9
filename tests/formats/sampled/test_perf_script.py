"""Samples as `perf script` prints them."""

from tests.formats.sampled.profiles import read_text, stacks

TEXT = (
    "python 32082 46136.018521:   10101010 cpu-clock: \n"
    "\t           fa8f6 lookup+0x66 (/usr/lib/libpython3.11.so.1.0)\n"
    "\t    7fd4ad5329c0 [unknown] ([unknown])\n"
    "\n"
    "pt main 7/32084 [003] 46136.044077:   10101010 cpu-clock:\n"
    "\t          101948 operator()(int) (/usr/bin/a (deleted))\n"
    "\t          101948 a::f+0x1 (/usr/lib/liba.so)\n"
    "\n"
)


def test_samples_with_their_threads_and_periods(tmp_path):
    name, tables = read_text(tmp_path, TEXT)
    assert name == "perf-script"
    assert stacks(tables) == [
        ("python", "libpython3.11.so.1.0!lookup;[unknown]", 1, 10101010),
        ("pt main", "a!operator()(int);liba.so!a::f", 1, 10101010),
    ]
    assert tables.stack_sample["clock"].to_pylist() == ["cpu"] * 2


def test_cycles_are_no_time(tmp_path):
    _, tables = read_text(tmp_path, TEXT.replace("cpu-clock", "cycles:u"))
    (first, _) = tables.stack_sample.to_pylist()
    assert (first["sampled_ns"], first["cycles"]) == (None, 10101010)


def test_a_stack_whose_head_is_lost_is_counted_and_belongs_to_no_other_sample(tmp_path):
    _, tables = read_text(tmp_path, TEXT + "\t 1f alone+0x1 (/bin/a)\n\t 1f main (/bin/a)\n\n" + TEXT)
    assert stacks(tables) == [
        ("python", "libpython3.11.so.1.0!lookup;[unknown]", 2, 20202020),
        ("pt main", "a!operator()(int);liba.so!a::f", 2, 20202020),
    ]
    assert (tables.report.damage, tables.report.dropped) == ({"unreadable": 1}, 1)
