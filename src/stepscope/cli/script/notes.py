"""Notes of `stepscope record` about the files of a run."""

from __future__ import annotations

import re
from pathlib import Path

from stepscope.base.errors import StepScopeError
from stepscope.cli.terminal.printing import print_err

TRACE = re.compile(r"(.+?)(?:\.step\d+)?-\d+-of-(\d+)\.json\.gz")


def has_no_step(path: Path) -> bool:
    """Whether a recording has no step that counts, so that there is nothing to ask."""
    if not path.name.endswith((".phases.json", ".prof.json")):
        return False
    from stepscope.api.trace import open_trace

    try:
        open_trace(path).close()
    except StepScopeError as error:
        return error.slug == "nothing-measured"
    return False


def note_others(before: dict[Path, int], new: list[Path], world_size: int) -> None:
    """Notes traces of earlier runs in the folder, which questions would take for ranks of this one."""
    named = [match[1] for path in new if (match := TRACE.fullmatch(path.name))]
    others = [
        path
        for path in before
        if (match := TRACE.fullmatch(path.name)) and named and (match[1] not in named or int(match[2]) != world_size)
    ]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        print_err(
            f"note: {others[0]}{more} is of an earlier run; questions about the folder "
            "would mix both runs, so give each its own folder (-o)"
        )


def note_unfinished(path: Path) -> None:
    """Notes the events of a plan that were not measured because the script ended early."""
    from stepscope.api.inline_profiles import parse_result
    from stepscope.record.inline.documents import ENDED_FIRST

    try:
        (profile,) = parse_result(path)
    except StepScopeError:
        return  # reported with its summary
    ended = [event for event in profile["not_measured"] if event["reason"] == ENDED_FIRST]
    if not ended:
        return
    more = f" and {len(ended) - 1} more were" if len(ended) > 1 else " was"
    cure = "cut the plan down, lower its repetitions, "
    if profile["mode"] == "in_rounds":
        cure = "cut a plan of `stepscope plan` down, " if len(ended) > 1 else ""
    print_err(
        f"note: {profile['iterations_run']} iterations were too few for the plan: "
        f'"{ended[0]["label"]}"{more} not measured; {cure}or let the script run longer'
    )
