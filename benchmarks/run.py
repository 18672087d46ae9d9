"""Measures StepScope beside other readers of the same trace, and how it scales; keeps the tables in RESULTS.md.

    make bench
    make bench BENCH_FLAGS='--parts ranks --ranks 1000'

benchmarks/README.md explains how each figure is made.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from processes import Measured, run_measured

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
STEPSCOPE = [PYTHON, "-m", "stepscope"]
BASE = [PYTHON, "-c", "import duckdb, numpy"]


@dataclass(frozen=True)
class Row:
    """A line of a table: what was run, and the medians of its runs (the largest peak)."""

    what: str
    cpu_s: float
    wall_s: float
    peak_bytes: int
    beside: str = ""


class Bench:
    """Runs programs one at a time, with a separate cache and byte code."""

    def __init__(self, asked: argparse.Namespace, scratch: Path) -> None:
        self.asked = asked
        self.scratch = scratch
        self.cache = scratch / "cache"
        self.environment = {
            "STEPSCOPE_CACHE": str(self.cache),
            # As in an installation, where modules are compiled once.
            "PYTHONPYCACHEPREFIX": str(scratch / "compiled"),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        self.small = self.generate("small.json", "--shape", "builtin", "--size", "3MB")
        self.small_store = self.store(self.small, "small")

    def generate(self, name: str, *options: str) -> Path:
        """Makes a trace, or the folder with those of a job."""
        target = self.scratch / name
        command = [PYTHON, str(HERE / "generate_trace.py"), *options, "-o", str(target)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        return target

    def store(self, source: Path, name: str) -> Path:
        """Makes the store of a source, and returns its path."""
        target = self.scratch / name
        self._run([*STEPSCOPE, "import", str(source), "-o", str(target)])
        return target

    def measure(
        self, what: str, command: Sequence[str], times: int = 1, before: Callable[[], None] = lambda: None
    ) -> Row:
        """Runs a command several times."""
        (row,) = self.in_turn({what: (command, before)}, times)
        return row

    def in_turn(self, commands: Mapping[str, tuple[Sequence[str], Callable[[], None]]], times: int) -> list[Row]:
        """Runs several commands in turn, repeatedly, so that other load on the machine affects all of them."""
        runs: dict[str, list[Measured]] = {what: [] for what in commands}
        for _ in range(times):
            for what, (command, before) in commands.items():
                before()
                runs[what].append(self._run(command))
        rows = []
        for what, own in runs.items():
            row = Row(
                what,
                statistics.median(run.cpu_s for run in own),
                statistics.median(run.wall_s for run in own),
                max(run.peak_bytes for run in own),
            )
            _say(f"{what}: {row.cpu_s:.2f} s, {row.wall_s:.2f} s by the clock, {_mb(row)}")
            rows.append(row)
        return rows

    def imported(
        self, source: Path, what: str, times: int, *prefix: str, options: Sequence[str] = ()
    ) -> tuple[Row, Path]:
        """Imports a source; returns its row and store."""
        target = self.scratch / "imported"

        def afresh() -> None:
            shutil.rmtree(target, ignore_errors=True)

        command = [*prefix, *STEPSCOPE, "import", str(source), "-o", str(target), *options]
        return self.measure(what, command, times, afresh), target

    def load(self, what: str, library: str, python: Path | str, files: Sequence[Path]) -> Row:
        """Measures another library that loads some traces."""
        return self.measure(what, [str(python), str(HERE / "loads.py"), library, *map(str, files)])

    def told(self, script: str, *options: str) -> Any:
        """The measurements that a script of this folder makes itself."""
        target = self.scratch / "told.json"
        self._run([PYTHON, str(HERE / script), *options, "-o", str(target)])
        return json.loads(target.read_text())

    def _run(self, command: Sequence[str]) -> Measured:
        measured = run_measured(command, self.environment)
        if measured.exit_code != 0:
            sys.exit(f"{' '.join(command)[:300]} ended with {measured.exit_code}:\n{measured.errors[-4000:]}")
        return measured


# -- the parts ---------------------------------------------------------------------------------------


def start(bench: Bench) -> Iterator[Row]:
    """What a command takes to answer: questions on a store of 12,000 events, asked first and again, all of them in turn."""

    def forget() -> None:
        shutil.rmtree(bench.small_store / ".results", ignore_errors=True)

    def leave() -> None:
        pass

    commands = {
        "python -c 'import duckdb, numpy'": (BASE, leave),
        "python -c 'import stepscope'": ([PYTHON, "-c", "import stepscope"], leave),
    }
    for question in ("steps", "kernels", "summary", "findings"):
        command = [*STEPSCOPE, question, str(bench.small_store)]
        commands[f"stepscope {question} STORE, first"] = command, forget
        commands[f"stepscope {question} STORE, again"] = command, leave
    base, *others = bench.in_turn(commands, 2 * bench.asked.repeat + 1)
    yield base
    yield from (_times(row, base) for row in others)


def trace(bench: Bench) -> Iterator[Row]:
    """One trace: what a person waits for, and what other tools take to load it."""
    file, repeat = bench.asked.trace or _of_size(bench, bench.asked.size), bench.asked.repeat
    _read_through(file)
    base = bench.measure("python -c 'import duckdb, numpy'", BASE, repeat)
    yield base
    ours, store = bench.imported(file, "stepscope import FILE", repeat)
    yield ours
    ask = [*STEPSCOPE, "summary", str(store)]
    yield _times(bench.measure("stepscope summary STORE, first", ask), base)
    yield _times(bench.measure("stepscope summary STORE, again", ask, repeat), base)
    for question in ("steps", "kernels", "findings"):
        command = [*STEPSCOPE, question, str(store)]
        yield _times(bench.measure(f"stepscope {question} STORE", command, repeat), base)
    page = str(bench.scratch / "page.html")
    command = [*STEPSCOPE, "report", str(store), "-o", page]
    yield bench.measure("stepscope report STORE", command, repeat)
    loads = [("DuckDB, read_json", "duckdb", PYTHON), ("json.load", "json", PYTHON)]
    loads += [
        (f"{name}, load", module.lower(), str(python))
        for name, module, python in (
            ("HTA", "hta", bench.asked.hta_python),
            ("TraceLens", "TraceLens", bench.asked.tracelens_python),
        )
        if python is not None and _has(python, module)
    ]
    for what, library, python in loads:
        yield _times(bench.load(what, library, python, [file]), ours, "the import's")


def growth(bench: Bench) -> Iterator[Row]:
    """Traces of one shape in several sizes."""
    for size in bench.asked.sizes.split(","):
        file = _of_size(bench, size)
        _read_through(file)
        row, store = bench.imported(file, f"stepscope import, {size}", 1)
        yield _rate(row, file.stat().st_size)
        file.unlink()
        for when in ("first", "again"):
            ask = [*STEPSCOPE, "summary", str(store)]
            yield bench.measure(f"stepscope summary STORE, {size}, {when}", ask)


def ranks(bench: Bench) -> Iterator[Row]:
    """Folders of many small traces of one simulated job."""
    for count in map(int, bench.asked.ranks.split(",")):
        told = "1 rank" if count == 1 else f"{count} ranks"
        job = ("--shape", "job", "--ranks", str(count), "--hosts", str(-(-count // 8)))
        folder = bench.generate("job", *job, "--size", bench.asked.rank_size)
        files = sorted(folder.iterdir())
        ask = [*STEPSCOPE, "summary", str(folder)]
        size = sum(file.stat().st_size for file in files)
        yield _rate(bench.measure(f"stepscope summary FOLDER, {told}, first", ask), size)
        yield bench.measure(f"stepscope summary FOLDER, {told}, again", ask)
        if bench.asked.hta_python is not None and count <= bench.asked.hta_ranks:
            yield bench.load(f"HTA, load, {told}", "hta", bench.asked.hta_python, files)
        shutil.rmtree(folder)
        shutil.rmtree(bench.cache, ignore_errors=True)


def cores(bench: Bench) -> Iterator[Row]:
    """The import of one trace on more and more processors."""
    file = bench.asked.trace or _of_size(bench, bench.asked.size)
    _read_through(file)
    there = sorted(os.sched_getaffinity(0))
    for count in (1, 2, 4, 8, 16):
        if count <= len(there):
            chosen = ("taskset", "-c", ",".join(map(str, there[:count])))
            words = f"stepscope import, {count} core{'' if count == 1 else 's'}"
            row, _ = bench.imported(file, words, bench.asked.repeat, *chosen)
            yield _rate(row, file.stat().st_size)


def page(bench: Bench) -> Iterator[Row]:
    """The page in Chromium with software painting: CPU is the server's. The timeline is of a synthetic store."""
    file = bench.asked.trace or _of_size(bench, bench.asked.size)
    target = bench.store(file, "shown")
    for when in ("first", "again"):
        told = bench.told("timeline_page.py", str(target), "--overview")
        yield _seen(f"overview, {when}", told, told["server_most_mb"])
    report = [*STEPSCOPE, "report", str(target), "-o", str(bench.scratch / "page.html")]
    yield bench.measure("stepscope report STORE", report, bench.asked.repeat)
    made, events = bench.scratch / "timeline", str(bench.asked.events)
    tiles = bench.told("timeline_tiles.py", "--events", events, "--store", str(made))
    peak, first_s = int(tiles["peak_mb"] * 2**20), tiles["layout_s"] + tiles["first_tile_s"]
    what = f"timeline of {bench.asked.events:,} events"
    yield Row(f"{what}, layout and first tile", tiles["both_processor_s"], first_s, peak)
    tile_s, processor_s = tiles["tile_p95_ms"] / 1e3, tiles["tile_p95_processor_ms"] / 1e3
    yield Row(f"{what}, a tile, 95th percentile", processor_s, tile_s, peak)
    shutil.rmtree(made / ".results", ignore_errors=True)  # as after an import
    told = bench.told("timeline_page.py", str(made))
    yield _seen(f"{what}, first picture; the server's memory", told, told["server_first_mb"])
    yield _seen(f"{what}, the same; the tab's memory, walking", told, told["renderer_most_mb"])


