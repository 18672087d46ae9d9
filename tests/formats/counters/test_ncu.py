"""Reports and tables of Nsight Compute: every page and language, whatever stands around and wherever it ends."""

import csv
import io
import resource
import shutil
import sys

import pytest
from tests.processes import ran

import stepscope
from stepscope.base.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.counters.kinds import metric_named
from stepscope.formats.counters.ncu import peek, read
from stepscope.formats.counters.units import base_unit
from stepscope.formats.registry import format_of

DETAILS = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type",'
    '"Rule Description","Estimated Speedup Type","Estimated Speedup"'
)
OLD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream","Section Name",'
    '"Metric Name","Metric Unit","Metric Value"'
)


def line(number, kernel, section, name, unit, value):
    return (
        f'"{number}","6","python","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(32, 4, 1)","0","7.5",'
        f'"{section}","{name}","{unit}","{value}",'
    )


@pytest.fixture
def table(tmp_path):
    def of(*lines: str):
        file = tmp_path / "anything"
        file.write_text("\n".join(lines))
        (member,) = members(file)
        assert format_of(member).name == "ncu"
        return read(member)

    return of


def values(tables, *columns):
    names = columns or ("kernel", "metric", "value", "unit")
    return [tuple(row[name] for name in names) for row in tables.kernel_metric.to_pylist()]


