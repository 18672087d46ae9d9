"""Summaries of APS: levels, values, shares, advice, and text that is none."""

import pytest
from tests.formats.sampled.profiles import read_text

import stepscope
from stepscope.base.errors import SourceError
from stepscope.bundled.aps import looks_like

TEXT = """\
| Summary information
|--------------------------------------------------------------------
  Application                   : train
  Number of ranks               : 48
  Report creation date          : 2025-05-19 00:39:10
|
| Your application might underutilize the cores.
|
  Elapsed Time:                             867.22 s
  MPI Time:                                 153.27 s            17.68% of Elapsed Time
| Your application is MPI bound.
| This may be caused by waiting.
    MPI Imbalance:                            N/A*
    Top 5 MPI functions (avg time):
        MPI_Waitall:                        103.02 s            11.89% of Elapsed Time
  Average Physical Core Utilization:        110.96 out of 208 Physical Cores
  Memory Stalls:                             62.90% of Pipeline Slots
    DRAM Bandwidth
       Peak:                                426.75 GB/s
 Disk I/O Bound:                              0.94 s             0.11% of Elapsed Time
 Memory Footprint:
 Resident:
       Per node:
           Peak resident set size    :         8944.00 MB (node x4013c2s1b0n0)
       Per rank:
           Peak resident set size    :          906.00 MB (rank 24)

Graphical representation of this data is available in the HTML report: /a/b.html
"""


def found(tables, *columns):
    return [tuple(row[name] for name in columns) for row in tables.host_metric.to_pylist()]


def test_metrics_keep_their_place_value_share_and_text(tmp_path):
    name, tables = read_text(tmp_path, TEXT)
    assert name == "aps"
    assert found(tables, "metric", "kind", "value", "unit", "share_ratio", "share_of", "text") == [
        ("Application", None, None, None, None, None, "train"),
        ("Number of ranks", None, 48.0, None, None, None, None),
        ("Report creation date", None, None, None, None, None, "2025-05-19 00:39:10"),
        ("advice", None, None, None, None, None, None), ("Elapsed Time", "elapsed", 867.22, "s", None, None, None),
        ("MPI Time", "mpi_time", 153.27, "s", pytest.approx(0.1768), "Elapsed Time", None),
        ("MPI Time / MPI Imbalance", "mpi_imbalance", None, None, None, None, "N/A*"),
        (
            "MPI Time / Top 5 MPI functions (avg time) / MPI_Waitall",
            None, 103.02, "s", pytest.approx(0.1189), "Elapsed Time", None,
        ),
        ("Average Physical Core Utilization", None, 110.96, None, None, None, "out of 208 Physical Cores"),
        ("Memory Stalls", "memory_stalls", 62.9, "%", pytest.approx(0.629), "Pipeline Slots", None),
        ("Memory Stalls / DRAM Bandwidth / Peak", "dram_bandwidth_peak", 426.75, "GB/s", None, None, None),
        ("Disk I/O Bound", "io_bound", 0.94, "s", pytest.approx(0.0011), "Elapsed Time", None),
        ("Resident / Per node / Peak resident set size", None, 8944.0, "MB", None, None, None),
        ("Resident / Per rank / Peak resident set size", "peak_memory", 906.0, "MB", None, None, "(rank 24)"),
    ]  # fmt: skip
    assert [host for (host,) in found(tables, "host") if host] == ["x4013c2s1b0n0"]
    advice = {metric: text for metric, text in found(tables, "metric", "advice") if text}
    assert advice == {
        "advice": "Your application might underutilize the cores.",
        "MPI Time": "Your application is MPI bound. This may be caused by waiting.",
    }


def test_older_summaries_have_bars_before_what_was_run(tmp_path):
    text = """\
| Summary information
|-----
| HW Platform           : Intel(R) Processor code named Knights Landing
| Logical core count per node: 256
|
| Your application might underutilize the available logical CPU cores.
  CPU Utilization: 6.50%
"""
    _, tables = read_text(tmp_path, text)
    rows = found(tables, "metric", "value", "text")
    assert rows[0] == ("HW Platform", None, "Intel(R) Processor code named Knights Landing")
    assert rows[-1] == ("CPU Utilization", 6.5, None)


@pytest.mark.parametrize("head", [b"", b"| Summary information\n", b"Elapsed Time: 3 s\n", b"see Summary information"])
def test_other_text_is_none(head):
    assert not looks_like(head)


def test_a_summary_without_a_metric_says_so(tmp_path):
    with pytest.raises(SourceError, match="no metric"):
        read_text(tmp_path, "| Summary information\n| Elapsed Time HW Platform\n")


@pytest.mark.traces
def test_a_real_summary_is_read_in_full(shared_traces):
    file = shared_traces / "vtune" / "aps_summary.txt"
    lines = [one for one in file.read_text().splitlines() if not one.startswith(("|", "Graphical"))]
    valued = [one for one in lines if ":" in one and one.partition(":")[2].strip()]
    with stepscope.open(file) as trace:
        listed = trace.ask("host-metrics", by="metric")
        page = {row["metric"]: row for row in trace.ask("host-metrics")}
    assert len(listed) == len(valued) + 1  # and what it says of the run
    by_name = {row["metric"]: row for row in listed}
    for one in valued:
        name, _, value = one.partition(":")
        row = next(row for metric, row in by_name.items() if f" / {metric}".endswith(f" / {name.strip()}"))
        number = value.split()[0].rstrip("%")
        if row["value"] is not None and metric_is_single(name, valued):
            assert row["value"] == float(number)
    assert page["Elapsed Time"]["value"] == 867.22
    assert (page["MPI Time"]["judged"], page["MPI Time"]["target"]) == ("missed", "at most 15 %")
    assert page["Physical Core Utilization"]["judged"] == "met"
    assert page["Memory Stalls"]["judged"] == "flagged"


def metric_is_single(name, lines):
    return sum(one.partition(":")[0].strip() == name.strip() for one in lines) == 1
