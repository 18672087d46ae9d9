"""Reads literal profiles, and says what they became."""

from pathlib import Path

from stepscope.formats.container import members
from stepscope.formats.registry import format_of
from stepscope.formats.tables import RankTables


def read_text(folder: Path, text: str, name: str = "profile.txt") -> tuple[str, RankTables]:
    """The name of the format that takes a text, and the tables that its reader makes."""
    file = folder / name
    file.write_text(text)
    (member,) = members(file)
    known = format_of(member)
    return known.name, known.read(member, None)


def stacks(tables: RankTables) -> list[tuple[str | None, str | None, int | None, int | None]]:
    """Thread, frames, samples and time of each row of `stack_sample`."""
    frames = {one["stack_id"]: one["frames"] for one in tables.call_stack.to_pylist()}
    thread = {one["thread"]: one["thread_name"] or one["tid"] for one in tables.thread.to_pylist()}
    return [
        (thread.get(row["thread"]), frames.get(row["stack_id"]), row["weight"], row["sampled_ns"])
        for row in tables.stack_sample.to_pylist()
    ]