def _seen(what: str, told: Mapping[str, float], memory_mb: float) -> Row:
    tab = f"and {told['renderer_s']:.2f} s of the tab's"
    return Row(what, told["server_s"], told["picture_s"], int(memory_mb * 1e6), tab)


def job(bench: Bench) -> Iterator[Row]:
    """A folder of large ranks of one simulated job, imported on two cores, and HTA's time to load some of them."""
    folder, files = _large_job(bench, bench.asked.job)
    two = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    words = f"stepscope import FOLDER, {len(files)} ranks"
    row, _ = bench.imported(folder, words, 1, "taskset", "-c", two)
    yield _rate(row, sum(file.stat().st_size for file in files))
    if bench.asked.hta_python is not None and _has(bench.asked.hta_python, "hta"):
        some = files[: bench.asked.hta_ranks]
        loaded = bench.load(f"HTA, load, {len(some)} of them", "hta", bench.asked.hta_python, some)
        times = loaded.cpu_s / len(some) / (row.cpu_s / len(files))
        yield replace(loaded, beside=f"{times:.1f} times the import's CPU a rank")
    shutil.rmtree(folder)


def dask(bench: Bench) -> Iterator[Row]:
    """Large ranks imported by Dask workers, each pinned to a core. CPU and memory are the command's alone."""
    folder, files = _large_job(bench, bench.asked.dask_job)
    size, one_s, tables = sum(file.stat().st_size for file in files), 0.0, None
    for count in (1, 2):
        words = f"stepscope import --dask, {len(files)} ranks, {count} worker{'s' * (count > 1)}"
        with _workers(bench, count) as scheduler:
            row, store = bench.imported(folder, words, 1, options=("--dask", str(scheduler)))
        found = {
            file.relative_to(store): hashlib.sha256(file.read_bytes()).digest() for file in store.rglob("*.parquet")
        }
        if tables not in (None, found):
            sys.exit(f"{words}: not the tables that one worker made")
        tables, one_s = found, one_s or row.wall_s
        row = _rate(row, size)
        yield replace(row, beside=f"{row.beside}; {row.wall_s / one_s:.2f} of one worker's time")
    shutil.rmtree(folder)


