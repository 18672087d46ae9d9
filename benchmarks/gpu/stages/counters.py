"""Compares the work of products and attention by StepScope's formulas with ncu's counters.

`products.py` runs twice, under torch.profiler and under ncu; its kernels have the same order in both. ncu flushes the
caches before each kernel (its default), leaves the clocks alone here, and counts tensor-core operations with metrics
that differ between its versions: those that it offers for this device are requested.
"""

from __future__ import annotations

import csv
import re
import sys
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import stepscope
from gpu.stages.device import find_tool
from gpu.stages.kept import keep, raw_events
from gpu.stages.surroundings import DEVICE, SCRATCH, Ended, outcome_of, run
from stepscope.formats.counters.kinds import tensor_operations

PRODUCTS = Path(__file__).with_name("products.py")
FLOPS_WITHIN, BYTES_WITHIN = 0.01, 0.20
_TENSOR = re.compile(r"sm__ops_path_tensor\w*")
_INSTRUCTIONS = {
    f"smsp__sass_thread_inst_executed_op_{letter}{kind}_pred_on.sum": operations
    for letter in "fhd"
    for kind, operations in (("add", 1), ("mul", 1), ("fma", 2))
}
_BYTES = ("dram__bytes_read.sum", "dram__bytes_write.sum")


def traced(file: Path) -> Ended:
    return run([sys.executable, PRODUCTS, "--device", DEVICE, "--trace", file], 40)


def cases_of(trace: Path) -> list[dict[str, Any]]:
    """The cases in order, each with the indices of its kernels and the work by formula."""
    events = [one for one in raw_events(trace) if one.get("ph") == "X"]
    ranges = sorted(
        (one for one in events if one.get("cat") == "user_annotation" and " x " in one["name"]),
        key=lambda one: one["ts"],
    )
    starts = [one["ts"] for one in ranges]
    launched = {
        one["args"]["correlation"]: one["ts"]
        for one in events
        if one.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in one.get("args", {})
    }
    kernels = sorted((one for one in events if one.get("cat") == "kernel"), key=lambda one: one["ts"])
    with stepscope.open(trace) as recorded:
        work = sorted(recorded.ask("prof").rows(), key=lambda row: row["idx"])
    cases = [{"name": one["name"], "kernels": [], "flops": 0, "bytes": 0} for one in ranges]
    for place, kernel in enumerate(kernels):
        launch = launched.get(kernel["args"]["correlation"], kernel["ts"])
        case = cases[bisect_right(starts, launch) - 1]
        case["kernels"].append(place)
        case["flops"] += work[place]["flops"] or 0
        case["bytes"] += work[place]["bytes"] or 0
        case["ns"] = case.get("ns", 0) + round(1000 * kernel["dur"])
    return cases


def metrics_of(ncu: str) -> list[list[str]]:
    """The metrics to request from ncu: bytes of memory, operations of tensor cores and of the other pipes; then shorter
    lists.

    A single name that this ncu does not know makes it refuse all of them.
    """
    offered = set(re.findall(r"^\w+__\w+", run([ncu, "--query-metrics"], 40).printed, re.MULTILINE))
    plain = [*_BYTES, *_INSTRUCTIONS]
    known = [name for name in plain if not offered or name.removesuffix(".sum") in offered]
    tensor = [f"{name}.sum" for name in sorted(offered) if _TENSOR.match(name)]
    return [[*known, *tensor], known, list(_BYTES)]


def counted_rows(table: Path) -> list[dict[str, float]]:
    """The launches in a table of the page `raw`, in base units."""
    lines = table.read_text("utf-8", "replace").splitlines()
    head = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), None)
    if head is None:
        return []
    rows = csv.DictReader(lines[head:])
    next(rows, None)  # skips the line of units
    found = []
    for row in rows:
        values = {}
        for name, text in row.items():
            try:
                values[str(name)] = float(str(text).replace(",", ""))
            except ValueError:
                continue
        found.append(values)
    return found


def operations(values: dict[str, float]) -> float:
    """Operations of one launch; those of tensor cores are derived from their paths as in StepScope."""
    rest = sum(values.get(name, 0.0) * count for name, count in _INSTRUCTIONS.items())
    return (tensor_operations(values) or 0.0) + rest


def compared(cases: Sequence[dict[str, Any]], rows: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """Each case's work by formula beside the counts of its kernels."""
    table = []
    for case in cases:
        own = [rows[place] for place in case["kernels"]]
        flops = sum(operations(values) for values in own)
        moved = sum(values.get(name, 0.0) for values in own for name in _BYTES)
        table.append(
            {
                "case": case["name"],
                "kernels": len(own),
                "us": case.get("ns", 0) / 1e3,
                "flops": float(case["flops"]),
                "counted": flops,
                "of_formula": flops / case["flops"] if case["flops"] else None,
                "bytes": float(case["bytes"]),
                "dram": moved,
                "dram_of_formula": moved / case["bytes"] if case["bytes"] else None,
            }
        )
    return table


def main() -> int:
    found = outcome_of("counters")
    trace = SCRATCH / "products.json"
    ended = traced(trace)
    if not trace.is_file():
        found.note(f"products.py: {ended.last_line()}")
        return 1
    cases = cases_of(trace)
    ncu = find_tool("ncu")
    if ncu is None or DEVICE == "cpu":
        found.note("ncu is not here: nothing was counted" if ncu is None else "counters need a GPU")
        found.figure("cases", [{key: case[key] for key in ("name", "flops")} for case in cases])
        return 0
    report = SCRATCH / "products.ncu-rep"
    options = ["--profile-from-start", "off", "--clock-control", "none", "--force-overwrite"]
    for metrics in metrics_of(ncu):
        asked = [*options, "--metrics", ",".join(metrics), "--export", str(report)]
        measured = run([ncu, *asked, sys.executable, PRODUCTS], 70)
        print(measured.printed[-4000:])
        if report.is_file() or measured.code is None:
            break
    if not report.is_file():
        found.note(f"ncu counted nothing: {measured.last_line()}")
        return 1
    printed = run([ncu, "--import", report, "--csv", "--page", "raw", "--print-units", "base"], 40)
    table = SCRATCH / "products.csv"
    table.write_text(printed.printed, "utf-8")
    for line in keep("products", [trace, table], "ncu --export of benchmarks/gpu/stages/products.py"):
        found.note(line)
    rows = counted_rows(table)
    kernels = sum(len(case["kernels"]) for case in cases)
    if len(rows) != kernels:
        found.note(f"ncu counted {len(rows)} launches, the trace has {kernels} kernels: not compared")
        return 1
    figures = compared(cases, rows)
    found.figure("cases", figures)
    regular = [row for row in figures if "1000" not in row["case"] and row["of_formula"]]
    for kind in ("mm", "attention"):
        own = [row for row in regular if row["case"].startswith(kind)]
        found.claim(
            f"{kind}: counted operations are within {FLOPS_WITHIN:.0%} of the formula's",
            all(abs(row["of_formula"] - 1) <= FLOPS_WITHIN for row in own) if own else None,
            outside=[row["case"] for row in own if abs(row["of_formula"] - 1) > FLOPS_WITHIN],
        )
        found.claim(
            f"{kind}: counted bytes of device memory are within {BYTES_WITHIN:.0%} of the formula's",
            all(abs(row["dram_of_formula"] - 1) <= BYTES_WITHIN for row in own) if own else None,
            outside=[row["case"] for row in own if abs(row["dram_of_formula"] - 1) > BYTES_WITHIN],
        )
    found.note("what a kernel writes may stay in L2 when it ends; such bytes are not among those of device memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
