"""Declares a tool: how its command line is made, what it writes, and how to see that this is complete.

To add one: a file in `launch/tools/` that declares a `Tool`, and its name in `launch/tools/__init__.py`; or an entry
point of a package (docs/plugins.md). No other code knows a tool by name.
"""

from __future__ import annotations

import glob
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from stepscope.base.captured_steps import StepRange
from stepscope.base.errors import UsageError

ERRORS = {
    "tool-option": (
        "The installed version of the tool cannot do what was requested; the message says what. Put options "
        "of the tool itself between two `--`: `stepscope launch --tool nsys -- --cuda-memory-usage=true -- "
        "python train.py`."
    )
}

_LONGEST_ASKED_S = 120

Way = Literal["around", "inside", "record"]

Need = Literal[
    "gpu-counters", "perf-events", "hardware-events", "temporary-space", "one-cupti", "ptrace", "ptrace-any", "ncu-lock"
]


@dataclass(frozen=True, slots=True)
class Request:
    """What one process records, and with which version of the tool.

    Args:
        stem: the path of its output, absolute, without an ending, and unique to this process. Names of the tool's files
            start with the stem.
        version: the version of the installed tool, as (2022, 4, 2); empty if unknown, which counts as new.
        capture: how the command starts and stops the tool, one of `SIGNALS`; None: it does not.
        delay_s, duration_s: when to start after the command, and for how long (seconds); None: not limited.
        set_name: the value of `--set`; None: the tool's default.
        nvtx: whether NVTX ranges of the script are recorded.
        kernels: names of the kernels to record, however demangled; none: all.
        metrics: names of the metrics to record, nvprof's or the tool's own.
    """

    stem: Path
    version: tuple[int, ...] = ()
    steps: StepRange | None = None
    capture: str | None = None
    delay_s: float | None = None
    duration_s: float | None = None
    set_name: str | None = None
    options: tuple[str, ...] = ()
    nvtx: bool = False
    kernels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def literal_stem(self) -> str:
        """The stem, escaped for a tool that expands `%p`, `%q{NAME}` and others, and reads `%%` as `%`."""
        return str(self.stem).replace("%", "%%")

    def is_older(self, *than: int) -> bool:
        """Whether the tool is known to be older than this version."""
        return bool(self.version) and self.version < than

    def merged(self, ours: Sequence[str], short: Mapping[str, str] | None = None) -> list[str]:
        """Our options, each one word (`--trace=cuda`), then the user's, which replace ours.

        Args:
            ours: our options.
            short: the long names of the tool's short options: {"-t": "--trace"}.

        >>> Request(Path("a"), options=("-t", "osrt")).merged(["--trace=cuda"], {"-t": "--trace"})
        ['-t', 'osrt']
        """
        given = {_flag(word, short or {}) for word in self.options if word.startswith("-")}
        return [*(word for word in ours if _flag(word, {}) not in given), *self.options]


def _flag(word: str, short: Mapping[str, str]) -> str:
    return word.partition("=")[0] if word.startswith("--") else short.get(word[:2], word)


@dataclass(frozen=True, slots=True)
class Written:
    """A kind of file or folder that a tool writes.

    Args:
        patterns: globs for its name, one per version of the tool; `{stem}` is the name of the request's stem.
        lacks: returns what is missing in such a file, in words; empty if it is complete. It gets the file and the
            tool's executable.
        required: whether a run without any is reported.
    """

    patterns: tuple[str, ...]
    lacks: Callable[[Path, str], str] = lambda file, _: "" if file.stat().st_size else "it is empty"
    required: bool = True

    def find(self, stem: Path) -> list[Path]:
        """The files of this kind with a stem, by name."""
        return self._glob(stem.parent, glob.escape(stem.name))

    def find_in(self, folder: Path) -> list[Path]:
        """The files of this kind in a folder, with any stem, by name."""
        return self._glob(folder, "*")

    def _glob(self, folder: Path, stem: str) -> list[Path]:
        names = [pattern.replace("{stem}", stem) for pattern in self.patterns]
        return sorted({path for name in names for path in folder.glob(name)})


