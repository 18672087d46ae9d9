"""Shows in the terminal what a run of `stepscope record` has written."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.base.errors import StepScopeError
from stepscope.base.ranks import this_process
from stepscope.cli.choices import typed_sources
from stepscope.cli.script.all_ranks import of_one_rank, soon_read, wrote_phases
from stepscope.cli.script.notes import TRACE, has_no_step, note_others, note_unfinished
from stepscope.cli.terminal.invoked_as import invoked_as
from stepscope.cli.terminal.printing import print_err, print_out

if TYPE_CHECKING:
    from stepscope.record.on_demand.listener import OnDemand
    from stepscope.record.traces.tracing import Tracer

_PID = re.compile(r"\.pid(\d+)[.-]")
"""Part of a file's name if another process had the name without it."""
_CAPTURE = re.compile(r"\.capture\d+-\d+-of-\d+\.json\.gz$")


class RecordedFiles:
    """The files that a run writes into its folder, as opposed to older ones; created before the run.

    Args:
        out: the folder.
        tracer: the tracer, if there is one: it reports itself why it wrote nothing.
    """

    def __init__(self, out: Path, tracer: Tracer | OnDemand | None) -> None:
        self._out = out
        self._tracer = tracer
        self._before = _files(out)

    def show(self, written: list[Path]) -> None:
        """Names the files of a finished run, including `written`, and shows answers from them."""
        sys.stdout.flush()
        new = self._name(written)
        if not new:
            return
        process = this_process()
        note_others(self._before, new, process.world_size)
        if self._show_each(new, process.world_size):
            name = invoked_as()
            print_err(
                f"Ask more of it: {name} --help, then {name} QUESTION {_where(new, single_rank=process.world_size == 1)}"
            )

    def name_alone(self, why: str = "The script left past Python's exit (os._exit or SIGTERM).") -> None:
        """Only names the files of a run that ends too late for answers."""
        new = self._name([])
        if not new:
            return
        if all(map(has_no_step, new)):
            print_err(f"{why} No step was counted yet: the first ones do not count.")
        else:
            print_err(f"{why} Ask: {invoked_as()} summary {_where(new)}")

    def _show_each(self, new: list[Path], ranks: int) -> bool:
        """Shows the answers that the files give; returns whether there was one."""
        phases = any(path.name.endswith(".phases.json") for path in new)
        of_all = phases and wrote_phases(lambda: _files(self._out), self._before, ranks)
        captures = [path for path in new if _CAPTURE.search(path.name)]
        traced = [path for path in new if TRACE.fullmatch(path.name) and path not in captures]
        only_new = set(_files(new[0].parent)) == set(new)  # the folder has no older files
        together = of_all and traced and soon_read(_files(self._out))
        was_shown = _show("summary", [self._out]) if together else False
        for path in new:
            if together and not path.name.endswith((".prof.json", ".speedscope.json")):
                continue
            if path.name.endswith(".phases.json"):
                # With the trace, in its summary, unless other ranks have phases too.
                if of_all or not traced:
                    was_shown |= _show("phases", [self._out if of_all else path], one_rank=of_all)
            elif path in traced:
                phase_files = [] if of_all else [path for path in new if path.name.endswith(".phases.json")]
                sources = [path, *captures, *phase_files]
                folder = [path.parent] if only_new and len(traced) == 1 else sources
                was_shown |= _show("summary", sources, typed=folder)
            elif path.name.endswith(".prof.json"):
                # With the phases, which cover all steps: one mean, and one throughput.
                phase_files = [path for path in new if path.name.endswith(".phases.json")]
                was_shown |= _show("inline", [path, *phase_files])
            elif path.name.endswith(".speedscope.json"):
                was_shown |= _show("hotspots", [path])
            if path.name.endswith(".prof.json"):
                note_unfinished(path)
        return was_shown

    def _name(self, written: list[Path]) -> list[Path]:
        """Names the files of this run; under a launcher only rank 0 reports, and only its own files."""
        from stepscope.record.recording import SCRIPT_FOLDERS

        process = this_process()
        if process.rank != 0:
            return []
        mine = (f".{process.rank}.prof.json", f".{process.rank}.phases.json")
        # The files of a script that exits early are only known from its folder.
        of_rank = {
            path
            for path, when in _files(self._out).items()
            if self._before.get(path) != when
            and (path.name.endswith(mine) or f"-{process.rank}-of-{process.world_size}." in path.name)
        }
        new = sorted(set(written) | _of_this_process(of_rank))
        script_folders = [
            str(folder) for folder in dict.fromkeys(SCRIPT_FOLDERS) if folder != self._out and folder.is_dir()
        ]
        if script_folders:
            also = "also " if new else ""
            print_err(f"note: the script {also}recorded by itself, into {', '.join(script_folders)}")
        # A tracer that has started warns itself about what it did not record.
        elif not new and (self._tracer is None or "torch" not in sys.modules):
            print_err(_no_recording_text())
        for path in new:
            instead = ", in place of an earlier one" if path in self._before else ""
            print_err(f"wrote {path}{instead}")
        return new