def test_a_page_of_details_has_a_line_a_metric_among_what_the_program_prints(table):
    tables = table(
        "==PROF== Connected to process 6 (/usr/bin/python)", 'epoch 1: loss "2.3"', DETAILS,
        line(0, "gemm", "GPU Speed Of Light Throughput", "Memory Throughput", "%", "61.84"),
        "==PROF== Disconnected from process 6",
        line(0, "gemm", "GPU Speed Of Light Throughput", "Duration", "us", "1,234.50"),
        line(0, "gemm", "Memory Workload Analysis", "Memory Throughput", "Gbyte/s", "196.45"),
        line(0, "gemm", "Launch Statistics", "Function Cache Configuration", "", "CachePreferNone"),
        line(0, "gemm", "Something New", "Wonders", "wonder", "3"),
        '"0","6","python","127.0.0.1","gemm","1","7","(256, 1, 1)","(32, 4, 1)","0","7.5","SourceCounters","","",'
        '"","UncoalescedGlobalAccess","OPT","75% of ""sectors"", see","global","74.14"',
    )  # fmt: skip
    assert values(tables, "kernel", "kind", "metric", "value", "unit") == [
        ("gemm", "memory_throughput", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", 61.84, "%"),
        ("gemm", "duration", "gpu__time_duration.sum", 1_234_500.0, "ns"),
        ("gemm", "dram_bytes_per_s", "dram__bytes.sum.per_second", 196.45e9, "byte/s"),
        ("gemm", None, "Wonders", 3.0, "wonder"),
    ]  # fmt: skip
    (launch,) = tables.measured_kernel.to_pylist()
    assert launch | {"measured": 0} == launch
    shape = ("grid", "blocks", "block", "threads", "dur_ns", "device", "stream", "launches", "tool")
    assert [launch[name] for name in shape] == ["32,4,1", 128, "256,1,1", 256, 1_234_500, 0, 7, 1, "Nsight Compute"]
    assert not tables.report.lost


def test_launches_are_told_by_process_and_number_and_by_table(table):
    tables = table(
        DETAILS, line(0, "gemm", "s", "Duration", "ns", "1"),
        line(0, "relu", "s", "Duration", "ns", "2").replace('"6"', '"9"'),
        line(1, "gemm", "s", "Duration", "ns", "3"), DETAILS, line(0, "gemm", "s", "Duration", "ns", "4"),
    )  # fmt: skip
    assert values(tables, "measured", "kernel", "value") == [
        (0, "gemm", 1.0), (1, "relu", 2.0), (2, "gemm", 3.0), (3, "gemm", 4.0),
    ]  # fmt: skip


def test_an_old_page_of_details_has_old_labels_and_no_shape(table):
    tables = table(
        OLD,
        '"0","6","a.out","h","gemm","2020-Jan-01 10:00:00","1","7","GPU Speed Of Light","SOL SM","%","12.5"',
        '"0","6","a.out","h","gemm","2020-Jan-01 10:00:00","1","7","Launch Statistics","Grid Size","","640"',
        '"0","6","a.out","h","gemm","2020-Jan-01 10:00:00","1","7","Command line profiler metrics",'
        '"dram__bytes_read.sum","Mbyte","2.5"',
    )
    assert values(tables, "kind", "value", "unit") == [
        ("compute_throughput", 12.5, "%"), (None, 640.0, None), ("dram_read_bytes", 2.5e6, "byte"),
    ]  # fmt: skip
    (launch,) = tables.measured_kernel.to_pylist()
    assert (launch["grid"], launch["blocks"], launch["block"], launch["threads"]) == (None, 640, None, None)


RAW = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream"'


def test_a_raw_page_has_a_line_a_launch_and_units_below_the_names(table):
    tables = table(
        f'{RAW},"device__attribute_display_name","device__attribute_device_index",'
        '"device__attribute_multiprocessor_count","dram__bytes.sum","launch__grid_dim_x","launch__grid_dim_y",'
        '"launch__grid_dim_z","gpu__time_duration.sum","launch__func_cache_config","lts__t_bytes.sum"',
        '"","","","","","","","","","","Kbyte","","","","usecond","",""',
        '"0","6","a","h","gemm","1","7","NVIDIA A10G","0","80","10.24","16","8","1","2.5","CachePreferNone","n/a"',
        '"1","6","a","h","relu","1","7","NVIDIA A10G","0","80","1","4","1","1","3","CachePreferNone",""',
    )  # fmt: skip
    found = values(tables, "kernel", "metric", "value", "unit")
    assert ("gemm", "dram__bytes.sum", 10240.0, "byte") in found
    assert ("gemm", "lts__t_bytes.sum", None, None) in found
    assert ("relu", "gpu__time_duration.sum", 3000.0, "ns") in found
    assert not any(metric == "launch__func_cache_config" for _, metric, *_ in found)
    launches = tables.measured_kernel.to_pylist()
    assert [(one["name"], one["grid"], one["dur_ns"]) for one in launches] == [
        ("gemm", "16,8,1", 2500), ("relu", "4,1,1", 3000),
    ]  # fmt: skip
    (device,) = tables.device.to_pylist()
    assert (device["name"], device["sm_count"], device["used"]) == ("NVIDIA A10G", 80, True)


def test_a_summary_has_means_of_launches_alike(table):
    tables = table(
        '"Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
        '"CC","Invocations","Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"',
        '"6","a","h","gemm","1","7","(8, 1, 1)","(2, 1, 1)","0","8.0","5","s","Duration","us","1.5","2.5","2.0"',
    )
    assert values(tables, "kind", "value", "min", "max") == [("duration", 2000, 1500, 2500)]
    assert tables.measured_kernel["launches"].to_pylist() == [5]


def test_decimal_commas_are_told_from_the_numbers_of_the_file(table):
    tables = table(
        DETAILS, line(0, "gemm", "s", "Grid Size", "", "1.024"),
        line(0, "gemm", "s", "Elapsed Cycles", "cycle", "12.319.469"),
        line(0, "gemm", "s", "DRAM Frequency", "hz", "4.963.609.951,19"),
        line(0, "gemm", "s", "Duration", "us", "1,500"), line(1, "gemm", "s", "Duration", "ms", "0,5"),
        line(2, "gemm", "s", "Duration", "ms", "1,234.5"),
    )  # fmt: skip
    assert values(tables, "measured", "value") == [
        (0, 1024.0), (0, 12_319_469.0), (0, 4_963_609_951.19), (0, 1500.0), (1, 500_000.0),
    ]  # fmt: skip
    assert tables.report.damage == {"unreadable": 1}  # what is of another language is no number


def test_a_table_may_be_apart_by_semicolons(table):
    tables = table(DETAILS.replace(",", ";"), line(0, "gemm", "s", "SM Busy", "%", "1").replace('","', '";"'))
    assert values(tables, "kernel", "value") == [("gemm", 1.0)]


def test_a_file_cut_within_a_line_keeps_the_lines_before(table):
    text = line(0, "gemm", "s", "Duration", "ns", "5")
    tables = table(DETAILS, text, text[: text.index("Duration") + 3])
    assert values(tables, "value") == [(5.0,)]
    assert tables.report.truncated
    assert tables.report.dropped == 1
    tables = table(DETAILS, text, text[: text.index('"Duration"') - 1])
    assert (values(tables, "value"), tables.report.dropped) == ([(5.0,)], 1)


def test_a_name_of_several_lines_is_one_and_a_quotation_without_end_costs_one_line(table):
    good = line(1, "relu", "s", "Duration", "ns", "6")
    tables = table(DETAILS, line(0, "ge\nmm", "s", "Duration", "ns", "5"), '"0","6","bro', good)
    assert values(tables, "kernel", "value") == [("ge\nmm", 5.0), ("relu", 6.0)]
    assert tables.report.dropped == 1


def test_a_table_without_metrics_and_a_text_are_refused_with_the_command(table, tmp_path):
    with pytest.raises(SourceError, match="no kernel's metrics") as caught:
        table("==PROF== Connected to process 6", "==WARNING== No kernels were profiled.")
    assert "ncu --import FILE --csv --page raw" in caught.value.hint
    text = tmp_path / "report.txt"
    text.write_text("    Section: Occupancy\n    ---------------- ----------\n    Metric Name  Metric Unit\n")
    with pytest.raises(SourceError, match="Nsight Compute text") as caught:
        stepscope.open(text, cache=False)
    assert "ncu --import" in caught.value.hint


def test_without_ncu_a_report_names_the_command(tmp_path, monkeypatch):
    report = tmp_path / "rank3.ncu-rep"
    report.write_bytes(b"NVR\x00\x00\x01")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="no ncu here") as caught:
        stepscope.open(report, cache=False)
    assert "ncu --import FILE --csv --page raw > report.csv" in caught.value.hint
    assert caught.value.slug == "no-vendor-tool"


