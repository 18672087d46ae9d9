"""Every odd or broken input seen in the wild, as a file of three to six events: what is kept of it.

The files lie in tests/data/kineto/bad, named for the case. B: bytes and syntax; T: the top level;
C: time; I: identity; F: kinds of event. Times are in ns since the file's first event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stepscope.errors import DamagedSourceError, SourceError
from stepscope.formats.container import members
from stepscope.formats.kineto.metadata import process_groups
from stepscope.formats.options import ReadOptions
from stepscope.formats.registry import format_of
from stepscope.formats.tables import RankTables

BAD = Path(__file__).parents[2] / "data" / "kineto" / "bad"
BASE = 1_700_000_000_000_000_000

# The events that most files are made of, as they are read when `aten::mm` is the first.
MM = ("aten::mm", 0, 20_250)
LAUNCH = ("cudaLaunchKernel", 1_500, 3_125)
ADD = ("aten::add", 20_500, 4_001)
GEMM = ("gemm", 29_625, 8_500)


@dataclass(frozen=True)
class Case:
    """A file and what must come of it."""

    file: str
    kept: int
    repaired: int = 0
    dropped: int = 0
    damage: dict[str, int] = field(default_factory=dict)
    truncated: bool = False
    offset_of: bytes | None = None
    """Text at which the first damage begins; checked where the file is plain."""
    strict: bool = True
    """Whether `--strict` lets the file pass."""
    host: list[tuple[str, int, int]] | None = None
    device: list[tuple[str, int, int]] | None = None
    fact: Callable[[RankTables], bool] | None = None


def damaged(file: str, kept: int, **rest: object) -> Case:
    return Case(file, kept, strict=False, **rest)  # type: ignore[arg-type]


def columns(table, *names):
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def column(table, name):
    return table[name].to_pylist()


INTACT = {"kept": 2, "host": [MM], "device": [GEMM]}

BYTES = [
    Case("B01_plain_named.gz", **INTACT),
    Case("B01_gzip_named.json", **INTACT),
    Case("B01_no_suffix", **INTACT),
    Case("B02_members.json.gz", **INTACT),
    Case("B02_odd_header.json.gz", **INTACT),
    Case("B02_trailing.json.gz", damage={"gzip_trailing": 1}, **INTACT),
    damaged("B02_checksum.json.gz", damage={"gzip_crc": 1}, **INTACT),
    damaged("B02_no_trailer.json.gz", damage={"gzip_truncated": 1}, truncated=True, **INTACT),
    damaged(
        "B02_cut.json.gz",
        1,
        dropped=1,
        damage={"truncated": 1, "gzip_truncated": 1},
        truncated=True,
        host=[MM],
        device=[],
    ),
    damaged(
        "B03_left_behind.json.tmp",
        3,
        damage={"truncated": 1},
        truncated=True,
        host=[MM, LAUNCH],
        device=[GEMM],
    ),
    damaged(
        "B04_cut_in_event.json",
        3,
        dropped=1,
        damage={"truncated": 1},
        truncated=True,
        offset_of=b'{"ph": "X", "cat": "cpu_op", "name": "aten::add"',
        host=[MM, LAUNCH],
        device=[GEMM],
    ),
    damaged(
        "B04_cut_after_event.json",
        3,
        damage={"truncated": 1},
        truncated=True,
        host=[MM, LAUNCH],
        device=[GEMM],
    ),
    damaged(
        "B05_extra_brace.json",
        3,
        damage={"extra_data": 1},
        offset_of=b"}\n",
        host=[MM, LAUNCH],
        device=[GEMM],
    ),
    damaged(
        "B05_longer_file_overwritten.json",
        3,
        damage={"extra_data": 1},
        offset_of=b'al id": 2}},',
        host=[MM, LAUNCH],
        device=[GEMM],
    ),
    damaged(
        "B06_two_writers.json",
        3,
        dropped=1,
        damage={"interleaved": 1},
        host=[MM, ADD],
        device=[GEMM],
    ),
    damaged(
        "B06_splice_in_event.json",
        3,
        dropped=1,
        damage={"unreadable": 1},
        host=[MM, ADD],
        device=[GEMM],
        fact=lambda t: column(t.device_event, "correlation") == [5],
    ),
    damaged(
        "B07_not_utf8.json",
        4,
        repaired=2,
        damage={"invalid_utf8": 2},
        offset_of=b"\xff\xfemm",
        # Two names that look alike differ in what the file had in place of the sign.
        fact=lambda t: (
            column(t.host_event, "name")
            == ["aten::\ufffd\ufffdmm", "aten::\ufffd\ufffdmm", "größe", "aten::add"]
            and len(set(column(t.host_event, "other_args"))) == 3
        ),
    ),
    damaged(
        "B08_control_characters.json",
        4,
        repaired=2,
        damage={"control_character": 2},
        offset_of=b"\n  at line 3",
        host=[
            MM,
            ("train.py(12): <lambda>\n  at line 3", 20_500, 4_001),
            ("tab\there", 26_000, 1_000),
        ],
        device=[GEMM],
    ),
    damaged(
        "B09_windows_paths.json",
        3,
        repaired=1,
        damage={"invalid_escape": 1},
        host=[MM, ADD],
        device=[GEMM],
        fact=lambda t: (
            "C:\\\\Users\\\\new\\\\train.py" in column(t.call_stack, "frames")[0]
            or "C:\\Users\\new\\train.py" in column(t.call_stack, "frames")[0]
        ),
    ),
    damaged(
        "B10_quotes_in_names.json",
        4,
        repaired=2,
        damage={"unescaped_quote": 2},
        host=[
            MM,
            ('torch.library.Library("_inductor_test", "IMPL")', 20_500, 4_001),
            ('/tmp/{"device": "cpu"}/f.py(3): forward', 26_000, 1_000),  # noqa: S108 - a name
        ],
        device=[GEMM],
    ),
    damaged(
        "B10_quotes_in_log.json",
        2,
        damage={"lost_metadata": 1},
        offset_of=b'"INFO"',
        host=[MM],
        device=[GEMM],
        fact=lambda t: (
            (t.facts.rank, t.facts.world_size, t.facts.metadata["traceName"])
            == (2, 4, "trace.json")
        ),
    ),
    damaged(
        "B11_key_without_quote.json",
        3,
        repaired=1,
        damage={"missing_quote": 1},
        offset_of=b'tid": 7, "ts": 31',
        host=[MM, ADD],
        device=[GEMM],
    ),
    damaged(
        "B12_no_numbers.json",
        5,
        repaired=1,
        damage={"not_a_number": 1},
        fact=lambda t: (
            column(t.device_event, "correlation") == [6, 8, 9, 10]
            and column(t.device_event, "blocks_per_sm") == [None] * 4
            and column(t.device_event, "occupancy_ratio") == [None] * 4
        ),
    ),
    damaged(
        "B13_missing_commas.json",
        5,
        repaired=1,
        dropped=1,
        damage={"missing_comma": 2, "torn_event": 1},
        host=[MM, ADD, ("aten::relu", 41_500, 1_500), ("aten::last", 49_500, 2_000)],
        device=[GEMM],
    ),
    Case("B14_trailing_comma.json", 3, host=[MM, ADD], device=[GEMM]),
    damaged(
        "B15_key_twice.json",
        2,
        damage={"duplicate_key": 2},
        fact=lambda t: (t.facts.rank, t.facts.world_size) == (3, 8),
    ),
    damaged(
        "B15_argument_twice.json",
        3,
        repaired=1,
        damage={"duplicate_key": 1},
        fact=lambda t: column(t.host_event, "external_id") == [1, 2],
    ),
    Case("B16_bom_crlf_nuls.json", **INTACT),
    damaged(
        "B16_cut_and_preallocated.json",
        1,
        dropped=1,
        damage={"truncated": 1, "trailing_nuls": 1},
        truncated=True,
        host=[MM],
        device=[],
    ),
]

TOP_LEVEL = [
    Case("T01_array.json", 3, host=[MM], device=[GEMM]),
    Case(
        "T02_metadata_after.json",
        fact=lambda t: (
            (t.facts.rank, t.facts.world_size, t.facts.backend) == (6, 8, "nccl")
            and t.facts.start_epoch_ns == BASE + 10_500
            and columns(t.device, "device", "kind", "name", "sm_count", "used")
            == [(0, "cuda", "NVIDIA H100", 132, True)]
        ),
        **INTACT,
    ),
    Case("T03_no_rank.json", fact=lambda t: t.facts.rank is None, **INTACT),
    Case(
        "T04_ranks_as_list.json",
        fact=lambda t: t.facts.rank == 1 and process_groups(t.facts.metadata)[0]["ranks"] == [0, 1],
        **INTACT,
    ),
    Case(
        "T04_ranks_as_text.json",
        fact=lambda t: t.facts.rank == 1 and process_groups(t.facts.metadata)[0]["ranks"] == [0, 1],
        **INTACT,
    ),
    Case(
        "T05_metadata_only.json",
        3,
        host=[],
        device=[],
        fact=lambda t: (
            column(t.thread, "thread_name")
            in ([], ["thread 7 (python)"], [None, "thread 7 (python)"])
        ),
    ),
    Case("T06_no_gpu_events.json", 4, device=[]),
    Case("T07_no_steps.json", 4, host=[MM, LAUNCH, ADD], device=[GEMM]),
    Case(
        "T07_kernel_after_last_step.json",
        4,
        fact=lambda t: (
            column(t.host_event, "role") == ["step", None, "launch"]
            and column(t.device_event, "start_ns") == [35_125]
        ),
    ),
    Case("T09_empty_event.json", damage={"empty_event": 1}, **INTACT),
    Case("T10_display_time_unit.json", **INTACT),
]

TIME = [
    Case(
        "C01_whole_microseconds.json",
        3,
        host=[("aten::mm", 0, 20_000)],
        device=[("k1", 30_000, 0), ("k2", 30_000, 1_000)],
        fact=lambda t: (
            t.facts.resolution_ns == 1_000 and t.facts.start_epoch_ns == 1_623_143_089_000_010_000
        ),
    ),
    Case(
        "C02_decimal_microseconds.json",
        3,
        host=[("a", 0, 1), ("b", 1, 1_234)],
        device=[("k", 954, 10_001)],
        fact=lambda t: (
            t.facts.resolution_ns == 1 and t.facts.start_epoch_ns == BASE + 6_869_181_217_913_045
        ),
    ),
    *(
        Case(
            file,
            3,
            host=[("a", 0, 40), ("b", 40, 1)],
            device=[("k", 41, 2_111)],
            fact=lambda t: t.facts.start_epoch_ns == 1_778_655_624_745_710_848,
        )
        for file in ("C03_epoch_with_decimals.json", "C04_times_as_text.json")
    ),
    Case(
        "C05_zero_timestamps.json",
        5,
        damage={"zero_timestamp": 1},
        host=[MM, LAUNCH],
        # It takes no time, but its launch can still find it.
        fact=lambda t: (
            columns(t.device_event, "name", "dur_ns", "correlation")
            == [("lost", 0, 5), ("gemm", 8_500, 5)]
            and t.facts.start_epoch_ns == BASE + 10_500
        ),
    ),
    damaged(
        "C06_negative_durations.json",
        5,
        repaired=3,
        damage={"negative_duration": 2, "unfinished": 1},
        # What has no end ends with the event around it.
        host=[
            ("outer", 0, 50_000),
            ("unfinished", 2_000, 48_000),
            ("wrapped", 10_000, 40_000),
            ("backwards", 20_000, 30_000),
        ],
    ),
    Case(
        "C07_zero_durations.json",
        4,
        device=[("first", 29_500, 0), ("second", 29_500, 0), ("third", 29_500, 1_500)],
    ),
    Case(
        "C08_overrun.json",
        4,
        device=[
            ("too_long", 29_500, 9_000_000_000),
            ("next", 39_500, 2_000),
            ("after", 49_500, 2_000),
        ],
    ),
    Case(
        "C09_crossing.json",
        4,
        host=[("ProfilerStep#1", 0, 20_000), ("crosses the step", 19_999, 5_000)],
        device=[("first", 30_000, 10_000), ("dependent launch", 38_000, 10_000)],
    ),
    Case("C10_tenths.json", 3, host=[("a", 0, 500), ("b", 500, 100)], device=[("k", 900, 300)]),
    Case(
        "C11_annotation_a_nanosecond_early.json",
        3,
        device=[("forward", 29_624, 8_502), GEMM],
        fact=lambda t: column(t.device_event, "kind") == ["annotation", "computation"],
    ),
    Case(
        "C12_record_window_end.json",
        4,
        host=[MM],
        device=[GEMM],
        fact=lambda t: (
            column(t.instant, "name") == ["Iteration Start: PyTorch Profiler", "Record Window End"]
            and t.facts.start_epoch_ns == BASE + 10_500
        ),
    ),
    Case(
        "C13_warm_up_events.json",
        6,
        device=[("warmup_kernel", 1_000, 2_000), ("gemm", 39_125, 8_500)],
    ),
    Case(
        "C14_clocks/rank0.json",
        3,
        fact=lambda t: (
            t.facts.rank == 0 and column(t.device_event, "start_ns") == [10_000, 210_000]
        ),
    ),
    Case(
        "C14_clocks/rank1.json",
        3,
        fact=lambda t: t.facts.rank == 1 and t.facts.start_epoch_ns == BASE + 360_000,
    ),
]

LONG = 9_223_372_036_854_775_807
IDENTITY = [
    Case(
        "I01_text_ids.json",
        5,
        fact=lambda t: (
            {("7", "7"), ("Spans", "PyTorch Profiler"), ("-1", "0")}
            <= set(columns(t.thread, "pid", "tid"))
        ),
    ),
    Case("I02_stream_as_text.json", 3, fact=lambda t: column(t.device_event, "stream") == [7]),
    Case("I03_pid_is_device.json", 3, host=[MM], device=[GEMM]),
    Case(
        "I04_long_thread_ids.json",
        3,
        fact=lambda t: (
            {"140234567890112", "4294967303"} <= set(column(t.thread, "tid"))
            and len(set(column(t.host_event, "thread"))) == 2
        ),
    ),
    Case(
        "I05_long_ids.json",
        4,
        fact=lambda t: (
            column(t.device_event, "stream") == [LONG]
            and column(t.flow, "flow_id") == [1_778_655_624_745_710_730] * 2
        ),
    ),
    Case(
        "I06_negative_thread_ids.json",
        3,
        fact=lambda t: (
            ("-1410655872", "thread 1410655872 (pt_autograd_0)")
            in columns(t.thread, "tid", "thread_name")
        ),
    ),
    Case(
        "I07_stream_sync_rows.json",
        4,
        fact=lambda t: (
            columns(t.device_event, "kind", "stream") == [("computation", 7), ("sync", 7)]
        ),
    ),
    Case(
        "I08_spelling_of_keys.json",
        3,
        fact=lambda t: (
            column(t.host_event, "external_id") == [1, 2, 3]
            and column(t.operator_input, "dims") == ["[[2,3],[3,4]]", "[[2,4]]"]
        ),
    ),
    Case(
        "I09_external_id_zero.json",
        3,
        fact=lambda t: (
            columns(t.host_event, "correlation", "external_id") == [(None, 31), (5, 0)]
            and columns(t.device_event, "correlation", "external_id") == [(5, 31)]
        ),
    ),
    Case(
        "I10_colliding_ids.json",
        4,
        fact=lambda t: (
            columns(t.host_event, "correlation", "external_id") == [(None, 5), (None, 6), (6, 5)]
            and columns(t.device_event, "correlation", "external_id") == [(6, 5)]
        ),
    ),
    Case(
        "I11_flow_categories.json",
        6,
        fact=lambda t: (
            columns(t.flow, "category", "phase", "flow_id")
            == [
                ("launch", "s", 1),
                ("launch", "f", 1),
                ("fwdbwd", "s", 2),
                ("fwdbwd", "f", 2),
                ("launch", "f", 5),
            ]
        ),
    ),
    Case(
        "I12_graph_replay.json",
        5,
        fact=lambda t: (
            columns(t.device_event, "correlation", "graph_id", "graph_node_id")
            == [(5, 2, 20), (5, 2, 21), (5, 2, 22), (77, None, None)]
            and column(t.host_event, "role") == ["graph_launch"]
        ),
    ),
    Case(
        "I13_launch_names.json",
        6,
        fact=lambda t: column(t.host_event, "role") == ["launch"] * 5 + ["synchronize"],
    ),
    Case(
        "I14_collective_names.json",
        6,
        fact=lambda t: (
            column(t.host_event, "role") == ["communication"] * 3
            and column(t.device_event, "kind") == ["communication", "communication", "computation"]
        ),
    ),
    Case(
        "I15_collective_arguments.json",
        3,
        fact=lambda t: (
            column(t.device_event, "collective_id") == [None, 0]
            and columns(t.collective_args, "operation", "group_size", "sequence", "elements_in")
            == [("allreduce", 2, 41, 2_049_000)]
        ),
    ),
    Case(
        "I16_streams.json",
        3,
        fact=lambda t: (
            columns(t.device_event, "kind", "device", "stream")
            == [("computation", 2, 0), ("sync", 2, -1)]
            and column(t.host_event, "kind") == ["runtime"]
        ),
    ),
    Case(
        "I17_xpu.json",
        3,
        fact=lambda t: (
            column(t.device_event, "device") == [0]
            and column(t.host_event, "role")[-1] == "launch"
            and "memory opration id" in t.report.unknown_fields
        ),
    ),
    Case(
        "I18_altered_names.json",
        4,
        fact=lambda t: (
            column(t.host_event, "name")[:2] == ["unknown", "unknown"]
            and column(t.device_event, "name") == ["Kernel"]
        ),
    ),
]

KINDS = [
    Case("F01_begin_end.json", 4, host=[("outer", 0, 20_250), ("inner", 2_500, 2_500)]),
    damaged(
        "F02_unbalanced_begin_end.json",
        4,
        repaired=1,
        dropped=1,
        damage={"unmatched_end": 1, "unmatched_begin": 1, "unfinished": 1},
        # What never ended ends with the recording; where an end has no begin nothing is made up.
        fact=lambda t: (
            sorted(columns(t.host_event, "start_ns", "name", "dur_ns"))
            == [(0, "closed", 10_000), (15_000, "never closed", 15_000), (20_000, "last", 10_000)]
        ),
    ),
    Case(
        "F03_counters_and_instants.json",
        5,
        fact=lambda t: (
            sorted(columns(t.counter, "track", "series", "time_ns", "value"))
            == [
                ("GPU power", "limit", 9_500, 700.0),
                ("GPU power", "watts", 9_500, 310.5),
                ("dram", "GB/s", 10_500, 1200.0),
            ]
            and columns(t.memory_event, "time_ns", "bytes", "total_allocated_bytes")
            == [(11_500, -1_024, -512)]
            and column(t.instant, "name") == ["mark"]
        ),
    ),
    Case(
        "F04_async.json",
        5,
        host=[MM],
        device=[GEMM],
        fact=lambda t: column(t.instant, "name") == ["generate", "first token", "generate"],
    ),
    Case(
        "F05_flows.json",
        5,
        fact=lambda t: (
            columns(t.flow, "phase", "time_ns") == [("s", 1_500), ("t", 9_500), ("f", 29_625)]
        ),
    ),
    Case(
        "F06_orphans_in_python_stack.json",
        3,
        fact=lambda t: (
            columns(t.host_event, "python_id", "python_parent_id") == [(1, None), (9, 404), (2, 1)]
        ),
    ),
]

CASES = [*BYTES, *TOP_LEVEL, *TIME, *IDENTITY, *KINDS]

WRONG_FILES = {
    "B16_only_zeros.json": "file of zeros",
    "T08_execution_trace.json": "PyTorch execution trace",
    "T08_observer_without_schema.json": "json",
    "T08_notes.txt": "text",
    "T08_error_page.json": "HTML or XML page",
    "T08_empty.json": "empty file",
    "T08_picture.json": "picture",
    "T08_database.json": "SQLite database",
    "T08_snapshot.pickle": "CUDA memory snapshot",
    "T08_report.nsys-rep": "Nsight Systems report",
}
ARCHIVES = ("B01_two_ranks.zip", "B01_two_ranks.tar", "B01_two_ranks.tgz")


def read(path: Path, **options: bool) -> RankTables:
    (member,) = members(path)
    return format_of(member).read(member, ReadOptions(**options))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_what_is_intact_is_kept_and_what_is_not_is_counted(case):
    tables = read(BAD / case.file)
    report = tables.report
    assert (report.kept, report.repaired, report.dropped) == (
        case.kept,
        case.repaired,
        case.dropped,
    )
    assert report.damage == case.damage
    assert report.truncated == case.truncated
    if case.offset_of is not None:
        assert report.damage_offset == (BAD / case.file).read_bytes().rindex(case.offset_of)
    for table, expected in ((tables.host_event, case.host), (tables.device_event, case.device)):
        if expected is not None:
            assert columns(table, "name", "start_ns", "dur_ns") == expected
    if case.fact is not None:
        assert case.fact(tables)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_strict_refuses_what_was_repaired_or_lost(case):
    if case.strict:
        read(BAD / case.file, strict=True)
    else:
        with pytest.raises(DamagedSourceError):
            read(BAD / case.file, strict=True)


@pytest.mark.parametrize("file", WRONG_FILES)
def test_wrong_kind_of_file_is_named_with_a_cure(file):
    with pytest.raises(SourceError) as caught:
        read(BAD / file)
    assert WRONG_FILES[file] in caught.value.message
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("file", ARCHIVES)
def test_archive_is_as_many_recordings_as_it_has_files(file):
    read = [format_of(member).read(member, ReadOptions()) for member in members(BAD / file)]
    assert [tables.facts.rank for tables in read] == [0, 1]
    assert [tables.report.kept for tables in read] == [3, 3]


def test_every_file_of_the_folder_is_tested():
    files = {
        str(path.relative_to(BAD))
        for path in BAD.rglob("*")
        if path.is_file() and path.suffix != ".py"
    }
    assert files == {case.file for case in CASES} | set(WRONG_FILES) | set(ARCHIVES)
