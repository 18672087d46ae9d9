"""A directory with the stores of several jobs, and the list of them.

The recordings of one job make one store. If files turn out to be of several jobs, each has a store in a folder of its
own, which can be opened by itself, and a `store.json` beside them lists them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stepscope.store.manifest import damaged_store, read_store_file, write_store_file

_UNPLAIN = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job whose store is kept, what distinguishes it from the others, and its store's folder in the directory; empty
    if the directory is the store."""

    name: str
    about: str = ""
    folder: str = ""


def stored_jobs(directory: Path) -> list[StoredJob]:
    """The jobs whose stores are in a directory; a store is one job's.

    Raises:
        StoreError: it is not a store, cannot be read, or is of another version.
    """
    facts = read_store_file(directory)
    if "jobs" not in facts:
        return [StoredJob(str(facts.get("job") or directory.name))]
    try:
        jobs = [StoredJob(**job) for job in facts["jobs"]]
        plain = all(job.folder and Path(job.folder).name == job.folder for job in jobs)
    except TypeError as error:
        raise damaged_store(directory, str(error)) from None
    if not plain or not jobs:
        raise damaged_store(directory, "it names no folders of its own")
    return jobs


def write_jobs(directory: Path, jobs: Sequence[StoredJob], facts: Mapping[str, Any]) -> None:
    """Writes the list of the stores of several jobs, when they are complete."""
    write_store_file(directory, {**facts, "ranks": [], "jobs": [asdict(job) for job in jobs]})


def folders_for(names: Sequence[str]) -> list[str]:
    """A distinct folder name for each job.

    >>> folders_for(["a/b", "a b", "c"])
    ['a-b', 'a-b-2', 'c']
    """
    folders: list[str] = []
    for name in names:
        plain = _UNPLAIN.sub("-", name).strip(".-")[:80] or "job"
        taken = {folder.casefold() for folder in folders}
        number, folder = 1, plain
        while folder.casefold() in taken:
            number += 1
            folder = f"{plain}-{number}"
        folders.append(folder)
    return folders