def test_a_report_is_printed_by_ncu_and_read(tmp_path, monkeypatch):
    report, folder = tmp_path / "rank3.ncu-rep", tmp_path / "bin"
    report.write_bytes(b"NVR\x00\x00\x01")
    folder.mkdir()
    program = folder / "ncu"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nassert sys.argv[1::2] == ['--import', '--csv', 'raw']\n"
        f"print({RAW!r} + ',\"dram__bytes.sum\"')\nprint('\"\",' * 7 + '\"byte\"')\n"
        'print(\'"0","6","a","h","gemm","1","7","640"\')\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    with stepscope.open(report, cache=False) as trace:
        assert trace.sql("SELECT rank, kernel, kind, value FROM kernel_metric").rows() == [
            {"rank": 3, "kernel": "gemm", "kind": "dram_bytes", "value": 640.0}
        ]
    program.write_text(f"#!{sys.executable}\nprint('==ERROR== Failed to load report file.')\n")
    report.write_bytes(b"NVR\x00\x00\x01\x02")
    with pytest.raises(SourceError, match="Failed to load") as caught:
        stepscope.open(report, cache=False)
    assert caught.value.slug == "vendor-tool-failed"


def test_a_large_table_is_read_in_little_memory(tmp_path):
    """20 MB here, 100 MB by hand: what is kept is a few numbers a line."""
    path = tmp_path / "large.csv"
    name = "void at::native::" + "vectorized_elementwise_kernel, " * 12
    with path.open("w") as file:
        file.write(DETAILS + "\n")
        for number in range(40_000):
            file.write(line(number, name, "s", "Duration", "ns", f"{number},000.5") + "\n")
    (member,) = members(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tables = read(member)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert tables.measured_kernel.num_rows == 40_000
    assert path.stat().st_size > 20_000_000
    assert grown < 120 << 20


@pytest.mark.traces
def test_every_metric_of_the_shared_page_is_as_its_text_has_it(shared_traces):
    """The text beside the page is of another run of the program: its names and units are the same."""
    path = shared_traces / "ncu" / "t4_copy_details.csv"
    (member,) = members(path)
    tables = read(member)
    found = {row["metric"]: row for row in tables.kernel_metric.to_pylist()}
    written = [row for row in csv.DictReader(io.StringIO(path.read_text())) if row["Metric Name"]]
    numbers = [row for row in written if row["Metric Value"] != "CachePreferNone"]
    assert len(numbers) == 71
    for row in numbers:
        metric = metric_named(row["Metric Name"], row["Metric Unit"])
        base, factor = base_unit(row["Metric Unit"])
        assert found[metric]["value"] == pytest.approx(float(row["Metric Value"].replace(",", "")) * factor, rel=1e-12)
        assert found[metric]["unit"] == base
    assert len(found) == len(numbers)
    text = (shared_traces / "ncu" / "t4_copy_details.txt").read_text()
    assert all(f" {row['Metric Name']} " in text for row in written)
    (launch,) = tables.measured_kernel.to_pylist()
    assert (launch["grid"], launch["block"], launch["dur_ns"]) == ("1024,1,1", "256,1,1", 21_058_944)


@pytest.mark.traces
@pytest.mark.skipif(shutil.which("ncu") is None, reason="needs ncu")
def test_every_metric_of_a_report_is_what_nvidias_own_module_says(shared_traces):
    path = shared_traces / "ncu" / "a10g_5_kernels.ncu-rep"
    (member,) = members(path)
    assert peek(member).devices == ("NVIDIA A10G",)
    rows = read(member).kernel_metric.to_pylist()
    found = {(row["measured"], row["metric"]): row["value"] for row in rows}
    script = (
        "import sys; sys.path.append('/usr/lib/python3/dist-packages'); import ncu_report\n"
        f"report = ncu_report.load_report({str(path)!r}); r = report.range_by_idx(0)\n"
        "for n in range(r.num_actions()):\n"
        "    a = r.action_by_idx(n)\n"
        "    for m in map(a.metric_by_name, a.metric_names()):\n"
        "        if m.has_value() and m.kind() != m.ValueKind_STRING:\n"
        "            print(n, m.name(), repr(m.as_double()))\n"
    )
    told = ran("/usr/bin/python3", "-c", script)
    if told.returncode:
        pytest.skip("NVIDIA's module ncu_report is not here")
    theirs = {
        (int(number), name): float(value) for number, name, value in (row.split() for row in told.stdout.splitlines())
    }
    assert len({number for number, _ in theirs}) == 4
    assert len(found) > 1000
    assert {metric for _, metric in found.keys() - theirs.keys()} == {
        "nvlink__destination_ports", "nvlink__source_ports",  # printed as "no data"
    }  # fmt: skip
    for key, value in found.items():
        if value is None:
            continue
        assert value == pytest.approx(theirs[key], rel=1e-6, abs=1e-6), key


@pytest.mark.traces
def test_the_ranges_of_cuptis_profiler_have_their_counters(shared_traces):
    path = shared_traces / "kineto" / "cupti_profiler" / "trace.json.gz"
    with stepscope.open(path, cache=False) as trace:
        (row,) = trace.sql(
            "SELECT count(DISTINCT measured) AS ranges, count(DISTINCT id) AS events, count(*) AS metrics, "
            "count(value) AS numbers, count(DISTINCT kind) AS kinds FROM kernel_metric"
        ).rows()
        assert row == {"ranges": 77, "events": 77, "metrics": 693, "numbers": 693, "kinds": 9}
        assert trace.sql("SELECT count(*) AS n FROM measured_kernel WHERE tool = 'CUPTI'").rows() == [{"n": 77}]