@dataclass(frozen=True, slots=True)
class Tool:
    """A profiler that `stepscope launch` can start.

    Args:
        way: what starts what. `around`: the tool starts the command, its last argument; that is our starter, with the
            command below, so the tool must follow child processes. `inside`: environment variables enable it in the
            command, which prints lines that start with one of `prefixes`. `record`: it is `stepscope record`, which
            runs the command's script.
        executables: its names on the PATH; the first one found is used.
        arguments: makes its arguments for a request, up to the command; raises UsageError for what it cannot do.
        environment: variables set for it and the command.
        sets: values of `--set`, a word in capitals for any text; empty if it has none.
        captures: the signals by which a command can start and stop it, the best first; empty if it cannot.
        delays: which of `--delay` and `--duration` it supports.
        needs: what must be allowed or present, for the preflight.
        set_needs: what a set needs in addition.
        takes_turns: what several processes of a node under it wait for, in words; empty if nothing.
        version_arguments: make it print its version, the first number with a dot in the output.
        oldest: the first version whose options are known here; older ones get a warning.
        takes: what else of a request it supports: `kernels`, `metrics`.
        query_metrics: arguments that list the metrics it can record; empty if it cannot.
        finalize: returns arguments that finish a raw result later, on another machine, or none if it is finished; None
            if the run finishes results.
        prefixes: for `inside`, the starts of its lines of output; such lines go into `{stem}.NAME.txt`.
        no_file_reason: why a successful run may leave no file, in words.
        reads: the format by which StepScope reads its files; empty if it cannot.
        question: the question that a run suggests about its files, and that `--stats` asks.
    """

    name: str
    about: str
    way: Way
    arguments: Callable[[Request], list[str]] = lambda _: []
    executables: tuple[str, ...] = ()
    environment: Callable[[Request], dict[str, str]] = lambda _: {}
    written: tuple[Written, ...] = ()
    sets: tuple[str, ...] = ()
    captures: tuple[str, ...] = ()
    delays: tuple[Literal["--delay", "--duration"], ...] = ()
    needs: frozenset[Need] = field(default_factory=frozenset)
    set_needs: Mapping[str, frozenset[Need]] = field(default_factory=dict)
    takes_turns: str = ""
    version_arguments: tuple[str, ...] = ("--version",)
    oldest: tuple[int, ...] = ()
    takes: frozenset[Literal["kernels", "metrics"]] = field(default_factory=frozenset)
    query_metrics: tuple[str, ...] = ()
    finalize: Callable[[Path], list[str]] | None = None
    prefixes: tuple[bytes, ...] = ()
    no_file_reason: str = ""
    reads: str = ""
    question: str = "summary"

    def check(self, request: Request) -> None:
        """Refuses what the tool cannot do, before anything runs.

        Raises:
            UsageError: an unknown set, or an unsupported delay, duration, kernels, metrics or ranges.
        """
        if request.set_name is not None and not self.sets:
            raise self.refusal("has no --set", "leave it out, or give options of its own between two --")
        # A word in capitals stands for any text.
        if request.set_name not in (None, *self.sets) and not self.sets[0].isupper():
            raise self.refusal(f"has no set {request.set_name}", f"name one of: {', '.join(self.sets)}")
        for option, seconds in (("--delay", request.delay_s), ("--duration", request.duration_s)):
            if seconds is not None and option not in self.delays:
                raise self.refusal(f"has no {option}", "leave it out, or name steps with --steps")
        for name, given in (("kernels", request.kernels), ("metrics", request.metrics)):
            if given and name not in self.takes:
                option = "--kernels-from" if name == "kernels" else "--metrics"
                raise self.refusal(f"has no {option}", "leave it out, or take ncu")
        if self.way == "record":
            if request.nvtx:
                raise self.refusal("reads no NVTX ranges", "leave --nvtx out")
            self.arguments(request)

    def refusal(self, what: str, hint: str) -> UsageError:
        """The error for something that the tool cannot do."""
        return UsageError(f"{self.name} {what}", hint=hint, slug="tool-option")


def refused(words: Sequence[str | Path]) -> str:
    """Why the tool's own command for reading the file fails, from its last words; empty if it does not."""
    name = f"{Path(words[0]).name} {words[1]}"
    try:
        done = subprocess.run(  # noqa: S603 - the user's own tool
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_LONGEST_ASKED_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{name} could not be asked: {error}"
    if not done.returncode:
        return ""
    lines = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()
    return f"{name}: {lines[-1] if lines else done.returncode}"
