"""Odd and broken inputs whose text or container is at fault: the files, and what must come of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

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
    """Text at which the first damage starts; checked where the file is plain."""
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
    Case("B01_plain_named.gz", **INTACT), Case("B01_gzip_named.json", **INTACT), Case("B01_no_suffix", **INTACT),
    Case("B02_members.json.gz", **INTACT), Case("B02_odd_header.json.gz", **INTACT),
    Case("B02_trailing.json.gz", damage={"gzip_trailing": 1}, **INTACT),
    damaged("B02_checksum.json.gz", damage={"gzip_crc": 1}, **INTACT),
    damaged("B02_no_trailer.json.gz", damage={"gzip_truncated": 1}, **INTACT),
    damaged(
        "B02_cut.json.gz", 1, dropped=1, damage={"truncated": 1, "gzip_truncated": 1}, truncated=True, host=[MM],
        device=[],
    ),
    damaged("B03_left_behind.json.tmp", 3, damage={"truncated": 1}, truncated=True, host=[MM, LAUNCH], device=[GEMM]),
    damaged(
        "B04_cut_in_event.json", 3, dropped=1, damage={"truncated": 1}, truncated=True,
        offset_of=b'{"ph": "X", "cat": "cpu_op", "name": "aten::add"', host=[MM, LAUNCH], device=[GEMM],
    ),
    damaged("B04_cut_after_event.json", 3, damage={"truncated": 1}, truncated=True, host=[MM, LAUNCH], device=[GEMM]),
    damaged("B05_extra_brace.json", 3, damage={"extra_data": 1}, offset_of=b"}\n", host=[MM, LAUNCH], device=[GEMM]),
    damaged(
        "B05_longer_file_overwritten.json", 3, damage={"extra_data": 1}, offset_of=b'al id": 2}},',
        host=[MM, LAUNCH], device=[GEMM],
    ),
    damaged("B06_two_writers.json", 3, dropped=1, damage={"interleaved": 1}, host=[MM, ADD], device=[GEMM]),
    damaged(
        "B06_splice_in_event.json", 3, dropped=1, damage={"unreadable": 1}, host=[MM, ADD], device=[GEMM],
        fact=lambda t: column(t.device_event, "correlation") == [5],
    ),
    damaged(
        "B07_not_utf8.json", 4, repaired=2, damage={"invalid_utf8": 2}, offset_of=b"\xff\xfemm",
        # Two names that look alike differ in what the file had in place of the sign.
        fact=lambda t: (
            column(t.host_event, "name") == ["aten::\ufffd\ufffdmm", "aten::\ufffd\ufffdmm", "größe", "aten::add"]
            and len(set(column(t.host_event, "other_args"))) == 3
        ),
    ),
    damaged(
        "B08_control_characters.json", 4, repaired=2, damage={"control_character": 2}, offset_of=b"\n  at line 3",
        host=[MM, ("train.py(12): <lambda>\n  at line 3", 20_500, 4_001), ("tab\there", 26_000, 1_000)],
        device=[GEMM],
    ),
    damaged(
        "B09_windows_paths.json", 3, repaired=1, damage={"invalid_escape": 1}, host=[MM, ADD], device=[GEMM],
        fact=lambda t: (
            "C:\\\\Users\\\\new\\\\train.py" in column(t.call_stack, "frames")[0]
            or "C:\\Users\\new\\train.py" in column(t.call_stack, "frames")[0]
        ),
    ),
    damaged(
        "B10_quotes_in_names.json", 4, repaired=2, damage={"unescaped_quote": 2},
        host=[
            MM, ('torch.library.Library("_inductor_test", "IMPL")', 20_500, 4_001),
            ('/tmp/{"device": "cpu"}/f.py(3): forward', 26_000, 1_000),  # noqa: S108 - a name
        ],
        device=[GEMM],
    ),
    damaged(
        "B10_quotes_in_log.json", 2, damage={"lost_metadata": 1}, offset_of=b'"INFO"', host=[MM], device=[GEMM],
        fact=lambda t: (t.facts.rank, t.facts.world_size, t.facts.metadata["traceName"]) == (2, 4, "trace.json"),
    ),
    damaged(
        "B11_key_without_quote.json", 3, repaired=1, damage={"missing_quote": 1}, offset_of=b'tid": 7, "ts": 31',
        host=[MM, ADD], device=[GEMM],
    ),
    damaged(
        "B12_no_numbers.json", 5, repaired=1, damage={"not_a_number": 1},
        fact=lambda t: (
            column(t.device_event, "correlation") == [6, 8, 9, 10]
            and column(t.device_event, "blocks_per_sm") == [None] * 4
            and column(t.device_event, "occupancy_ratio") == [None] * 4
        ),
    ),
    damaged(
        "B13_missing_commas.json", 5, repaired=1, dropped=1, damage={"missing_comma": 2, "torn_event": 1},
        host=[MM, ADD, ("aten::relu", 41_500, 1_500), ("aten::last", 49_500, 2_000)],
        device=[GEMM],
    ),
    Case("B14_trailing_comma.json", 3, host=[MM, ADD], device=[GEMM]),
    damaged(
        "B15_key_twice.json", 2, damage={"duplicate_key": 2},
        fact=lambda t: (t.facts.rank, t.facts.world_size) == (3, 8),
    ),
    damaged(
        "B15_argument_twice.json", 3, repaired=1, damage={"duplicate_key": 1},
        fact=lambda t: column(t.host_event, "external_id") == [1, 3],
    ),
    Case("B16_bom_crlf_nuls.json", **INTACT),
    damaged(
        "B16_cut_and_preallocated.json", 1, dropped=1, damage={"truncated": 1, "trailing_nuls": 1}, truncated=True,
        host=[MM], device=[],
    ),
]  # fmt: skip

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
    Case("T04_ranks_as_list.json", fact=lambda t: t.facts.rank == 1, **INTACT),
    Case("T04_ranks_as_text.json", fact=lambda t: t.facts.rank == 1, **INTACT),
    Case(
        "T05_metadata_only.json", 3, host=[], device=[],
        fact=lambda t: column(t.thread, "thread_name") in ([], ["thread 7 (python)"], [None, "thread 7 (python)"]),
    ),
    Case("T06_no_gpu_events.json", 4, device=[]),
    Case("T07_no_steps.json", 4, host=[MM, LAUNCH, ADD], device=[GEMM]),
    Case(
        "T07_kernel_after_last_step.json", 4,
        fact=lambda t: (
            column(t.host_event, "role") == ["step", None, "launch"] and column(t.device_event, "start_ns") == [35_125]
        ),
    ),
    Case("T09_empty_event.json", damage={"empty_event": 1}, **INTACT), Case("T10_display_time_unit.json", **INTACT),
]  # fmt: skip
