import pytest
from tests.formats.counters.test_ncu import DETAILS, line

import stepscope

GEMM, THEIR_GEMM = "gemm<4, true>(float*)", "void gemm<(int)4, (bool)1>(float *)"


@pytest.fixture
def compared(tmp_path):
    def of(before, after):
        files = []
        for number, lines in enumerate((before, after)):
            (tmp_path / f"{number}.csv").write_text("\n".join((DETAILS, *lines)))
            files.append(tmp_path / f"{number}.csv")
        return stepscope.metrics_diff(*files, cache=False)

    return of


def test_counters_of_a_kernel_stand_side_by_side_the_largest_change_first(compared):
    asked = compared(
        [line(0, GEMM, "s", "Duration", "us", "50"), line(0, GEMM, "s", "DRAM Throughput", "%", "40")],
        [line(0, THEIR_GEMM, "s", "Duration", "us", "45"), line(0, THEIR_GEMM, "s", "DRAM Throughput", "%", "60"),
         line(1, "relu", "s", "Duration", "us", "5")],
    )  # fmt: skip
    chosen = ("kernel", "grid", "metric", "before", "after", "unit", "change_ratio")
    assert [tuple(row[name] for name in chosen) for row in asked.rows()] == [
        (GEMM, "32,4,1", "dram_throughput", 40, 60, "%", 0.5),
        (GEMM, "32,4,1", "duration", 50_000, 45_000, "ns", -0.1),
        ("relu", "32,4,1", "duration", None, 5_000, "ns", None),
    ]
    assert "before: 1 launch of 1 kernel measured by Nsight Compute" in asked.note


def test_a_kernel_of_another_grid_is_compared_where_none_of_its_own_is_left(compared):
    wide = line(0, GEMM, "s", "Duration", "us", "20").replace("(32, 4, 1)", "(64, 4, 1)")
    (row,) = compared([line(0, GEMM, "s", "Duration", "us", "50")], [wide]).rows()
    assert (row["grid"], row["block"], row["before"], row["after"]) == (None, "256,1,1", 50_000, 20_000)


def test_recordings_without_counters_have_no_row(compared, tmp_path):
    (tmp_path / "trace.json").write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'
    )
    assert stepscope.metrics_diff(tmp_path / "trace.json", tmp_path / "trace.json", cache=False).rows() == []
