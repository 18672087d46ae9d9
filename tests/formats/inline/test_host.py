"""What the recorder measured of its process, as metrics of the host."""

import json

import pytest
from tests.formats.sampled.profiles import read_text

from stepscope.base.errors import SourceError

HOST = {
    "elapsed_ns": 10 * 10**9, "processor": "Model 9", "processors": 4.0, "user_ns": 15 * 10**9,
    "system_ns": 10**9, "read_bytes": 2_000_000, "written_bytes": 0, "major_faults": 3, "involuntary_switches": 7,
    "processes": 2, "threads_alive": 3, "threads": [["python", 8 * 10**9], ["worker", 4 * 10**9], ["idle", 10]],
    "ran_ns": 9 * 10**9, "waited_ns": 10**9, "peak_memory_bytes": 500_000_000,
    "peak_memory_of_a_child_bytes": None,
}  # fmt: skip


def document(host):
    about = {"rank": 3, "world_size": 4, "host_name": "n1", "pid": 7}
    return json.dumps({"format": "stepscope.host", "version": 1, **about, "host": host})


def test_figures_of_a_process_are_metrics(tmp_path):
    name, tables = read_text(tmp_path, document(HOST), "n1.3.host.json")
    assert (name, tables.facts.rank, tables.facts.host) == ("host", 3, "n1")
    rows = tables.host_metric.to_pylist()
    values = {row["kind"]: row["value"] for row in rows if row["subject"] is None}
    assert values == {
        "processor": None, "elapsed": 10.0, "processors": 4.0, "user_time": 15.0, "system_time": 1.0,
        "processors_used": 1.6, "cpu_utilization": 40.0, "processes": 2.0, "threads_alive": 3.0,
        "major_faults": 3.0, "involuntary_switches": 7.0, "peak_memory": 500.0, "read": 2.0, "written": 0.0,
        "run_queue_wait": 10.0, "busy_threads": 2.0, "thread_imbalance": 25.0,
    }  # fmt: skip
    threads = [(row["subject"], row["value"]) for row in rows if row["subject_kind"] == "Thread"]
    assert threads == [("python", 8.0), ("worker", 4.0), ("idle", 1e-08)]


@pytest.mark.parametrize("host", [None, [], {}, {"elapsed_ns": -1, "threads": [["a"], 3]}])
def test_a_file_without_figures_says_so(tmp_path, host):
    with pytest.raises(SourceError, match="nothing was measured"):
        read_text(tmp_path, document(host))
