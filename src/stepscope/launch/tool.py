"""What a tool is: how its command line is made, what it writes, and how one knows that this is complete.

To add one: a file in `launch/tools/` that declares a `Tool`, and its name in `launch/tools/__init__.py`.
Nothing else asks for a tool's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from stepscope.floor.captured_steps import StepRange
from stepscope.floor.errors import UsageError

ERRORS = {
    "tool-option": (
        "The tool does not do what was asked, in the version that was found; the message says what. Options of the tool "
        "itself stand between two `--`: `stepscope launch --tool nsys -- --cuda-memory-usage=true -- python train.py`."
    )
}

Way = Literal["around", "inside", "record"]

Need = Literal[
    "gpu-counters", "perf-events", "hardware-events", "temporary-space", "one-cupti", "ptrace", "ptrace-any", "ncu-lock"
]


@dataclass(frozen=True, slots=True)
class Request:
    """What one process was asked to record, and with which version of the tool.

    Args:
        stem: the path of its output, absolute and without an ending; no other process has it. What a tool
            writes is the stem and something after it.
        version: of the tool that was found, as (2022, 4, 2); empty where it is not known, and then taken for a
            new one.
        steps: those that matter; None: all, or those that the command marks itself.
        capture: how the command starts and stops the tool, one of `SIGNALS`; None: it does not.
        delay_s, duration_s: when to start after the command, and for how long, in seconds; None: not limited.
        wanted: the value of `--set`; None: what the tool does by itself.
        options: given on, to the tool itself.
        nvtx: the script writes NVTX ranges that are to be kept.
        kernels: names of the kernels that are to be recorded, however demangled; none: all.
        metrics: names of the metrics that are to be recorded, nvprof's or the tool's own.
    """

    stem: Path
    version: tuple[int, ...] = ()
    steps: StepRange | None = None
    capture: str | None = None
    delay_s: float | None = None
    duration_s: float | None = None
    wanted: str | None = None
    options: tuple[str, ...] = ()
    nvtx: bool = False
    kernels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def literal_stem(self) -> str:
        """The stem for a tool that fills in `%p`, `%q{NAME}` and others, and for which `%%` is a `%`."""
        return str(self.stem).replace("%", "%%")

    def is_older(self, *than: int) -> bool:
        """Whether the tool is known to be older than this version."""
        return bool(self.version) and self.version < than

    def merged(self, own: Sequence[str], short: Mapping[str, str] | None = None) -> list[str]:
        """Our options, each one word (`--trace=cuda`), and then the user's, which replace those of ours.

        Args:
            own: our options.
            short: the long names of the tool's short options: {"-t": "--trace"}.

        >>> Request(Path("a"), options=("-t", "osrt")).merged(["--trace=cuda"], {"-t": "--trace"})
        ['-t', 'osrt']
        """
        given = {_flag(word, short or {}) for word in self.options if word.startswith("-")}
        return [*(word for word in own if _flag(word, {}) not in given), *self.options]


def _flag(word: str, short: Mapping[str, str]) -> str:
    return word.partition("=")[0] if word.startswith("--") else short.get(word[:2], word)


@dataclass(frozen=True, slots=True)
class Written:
    """One kind of file, or folder, that a tool writes.

    Args:
        patterns: its name, as globs, one a version; `{stem}` is the name of the request's stem.
        lacks: gives what is missing in such a file, in words; empty where it is complete. It gets the file and
            the tool's executable.
        required: a run without any is reported.
    """

    patterns: tuple[str, ...]
    lacks: Callable[[Path, str], str]
    required: bool = True

    def found(self, stem: Path) -> list[Path]:
        """The files of this kind that belong to a stem, by name."""
        return self._glob(stem.parent, _literal(stem.name))

    def found_in(self, folder: Path) -> list[Path]:
        """The files of this kind in a folder, of whatever stem, by name."""
        return self._glob(folder, "*")

    def _glob(self, folder: Path, stem: str) -> list[Path]:
        globs = [pattern.replace("{stem}", stem) for pattern in self.patterns]
        return sorted({path for glob in globs for path in folder.glob(glob)})


def _literal(text: str) -> str:
    """A text that means itself in a glob."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)


@dataclass(frozen=True, slots=True)
class Tool:
    """A profiler that `stepscope launch` can start.

    Args:
        name: what `--tool` takes.
        about: what it records, in one line.
        way: what starts what. `around`: the tool starts the command, its last argument; what it really starts is
            our starter, and the command below that, so it has to follow child processes. `inside`: variables of the
            environment switch it on in the command, which writes lines that start with one of `prefixes` to its output.
            `record`: it is `stepscope record`, which runs the command's script.
        executables: its names on the PATH, the first that is found counts.
        arguments: its arguments for a request, up to the command; raises UsageError for what it cannot do.
        environment: variables that are set for it and the command.
        written: what it writes.
        sets: what `--set` takes, a word in capitals for any text; empty where it takes none.
        captures: the signals by which a command can start and stop it, the best first; empty where it cannot.
        delays: which of `--delay` and `--duration` it knows.
        needs: what has to be allowed or there, for the preflight.
        set_needs: what a set needs besides.
        takes_turns: what processes of a node wait for where several run under it, in words; empty where for nothing.
        version_arguments: print its version, which the first number with a dot in the output is.
        oldest: the first version of which the options here are known; older ones get a warning.
        takes: what else of a request it takes: `kernels`, `metrics`.
        query_metrics: arguments that list the metrics it can record; empty where it cannot.
        finalize: gives arguments that finish a raw result later, on another machine, and none for one that is
            finished; None where the run finishes results.
        prefixes: for `inside`, with what a line of its output starts; such lines go into `{stem}.NAME.txt`.
        nothing: why a run that went well may leave no file, in words.
        reads: the name of the format by which StepScope reads it; empty where it reads none of it.
        question: what to ask of it first.
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
    nothing: str = ""
    reads: str = ""
    question: str = "summary"

    def check(self, request: Request) -> None:
        """Refuses what the tool cannot do, before anything runs.

        Raises:
            UsageError: a set that it does not know, a delay, duration, kernels, metrics or ranges.
        """
        if request.wanted is not None and not self.sets:
            raise self.refusal("has no --set", "leave it out, or give options of its own between two --")
        # A word in capitals stands for any text.
        if request.wanted not in (None, *self.sets) and not self.sets[0].isupper():
            raise self.refusal(f"has no set {request.wanted}", f"name one of: {', '.join(self.sets)}")
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
