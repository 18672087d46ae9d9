"""Finishes raw results that a tool left on a compute node, outside of the job."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepscope.base.errors import StepScopeError
from stepscope.launch.preflight import executable_of
from stepscope.launch.tools import all_tools

ERRORS = {
    "nothing-to-finalize": (
        "This folder has no raw result of a tool whose results are finished after the run (`vtune`), or all of "
        "them are finished."
    ),
    "not-finalized": (
        "The tool could not finish one of its raw results; its message is above the error. The result is unchanged."
    ),
}


@dataclass(frozen=True, slots=True)
class RawResult:
    """A result that its tool has not finished, and the command line that finishes it."""

    path: Path
    words: Sequence[str]

    def finish(self) -> None:
        """Runs the tool, whose output goes where ours does; StepScopeError if it failed."""
        code = subprocess.run(self.words, stdin=subprocess.DEVNULL, check=False).returncode  # noqa: S603
        if code:
            raise StepScopeError(
                f"{self.path}: {self.words[0]} ended with exit code {code}",
                hint="see what it says above; run this command again once that is cured",
                slug="not-finalized",
            )


def raw_results(folder: Path) -> Iterator[RawResult]:
    """Finds the raw results in a folder, by name, and the commands that finish them.

    Raises:
        StepScopeError: there are none, or their tool is not on the PATH.
    """
    is_any = False
    for tool in all_tools().values():
        if tool.finalize is None:
            continue
        for path in sorted({path for kind in tool.written for path in kind.find_in(folder)}):
            if arguments := tool.finalize(path.absolute()):
                is_any = True
                yield RawResult(path, [executable_of(tool), *arguments])
    if not is_any:
        raise StepScopeError(
            f"{folder}: no raw result of a profiler",
            hint="name the folder that `stepscope launch -o` was given",
            slug="nothing-to-finalize",
        )
