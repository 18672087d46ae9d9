"""What `perf stat` writes: counts, what perf makes of them, and counters that the machine does not have."""

from tests.formats.sampled.profiles import read_text

TEXT = """\
# started on Sun Nov 22 17:50:01 2026


 Performance counter stats for 'python train.py':

          1,274.86 msec task-clock                       #    0.995 CPUs utilized          
     4,000,000,000      cycles                           #    3.2 GHz                      
     6,000,000,000      instructions                     #    1.50  insn per cycle           (83.31%)
   <not supported>      branches                                                    

       0.276306710 seconds time elapsed

       0.270000000 seconds user
       0.010000000 seconds sys


"""  # noqa: W291  # perf writes it


def test_counts_and_what_is_made_of_them(tmp_path):
    name, tables = read_text(tmp_path, TEXT)
    assert name == "perf-stat"
    rows = tables.host_metric.to_pylist()
    assert [(row["metric"], row["value"], row["unit"], row["kind"]) for row in rows] == [
        ("task-clock", 1274.86, "msec", None), ("CPUs utilized", 0.995, None, "processors_used"),
        ("cycles", 4e9, None, None), ("GHz", 3.2, None, None), ("instructions", 6e9, None, None),
        ("insn per cycle", 1.5, None, "ipc"), ("branches", None, None, None),
        ("time elapsed", 0.27630671, "s", "elapsed"), ("user", 0.27, "s", "user_time"),
        ("sys", 0.01, "s", "system_time"),
    ]  # fmt: skip
    assert rows[6]["text"] == "<not supported>"
