"""Runs StepScope on arbitrary and malicious inputs, and fails if it does not handle one properly.

Every input is made from a seed in its own folder, and asked by separate processes with an empty cache. A trial fails if
a process prints a traceback or reports a bug in itself, exits with a code other than 0 to 3, uses more than 60 s of
processor time or 2 GB, or answers without a check that counts lost data. The same seed makes the same inputs; `--only`
repeats one kind.

    python benchmarks/fuzz.py [--inputs 300] [--seed 1] [--scale 1] [--only GLOB] [--keep FOLDER]
    python benchmarks/fuzz.py --growth [--seed 1] [--scale 1] [--only GLOB]

With `--growth` the kinds whose bytes grow with the scale are made at three sizes, of 1, 4 and 16. A kind fails if one
of them does, and if processor time or memory, without those of the smallest trace, grow faster than the bytes.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import math
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import hostile_files  # noqa: F401 - declares kinds
import hostile_growing  # noqa: F401 - declares kinds
import hostile_lists  # noqa: F401 - declares kinds
import hostile_texts  # noqa: F401 - declares kinds
from fuzz_damage import small_trace
from hostile_kinds import KINDS, Kind, Laid, Place

from processes import Measured, run_forked, run_measured

MOST_S = 60.0
MOST_WALL_S = 10 * MOST_S
MOST_BYTES = 2 << 30
SIZES = (1 / 16, 1 / 4, 1)
MAX_EXPONENT = 1.5
"""Of the growth with the bytes between two sizes: 1 is linear, 2 quadratic. A machine that others use needs room."""
LEAST_CPU_S = 0.3
LEAST_PEAK_BYTES = 60 << 20
"""Less than this is not compared."""
CODES = frozenset({0, 1, 2, 3})
UNREAD_CODES = CODES | {141}
"""Includes the exit code of a program whose output nobody reads."""

HARMLESS = frozenset({"no_steps", "no_gpu_events", "unlinked_kernel_fraction", "launch_without_kernel"})
"""Checks that also find something in sound inputs of these kinds."""

LOADED = (
    "stepscope.cli.main",
    "stepscope.cli.question_command",
    "stepscope.api.several",
    "stepscope.store.build",
    "stepscope.store.job",
    "stepscope.findings.rules",
    "stepscope.questions.checks",
    "stepscope.questions.summary",
    "stepscope.report.summary_text",
)
"""What commands import."""

START = "import sys; from stepscope.cli.main import main; sys.exit(main())"


@dataclass
class Trial:
    """The result of one input: exit codes of its commands, the longest time, the largest memory, those of the first."""

    kind: str
    number: int
    codes: list[int] = field(default_factory=list)
    wall_s: float = 0.0
    peak_bytes: int = 0
    cpu_s: float = 0.0
    first_peak_bytes: int = 0
    input_bytes: int = 0
    outcome: str = ""
    wrong: list[str] = field(default_factory=list)


def run_kind(
    kind: Kind, number: int, seed: int, scale: float, folder: Path, *, quick: bool = False, forked: bool = False
) -> Trial:
    """Makes the input of a kind and number, and runs commands on it.

    Args:
        kind, number, seed, scale: determine the input.
        folder: an empty folder.
        quick: run only one command.
        forked: in forks of this process, which start at once.
    """
    trial = Trial(kind.name, number)
    rng = random.Random(f"{seed} {kind.name} {number}")  # noqa: S311
    place = folder / "input"
    place.mkdir()
    laid = kind.make(Place(place, rng, scale))
    trial.input_bytes = sum(
        path.stat().st_size for path in place.rglob("*") if path.is_file() and not path.is_symlink()
    )
    for asked in laid.asked[:1] if quick else laid.asked:
        measured = (_asked_forked if forked else _asked)(laid, asked, folder)
        trial.codes.append(measured.exit_code)
        if not trial.outcome:
            trial.outcome, trial.cpu_s, trial.first_peak_bytes = outcome(measured), measured.cpu_s, measured.peak_bytes
        trial.wall_s = max(trial.wall_s, measured.wall_s)
        trial.peak_bytes = max(trial.peak_bytes, measured.peak_bytes)
        trial.wrong += wrong_with(measured.exit_code, measured.output, measured.errors, laid)
        # Other programs may use the processors too, which is not our fault.
        if measured.cpu_s > MOST_S or measured.wall_s > MOST_WALL_S:
            spent = f"{measured.wall_s:.0f} s, {measured.cpu_s:.0f} s of them of processors"
            trial.wrong.append(f"{asked[0]} took {spent}")
        if measured.peak_bytes > MOST_BYTES:
            trial.wrong.append(f"{asked[0]} took {measured.peak_bytes / 1e9:.1f} GB")
        if asked == ("checks", "--json") and kind.lost and not counts_loss(measured):
            trial.wrong.append("a loss without a check")
            trial.outcome = "silent about losses"
    return trial


def outcome(measured: Measured) -> str:
    """What the first command did, in words for the table."""
    text = f"{measured.output}\n{measured.errors}"
    if "bug in StepScope" in text:
        return "bug"
    if "Traceback" in text:
        return "traceback"
    if measured.exit_code in (0, 3):
        return "rows"
    if measured.exit_code < 0:
        return f"signal {-measured.exit_code}"
    return next((line.rpartition("/input")[2][:90] for line in measured.errors.splitlines() if line), "silence")


def grown(kind: Kind, seed: int, scale: float, start: Trial) -> list[Trial]:
    """Trials of one input at three sizes; the last one has the faults of their growth.

    Args:
        start: the trial of a small trace, whose time and memory are taken off.
    """
    trials = []
    for size in SIZES:
        with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
            trials.append(run_kind(kind, 0, seed, scale * size, Path(folder), quick=size < 1, forked=True))
        if trials[-1].wrong:
            break
    for small, large in pairwise(trials):
        for name, exponent in zip(("processor time", "memory"), exponents(small, large, start), strict=True):
            if exponent > MAX_EXPONENT:
                large.wrong.append(f"{name} grows with the bytes to the power of {exponent:.1f}")
    return trials


def exponents(small: Trial, large: Trial, start: Trial) -> tuple[float, float]:
    """The powers of the bytes with which processor time and memory grow, 0 for what is too little to compare."""
    ratio = math.log(max(2.0, large.input_bytes / max(1, small.input_bytes)))
    cpu = [max(LEAST_CPU_S, trial.cpu_s - min(start.cpu_s, small.cpu_s)) for trial in (small, large)]
    peak = [max(LEAST_PEAK_BYTES, trial.first_peak_bytes - start.first_peak_bytes) for trial in (small, large)]
    return math.log(cpu[1] / cpu[0]) / ratio, math.log(peak[1] / peak[0]) / ratio


def run_growth(kinds: Sequence[Kind], seed: int, scale: float) -> int:
    """Prints a line for each kind; returns how many fail."""
    failed, inputs = 0, 0
    start = min((_start() for _ in range(3)), key=lambda trial: trial.cpu_s)
    print(
        f"a small trace: {start.cpu_s:.2f} s of processors, {start.first_peak_bytes / 1e6:.0f} MB, which are taken off below"
    )
    print(f"{'kind':<46} {'MB at three sizes':>20} {'CPU s':>17} {'peak MB':>16} {'CPU^':>5} {'MB^':>5}  outcome")
    for kind in kinds:
        trials = grown(kind, seed, scale, start)
        if any("grows" in wrong for trial in trials for wrong in trial.wrong):  # once more, for a busy machine
            trials = grown(kind, seed, scale, start)
        inputs += len(trials)
        wrong = [text for trial in trials for text in trial.wrong]
        failed += bool(wrong)
        powers = [exponents(small, large, start) for small, large in pairwise(trials)] or [(0.0, 0.0)]
        print(
            f"{kind.name:<46} {_figures(t.input_bytes / 1e6 for t in trials):>20} "
            f"{_figures(max(0.0, t.cpu_s - start.cpu_s) for t in trials):>17} "
            f"{_figures(max(0, t.first_peak_bytes - start.first_peak_bytes) / 1e6 for t in trials):>16} "
            f"{max(power for power, _ in powers):>5.1f} {max(power for _, power in powers):>5.1f}  "
            f"{trials[-1].outcome}{''.join(f'  FAILED: {text}' for text in wrong)}",
            flush=True,
        )
    print(f"{inputs} inputs of {len(kinds)} kinds, {failed} kinds failed")
    return failed


def _start() -> Trial:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        return run_kind(
            Kind("small", lambda place: Laid(place.write("a.json", small_trace()))), 0, 0, 1, Path(folder), forked=True
        )


def _figures(values: Iterable[float]) -> str:
    return " ".join(f"{value:.0f}" if value >= 100 else f"{value:.2g}" for value in values)


def _asked(laid: Laid, asked: tuple[str, ...], folder: Path) -> Measured:
    command = [sys.executable, "-c", START, asked[0], os.fspath(laid.source), *asked[1:]]
    environment = {"STEPSCOPE_CACHE": str(folder / "cache"), "COLUMNS": "100"}
    return run_measured(command, environment, stdout=laid.stdout, most_s=MOST_WALL_S)


def _asked_forked(laid: Laid, asked: tuple[str, ...], folder: Path) -> Measured:
    def run() -> int:
        from stepscope.cli.main import main as stepscope

        os.environ |= {"STEPSCOPE_CACHE": str(folder / "cache"), "COLUMNS": "100"}
        sys.argv = ["stepscope", asked[0], os.fsdecode(laid.source), *asked[1:]]
        return stepscope()

    limits = {"most_s": MOST_WALL_S, "most_cpu_s": int(MOST_S * 1.2), "most_bytes": MOST_BYTES * 3 // 2}
    return run_forked(run, folder, stdout=laid.stdout, **limits)


def load_all() -> None:
    """Imports what the forks need."""
    for name in LOADED:
        importlib.import_module(name)


def wrong_with(code: int, output: str, errors: str, laid: Laid) -> Iterator[str]:
    """The faults that an exit code and both outputs show."""
    text = f"{output}\n{errors}"
    if code not in (CODES if laid.stdout == "kept" else UNREAD_CODES):
        yield f"exit code {code}"
    if "Traceback (most recent call last)" in text or "Exception ignored" in text:
        yield f"a traceback: {text.strip().splitlines()[-1][:200]}"
    if "bug in StepScope" in text:
        yield next(line for line in text.splitlines() if "bug in StepScope" in line)[:200]
    if "\x1b" in text:
        yield "an escape reaches the terminal"


def counts_loss(measured: Measured) -> bool:
    """Whether an answer counts lost data; a refused recording loses nothing."""
    if measured.exit_code != 0:
        return True
    rows = json.loads(measured.output)["rows"]
    return any(row["severity"] != "ok" for row in rows if row["check"] not in HARMLESS)


def shares(kinds: Sequence[Kind], inputs: int) -> Iterator[tuple[Kind, int]]:
    """Kinds with the number of each input, distributed as evenly as possible."""
    for at in range(inputs):
        yield kinds[at % len(kinds)], at // len(kinds)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="1 for the sizes of a full run")
    parser.add_argument("--only", default="*", help="kinds whose name matches")
    parser.add_argument("--keep", type=Path, help="a folder in which inputs that fail are kept")
    parser.add_argument("--all", action="store_true", help="print every input, not every kind")
    parser.add_argument("--quick", action="store_true", help="one question each, in forks of this")
    parser.add_argument(
        "--growth", action="store_true", help="three sizes of each kind that grows, and how their costs grow"
    )
    parser.add_argument("--part", default="0/1", help="of the kinds, as in 0/4 for every fourth")
    options = parser.parse_args()

    if options.quick or options.growth:
        load_all()
    first, parts = map(int, options.part.split("/"))
    kinds = [kind for kind in KINDS if fnmatch.fnmatch(kind.name, options.only)][first::parts]
    if options.growth:
        return min(1, run_growth([kind for kind in kinds if kind.grows], options.seed, options.scale))
    trials: list[Trial] = []
    for kind, number in sorted(shares(kinds, options.inputs), key=lambda one: KINDS.index(one[0])):
        with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
            try:
                trial = run_kind(
                    kind, number, options.seed, options.scale, Path(folder), quick=options.quick, forked=options.quick
                )
            except Exception:
                trial = Trial(kind.name, number, wrong=["the input could not be made"])
                traceback.print_exc()
            trials.append(trial)
            if trial.wrong and options.keep:
                kept = options.keep / f"{kind.name.replace(' ', '-')}-{number}"
                shutil.copytree(Path(folder) / "input", kept, symlinks=True, dirs_exist_ok=True)
        for wrong in trial.wrong:
            print(f"{kind.name} {number}: {wrong}", flush=True)
        if options.all:
            print(_line(trial.kind, [trial]), flush=True)
    print(f"{'kind':<36} {'inputs':>6}  {'exit codes':<14} {'most s':>7} {'most MB':>8}")
    for kind in kinds:
        of_kind = [trial for trial in trials if trial.kind == kind.name]
        if of_kind:
            print(_line(kind.name, of_kind))
    failed = sum(bool(trial.wrong) for trial in trials)
    print(f"{len(trials)} inputs of {len({t.kind for t in trials})} kinds, {failed} failed")
    return min(failed, 1)


def _line(name: str, trials: list[Trial]) -> str:
    codes = ",".join(sorted({str(code) for trial in trials for code in trial.codes}))
    wall, peak = max(t.wall_s for t in trials), max(t.peak_bytes for t in trials)
    mark = "  FAILED" if any(trial.wrong for trial in trials) else ""
    return f"{name:<36} {len(trials):>6}  {codes:<14} {wall:>7.1f} {peak / 1e6:>8.0f}{mark}"


if __name__ == "__main__":
    sys.exit(main())