def _large_job(bench: Bench, asked: str) -> tuple[Path, list[Path]]:
    """The folder of a job such as 64x200MB, and its files."""
    ranks, size = asked.split("x")
    hosts = str(-(-int(ranks) // 8))
    shape = ("--shape", "job", "--ranks", ranks, "--hosts", hosts, "--size", size)
    folder = bench.generate("job", *shape)
    return folder, sorted(folder.iterdir())


@contextmanager
def _workers(bench: Bench, count: int) -> Iterator[Path]:
    """Starts a Dask cluster of single-threaded workers, each on its own core; yields its scheduler file."""
    scheduler = bench.scratch / f"scheduler{count}.json"
    dask, told = [PYTHON, "-m", "dask"], ("--no-dashboard", "--scheduler-file", str(scheduler))
    there = sorted(os.sched_getaffinity(0))
    worker = [*dask, "worker", "--nthreads", "1", "--no-nanny", *told]
    programs = [[*dask, "scheduler", "--port", "0", *told]]
    programs += [["taskset", "-c", str(core), *worker] for core in there[:count]]
    running = [
        subprocess.Popen(
            program, env=os.environ | bench.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for program in programs
    ]  # fmt: skip
    ready = f"from distributed import Client; Client(scheduler_file={str(scheduler)!r}).wait_for_workers({count})"
    try:
        subprocess.run([PYTHON, "-c", ready], check=True, timeout=120)
        yield scheduler
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


PARTS = {
    "start": start, "trace": trace, "growth": growth, "ranks": ranks, "cores": cores, "page": page,
    "job": job, "dask": dask,
}  # fmt: skip
ON_REQUEST = ("job", "dask")
"""Parts that need gigabytes of disk and many minutes."""


def _of_size(bench: Bench, size: str) -> Path:
    source = bench.asked.source
    shape = ["--from", str(source), "--mark-steps"] if source else ["--shape", "builtin"]
    return bench.generate("trace.json", *shape, "--size", size)


def _times(row: Row, of: Row, whose: str = "python's") -> Row:
    return replace(row, beside=f"{row.cpu_s / of.cpu_s:.2f} times {whose} CPU")


def _rate(row: Row, size: int) -> Row:
    return replace(row, beside=f"{size / 1e6 / row.wall_s:.0f} MB/s of {size / 1e6:.0f} MB")


def _has(python: Path, module: str) -> bool:
    found = (
        python.exists()
        and not subprocess.run([str(python), "-c", f"import {module}"], check=False, capture_output=True).returncode
    )
    if not found:
        _say(f"{python} has no {module}: it is left out")
    return found


def _read_through(path: Path) -> None:
    """Reads a file, so that every program finds it in memory."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


# -- the tables --------------------------------------------------------------------------------------


def as_text(name: str, about: str, rows: Sequence[Row], load: tuple[float, float]) -> str:
    """A part's section of RESULTS.md."""
    lines = [
        f"## {name}",
        "",
        about,
        "",
        f"{_machine()} Load average of the machine before and after: {load[0]:.1f}, {load[1]:.1f}.",
        "",
        "| | CPU | by the clock | peak memory | |",
        "| --- | ---: | ---: | ---: | --- |",
        *(f"| {row.what} | {row.cpu_s:.2f} s | {row.wall_s:.2f} s | {_mb(row)} | {row.beside} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def keep(file: Path, name: str, section: str) -> None:
    """Replaces a part's section in the file; the others stay."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    head, *old = re.split(r"(?m)^(?=## )", text or "# Results of `make bench`\n\n")
    sections = {one.split("\n", 1)[0].removeprefix("## "): one.rstrip() + "\n" for one in old}
    sections[name] = section
    ordered = [sections[one] for one in PARTS if one in sections]
    file.write_text(head + "\n".join(ordered), encoding="utf-8")


def _machine() -> str:
    model = "unknown processor"
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
        model = found[1] if found else model
    except OSError:
        pass
    gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "pyarrow", "numpy"))
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return (
        f"{today}: {len(os.sched_getaffinity(0))} cores of {model}, {gib:.0f} GiB, "
        f"Python {platform.python_version()}, StepScope {version('stepscope')}, {versions}."
    )


def _mb(row: Row) -> str:
    return f"{row.peak_bytes / 1e6:.0f} MB"


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def main() -> int:
    """The command line."""
    asked = _arguments()
    if asked.scratch is not None:
        asked.scratch.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="stepscope-bench-", dir=asked.scratch))
    try:
        bench = Bench(asked, scratch)
        for name in asked.parts.split(","):
            before = os.getloadavg()[0]
            rows = list(PARTS[name](bench))
            about = " ".join((PARTS[name].__doc__ or "").split())
            section = as_text(name, about, rows, (before, os.getloadavg()[0]))
            keep(asked.output, name, section)
            sys.stdout.write(section + "\n")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    usual = ",".join(part for part in PARTS if part not in ON_REQUEST)
    parser.add_argument("--parts", default=usual, help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--trace", type=Path, help="measure on this file; else one is generated")
    parser.add_argument("--from", dest="source", type=Path, help="generate from this trace's shape")
    parser.add_argument("--size", default="465MB", help="size of the generated trace")
    parser.add_argument("--sizes", default="0.1GB,0.5GB,2GB", help="sizes for the part growth")
    parser.add_argument("--ranks", default="1,10,100", help="numbers of ranks for the part ranks")
    parser.add_argument("--rank-size", default="2MB", help="uncompressed JSON of each rank")
    parser.add_argument("--job", default="64x200MB", help="ranks and their size for the part job")
    parser.add_argument("--dask-job", default="8x200MB", help="the same for the part dask")
    parser.add_argument("--hta-ranks", type=int, default=10, help="HTA loads no more of them")
    parser.add_argument("--events", type=int, default=20_000_000, help="on the part page's timeline")
    parser.add_argument("--repeat", type=int, default=3, help="runs of what takes a short time")
    parser.add_argument("--hta-python", type=Path, help="a Python that has HTA")
    parser.add_argument("--tracelens-python", type=Path, help="a Python that has TraceLens")
    parser.add_argument("--scratch", type=Path, help="where traces and stores go meanwhile")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "RESULTS.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
