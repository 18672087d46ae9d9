"""Runs StepScope on arbitrary and malicious inputs, and fails if it does not handle one properly.

Every input is made from a seed in its own folder, and asked by separate processes with an empty cache. A trial fails if
a process prints a traceback or reports a bug in itself, exits with a code other than 0 to 3, uses more than 60 s of
processor time or 2 GB, or answers without a check that counts lost data. The same seed makes the same inputs; `--only`
repeats one kind.

    python benchmarks/fuzz.py [--inputs 300] [--seed 1] [--scale 1] [--only GLOB] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import hostile_files  # noqa: F401 - declares kinds
import hostile_lists  # noqa: F401 - declares kinds
import hostile_texts  # noqa: F401 - declares kinds
from hostile_kinds import KINDS, Kind, Laid, Place

from processes import Measured, run_forked, run_measured

MOST_S = 60.0
MOST_WALL_S = 10 * MOST_S
MOST_BYTES = 2 << 30
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
    """The result of one input: exit codes of its commands, the longest time, the largest memory."""

    kind: str
    number: int
    codes: list[int] = field(default_factory=list)
    wall_s: float = 0.0
    peak_bytes: int = 0
    wrong: list[str] = field(default_factory=list)


def run_kind(kind: Kind, number: int, seed: int, scale: float, folder: Path, *, quick: bool = False) -> Trial:
    """Makes the input of a kind and number, and runs commands on it.

    Args:
        kind, number, seed, scale: determine the input.
        folder: an empty folder.
        quick: run only one command, in a fork of this process, which starts at once.
    """
    trial = Trial(kind.name, number)
    rng = random.Random(f"{seed} {kind.name} {number}")  # noqa: S311
    place = folder / "input"
    place.mkdir()
    laid = kind.make(Place(place, rng, scale))
    for asked in laid.asked[:1] if quick else laid.asked:
        measured = (_asked_forked if quick else _asked)(laid, asked, folder)
        trial.codes.append(measured.exit_code)
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
    return trial


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

    return run_forked(run, folder, stdout=laid.stdout, most_s=MOST_WALL_S)


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
    parser.add_argument("--part", default="0/1", help="of the kinds, as in 0/4 for every fourth")
    options = parser.parse_args()

    if options.quick:
        load_all()
    first, parts = map(int, options.part.split("/"))
    kinds = [kind for kind in KINDS if fnmatch.fnmatch(kind.name, options.only)][first::parts]
    trials: list[Trial] = []
    for kind, number in sorted(shares(kinds, options.inputs), key=lambda one: KINDS.index(one[0])):
        with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
            try:
                trial = run_kind(kind, number, options.seed, options.scale, Path(folder), quick=options.quick)
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
