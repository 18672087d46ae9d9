"""The command of `make gpu`.

python benchmarks/gpu                     # everything, at most nine minutes
python benchmarks/gpu --only jobs,peaks   # some stages
python benchmarks/gpu --device cpu        # as far as a CPU goes, to try the stages themselves
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[0] = str(HERE.parent)

from gpu import packages  # noqa: E402 - the package is found only now
from gpu.runner import Ran, Stage, run_stages  # noqa: E402
from gpu.stages import STAGES  # noqa: E402
from gpu.summary import refuted, unsuccessful, write_summary  # noqa: E402

SECONDS = 540.0
TOO_OLD = (3, 10)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks/gpu", description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="ends then with what it has")
    parser.add_argument("--patience", type=float, default=1.0, help="times the limit of each stage")
    parser.add_argument("--only", help="names of stages, with commas")
    parser.add_argument("--wheels", type=Path, default=ROOT / "wheels", help="folder of wheels")
    parser.add_argument("--list", action="store_true", help="list the stages and end")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    return parser.parse_args()


def _chosen(only: str | None, patience: float) -> list[Stage]:
    names = None if only is None else {name.strip() for name in only.split(",")}
    unknown = sorted((names or set()) - {stage.name for stage in STAGES})
    if unknown:
        sys.exit(f"no stage is called {', '.join(unknown)}; --list has them")
    # The device, on which every figure depends, is always examined.
    return [
        replace(one, seconds=one.seconds * patience)
        for one in STAGES
        if names is None or one.needed or one.name in names
    ]


def _other_python() -> str | None:
    """The environment of `make test`, if only that one has a torch."""
    own = ROOT / ".venv" / "bin" / "python"
    if importlib.util.find_spec("torch") is None and own.is_file() and "VIRTUAL_ENV" not in os.environ:
        return str(own)
    return None


def _environment(out: Path, site: Path) -> dict[str, str]:
    """The environment of stages: files go below the folder of the run instead of the user's home."""
    scratch = out / "scratch"
    path = [str(ROOT / "src"), str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        "PATH": os.pathsep.join([str(site / "bin"), str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "XDG_CONFIG_HOME": str(scratch / "config"),
        "STEPSCOPE_CACHE": str(scratch / "cache"),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "TMPDIR": str(scratch / "tmp"),
        "KINETO_LOG_LEVEL": "6",
    }


def _prepared(out: Path) -> Path:
    """Prepares the folder of the run, without results of earlier runs."""
    for name in ("results", "logs", "scratch", "recordings"):
        shutil.rmtree(out / name, ignore_errors=True)
    for name in ("results", "logs", "scratch/tmp", "recordings"):
        (out / name).mkdir(parents=True)
    return out


def _stopped(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    began = time.monotonic()
    asked = _arguments()
    if asked.stage:
        sys.argv = [asked.stage]
        runpy.run_module(f"gpu.stages.{asked.stage}", run_name="__main__")
        return 0
    if asked.list:
        for stage in STAGES:
            print(f"{stage.name:<10} {stage.about} (at most {stage.seconds:.0f} s)")
        return 0
    if sys.version_info[:2] < TOO_OLD:
        sys.exit(f"StepScope needs Python 3.10 or newer; {sys.executable} is older")
    stages = _chosen(asked.only, asked.patience)
    other = _other_python()
    if other is not None:
        os.execv(other, [other, *sys.argv])  # noqa: S606 - the same command, by another Python
    out = _prepared(asked.output.resolve())
    site = out / "scratch" / "site"
    refused = packages.install(asked.wheels, site)
    found_in = [*sys.path, str(site)]
    lacking = packages.missing([*packages.requirements(), packages.TORCH], found_in)
    poorer = packages.missing(packages.WANTED_TOO, found_in)
    for line in refused:
        print(f"not installed: {line}")
    if lacking:
        print(f"{sys.executable} lacks: {', '.join(lacking)}\n{packages.how_to_get(lacking)}")
        return 1
    if poorer:
        print(f"Without {', '.join(poorer)} some stages do less.\n{packages.how_to_get(poorer)}")
    run = {
        "device": asked.device,
        "python": sys.executable,
        "seconds": asked.seconds,
        "lacking": ", ".join(poorer) or "nothing",
        "started": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }
    environment = {
        # Threads of several jobs on few processors would wait for one another.
        **({"OMP_NUM_THREADS": "1"} if asked.device == "cpu" else {}),
        **_environment(out, site),
        "STEPSCOPE_GPU_OUT": str(out),
        "STEPSCOPE_GPU_DEVICE": asked.device,
    }
    kept: list[Ran] = []

    def after_each(ran: list[Ran]) -> None:
        kept[:] = ran
        write_summary(out, ran, run)
        one = ran[-1]
        print(f"{time.monotonic() - began:5.0f} s  {one.stage:<10} {one.outcome}", flush=True)

    signal.signal(signal.SIGTERM, _stopped)
    try:
        run_stages(
            stages,
            lambda stage: [sys.executable, str(HERE), "--stage", stage.name],
            out,
            began + asked.seconds,
            environment,
            after_each,
        )
    except KeyboardInterrupt:
        print("stopped; what had ended is in the summary")
    shutil.rmtree(out / "scratch", ignore_errors=True)
    if not kept:
        return 1
    print((out / "summary.txt").read_text("utf-8"))
    print(f"Kept in {out}: summary.txt, summary.json, results/, recordings/, logs/")
    if unsuccessful(kept):
        return 1
    return 3 if refuted(kept) else 0


if __name__ == "__main__":
    sys.exit(main())
