"""Measures the import of many ranks: here, on Dask workers with a core each, and HTA beside it.

    python benchmarks/many_ranks.py --ranks 64 --hosts 8 --size 200MB --hta-python .venv-hta/bin/python

benchmarks/README.md says how each figure is made.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from processes import Measured, run_measured

HERE = Path(__file__).resolve().parent
STEPSCOPE = [sys.executable, "-m", "stepscope"]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Import of many ranks.")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--size", default="200MB", help="uncompressed JSON of each rank")
    parser.add_argument("--dask-ranks", type=int, default=8, help="of these the workers read")
    parser.add_argument("--hta-python", type=Path, help="a Python that has HTA")
    parser.add_argument("--hta-ranks", type=int, default=4, help="of these HTA reads")
    parser.add_argument("--scratch", type=Path, help="where traces and stores go meanwhile")
    asked = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="stepscope-bench-", dir=asked.scratch))
    try:
        folder = scratch / "job"
        job = ["--shape", "job", "--ranks", str(asked.ranks), "--hosts", str(asked.hosts)]
        generate = [sys.executable, str(HERE / "generate_trace.py"), *job, "--size", asked.size]
        _run("generate", [*generate, "-o", str(folder)])
        files = sorted(folder.iterdir())
        _say(f"{len(files)} ranks, {sum(file.stat().st_size for file in files) / 1e6:.0f} MB")
        _import("import", folder, scratch / "all")
        some = scratch / "some"
        some.mkdir()
        for file in files[: asked.dask_ranks]:
            (some / file.name).symlink_to(file)
        _import(f"import of {asked.dask_ranks}", some, scratch / "here")
        took = [_on_workers(count, some, scratch) for count in (1, 2)]
        _say(f"two workers take {took[1] / took[0]:.2f} of the time of one")
        if asked.hta_python is not None:
            first = files[: asked.hta_ranks]
            hta = _run(
                "HTA load", [str(asked.hta_python), str(HERE / "hta_load.py"), *map(str, first)]
            )
            for file in files[asked.hta_ranks : asked.dask_ranks]:
                (some / file.name).unlink()
            ours = _import(f"import of {len(first)}", some, scratch / "beside")
            _say(
                f"HTA takes {hta.wall_s / ours.wall_s:.1f} times as long, {hta.cpu_s / ours.cpu_s:.1f} times the processor time"
            )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _import(what: str, folder: Path, store: Path, *more: str) -> Measured:
    return _run(what, [*STEPSCOPE, "import", str(folder), "-o", str(store), *more])


def _on_workers(count: int, folder: Path, scratch: Path) -> float:
    """Seconds of an import on so many workers with a core each; its tables are those of an import here."""
    store = scratch / f"dask{count}"
    with _cluster(count, scratch) as scheduler:
        took = _import(f"import on {count} Dask workers", folder, store, "--dask", str(scheduler))
    here = scratch / "here"
    for file in here.rglob("*.parquet"):
        if file.read_bytes() != (store / file.relative_to(here)).read_bytes():
            sys.exit(f"{file.name} differs")
    return took.wall_s


@contextlib.contextmanager
def _cluster(workers: int, scratch: Path) -> Iterator[Path]:
    file = scratch / f"scheduler{workers}.json"
    dask = [sys.executable, "-m", "dask"]
    options = ["--scheduler-file", str(file)]
    worker = [
        *dask,
        "worker",
        *options,
        "--nthreads",
        "1",
        "--memory-limit",
        "4GB",
        "--no-dashboard",
    ]
    lines = [[*dask, "scheduler", *options, "--no-dashboard", "--port", "0"]]
    lines += [
        ["taskset", "-c", str(at), *worker] for at in sorted(os.sched_getaffinity(0))[:workers]
    ]
    running = [
        subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for line in lines
    ]
    try:
        ready = (
            "import sys; from distributed import Client\n"
            "Client(scheduler_file=sys.argv[1]).wait_for_workers(int(sys.argv[2]))"
        )
        while not file.exists():
            time.sleep(0.1)
        subprocess.run([sys.executable, "-c", ready, str(file), str(workers)], check=True)
        yield file
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait()


def _run(what: str, command: list[str]) -> Measured:
    measured = run_measured(command)
    if measured.exit_code != 0:
        sys.exit(f"{what} ended with {measured.exit_code}:\n{measured.errors[-4000:]}")
    _say(
        f"{what}: {measured.wall_s:.1f} s, {measured.cpu_s:.1f} s of processor time, "
        f"{measured.peak_bytes / 1e9:.2f} GB"
    )
    return measured


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