def _of_this_process(paths: set[Path]) -> set[Path]:
    """Removes files of another job that uses the folder; one of the two jobs has the process number in its names."""
    numbers = {path: match[1] for path in paths if (match := _PID.search(path.name))}
    pid = str(os.getpid())
    return {path for path in paths if numbers.get(path, "") == (pid if pid in numbers.values() else "")}


def _files(out: Path) -> dict[Path, int]:
    """The recordings in a folder and their modification times; none if it cannot be read."""
    times = {}
    with contextlib.suppress(OSError):
        for path in out.iterdir():
            if path.name.endswith((".json", ".json.gz")) and not path.name.startswith("."):
                # Another rank or a clean-up may delete it meanwhile.
                with contextlib.suppress(OSError):
                    times[path] = path.stat().st_mtime_ns
    return times


def _where(new: list[Path], *, single_rank: bool = True) -> str:
    """The files of a run as arguments of a command: the file of a single rank, or the folders. A full or unwritable
    folder has some of them or none.
    """
    places = new if len(new) == 1 and single_rank else dict.fromkeys(path.parent for path in new)
    return typed_sources([str(place) for place in places])


def _no_recording_text() -> str:
    if "torch" not in sys.modules:
        return "stepscope: nothing was recorded: the script did not import torch in this process"
    return (
        "stepscope: nothing was recorded; the script may have ended before the first steps were "
        "over, has no optimizer that steps, or one in compiled code alone (`with stepscope.inline.iteration():` says where a "
        "step is), or trains in "
        "processes that it starts itself (torchrun --no-python stepscope record ... records each)"
    )


def _show(question: str, sources: list[Path], *, typed: list[Path] | None = None, one_rank: bool = False) -> bool:
    """Shows an answer from some files; returns whether that worked.

    Args:
        typed: paths with the same contents for command lines; None for the files.
        one_rank: of a folder of several ranks, show only as few rows as for one.
    """
    from stepscope.api.trace import open_trace
    from stepscope.cli.terminal.output import print_answer
    from stepscope.report.text import MAX_ROWS

    try:
        with open_trace(*sources) as trace:
            print_out("\n")
            answer = trace.ask(question)
            print_answer(
                of_one_rank(answer) if one_rank else answer,
                max_rows=MAX_ROWS,
                source=typed_sources([str(source) for source in typed or sources]),
            )
    except StepScopeError as error:
        # The job has done its work, so an answer that cannot be shown is not its failure.
        hint = f"\n  {error.hint}" if error.hint else ""
        print_err(f"stepscope: {error.message}{hint}")
        return False
    except Exception as error:
        if isinstance(error, BrokenPipeError):
            raise
        print_err(f"stepscope: {sources[0]} cannot be shown: {type(error).__name__}: {error}")
        return False
    return True
