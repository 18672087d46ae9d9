"""The list of a store's files, `store.json`: written last, so that a directory with a valid one is a complete store.

It has the size and CRC-32 of each file, and a CRC-32 of itself. A file is compared with them when a query first needs
it. (CRC-32 takes 0.3 ms per MiB, SHA-256 three times that.) The folder of a rank may have the rows of several ranks,
which `store.json` then names (`joined.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

from stepscope.base.errors import SourceError, StoreError
from stepscope.base.quoting import path_text
from stepscope.base.regular_file import regular_file_bytes
from stepscope.schema.tables import STORE_VERSION

STORE_FILE = "store.json"
"""A directory without it is not a store, or an unfinished one."""

RESULTS_FOLDER = ".results"
"""Answers that were computed from a store (`result_cache.py`); not part of it. As a hidden folder it is not looked into
for recordings."""

UNFINISHED = ".partial-"
"""In the name of a directory in which a store is being made, or was until the import was stopped."""

_FILE = re.compile(r"rank=(\d{1,9})/([a-z_]+)\.(\d{1,9})(?:\.(\d{1,9}))?\.parquet", re.ASCII)
"""Rank, table, span; a long table continues in table.span.1.parquet, and so on."""
_BEING_MADE = re.compile(r"([a-z_]+)\.(\d{1,9})(?:\.(\d{1,9}))?\.(parquet|arrow)", re.ASCII)
"""A file of a rank while a store is made."""
RESULT = re.compile(r"[0-9a-f]{24}|\.[0-9a-f]{24}\.\d+\.part", re.ASCII)
"""The file of a cached answer, complete or being written."""
_RANK_FOLDER = re.compile(r"rank=\d{1,9}", re.ASCII)
_BLOCK = 1 << 20
_MAX_BYTES = 256 << 20
"""Largest `store.json`: that of a thousand ranks has some MB."""

ERRORS = {
    "name-not-utf8": (
        "A folder's name has bytes that are not UTF-8. Recordings with such names can be read; a store made "
        "from one must be at a path that is UTF-8."
    ),
    "not-a-store": (
        "A store is a directory with a `store.json`, made by `stepscope import SRC -o DIR`. A directory "
        "without it is not a store, or an import that did not finish."
    ),
    "store-damaged": (
        "A file of the store is missing, was changed, or was removed while the store was read. Import the "
        "recording again; damaged stores in the cache are imported again automatically. A file is compared with "
        "what was written when a question first reads its table; an answer that is stored from an earlier time "
        "reads none. `stepscope check` reads all files."
    ),
    "store-version": "The store was made by a version of StepScope with other tables. Import the recording again.",
}


def given_path(source: str | os.PathLike[str]) -> Path:
    """The path of a source that was named.

    Raises:
        SourceError: it was not; an empty name would mean the working directory.
    """
    name = os.fspath(source)
    if not name or "\0" in name:
        raise SourceError(
            f"{name!r} is not the name of a file or folder",
            hint="name the recording; `.` is the working directory",
            slug="no-such-file",
        )
    return Path(source)


def check_directory_name(directory: Path) -> None:
    """Refuses a place for a store that DuckDB cannot open.

    Raises:
        StoreError: its name is not UTF-8.
    """
    name = os.fsencode(directory)
    if name.decode("utf-8", "ignore").encode() != name:
        raise StoreError(
            f"{path_text(directory)}: a store cannot lie where a name is not UTF-8",
            hint="choose another place with -o or STEPSCOPE_CACHE, or rename it",
            slug="name-not-utf8",
        )


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a store, as `store.json` lists it.

    Args:
        place: the span, and the number of the file among those of the table and span.
        crc32: of its bytes, as in zlib.
        ranks: all whose rows it has; `rank` is the first of them.
    """

    path: Path
    rank: int
    table: str
    place: tuple[int, int]
    size: int
    crc32: int
    ranks: tuple[int, ...]


def write_store_file(directory: Path, facts: Mapping[str, Any]) -> None:
    """Makes a directory of tables a store: writes its `store.json`, with all files in it.

    Raises:
        OSError: a file cannot be read, or this one written.
    """
    files = {
        file.relative_to(directory).as_posix(): [file.stat().st_size, _crc32_of(file)]
        for file in sorted(directory.glob("rank=*/*.parquet"))
    }
    described = {"version": STORE_VERSION, **facts, "files": files}
    described["crc32"] = _crc32_of_facts(described)
    (directory / STORE_FILE).write_text(json.dumps(described, indent=1), encoding="utf-8")


def stated_in(directory: Path) -> Any:
    """The content of `store.json`, whatever it is.

    Raises:
        OSError: it cannot be read, or is no regular file.
        ValueError: it is not JSON.
        RecursionError: it is nested too deep.
    """
    return json.loads(regular_file_bytes(directory / STORE_FILE, _MAX_BYTES))


def read_store_file(directory: Path) -> dict[str, Any]:
    """The checked content of `store.json`.

    Raises:
        StoreError: the directory is not a store, a damaged one, or one of another version.
    """
    try:
        facts = stated_in(directory)
        if not isinstance(facts, dict):
            raise ValueError("no JSON object")
        crc32 = _crc32_of_facts(facts)
    except (FileNotFoundError, NotADirectoryError):
        if _has_rank_folders(directory):
            raise damaged_store(directory, f"{STORE_FILE} is missing") from None
        raise StoreError(
            f"{directory}: not a store", hint="make one with: stepscope import SRC -o DIR", slug="not-a-store"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise damaged_store(directory, f"{STORE_FILE}: {error}") from None
    version = facts.get("version")
    if "crc32" in facts and facts["crc32"] != crc32:
        raise damaged_store(directory, f"{STORE_FILE} is not as it was written")
    if version != STORE_VERSION:
        raise StoreError(
            f"{directory}: a store of version {version}; this StepScope reads version {STORE_VERSION}",
            hint="import the recording again: stepscope import SRC -o DIR",
            slug="store-version",
        )
    if "crc32" not in facts or not isinstance(facts.get("files"), dict):
        raise damaged_store(directory, f"{STORE_FILE} lists no files")
    return facts


def listed_files(directory: Path, facts: Mapping[str, Any]) -> list[StoredFile]:
    """The files of a store, in order of rank and place.

    Raises:
        StoreError: a name or a number in the list is impossible.
    """
    files = []
    joined = _joined(directory, facts)
    for name, stated in facts["files"].items():
        match = _FILE.fullmatch(name)
        if match is None or not (isinstance(stated, list) and [*map(type, stated)] == [int, int]):
            raise damaged_store(directory, f"{STORE_FILE} lists {name!r}")
        rank, table, span, part = match.groups()
        place, ranks = (int(span), int(part or 0)), joined.get(int(rank), (int(rank),))
        files.append(StoredFile(directory / name, int(rank), table, place, stated[0], stated[1], ranks))
    return sorted(files, key=lambda file: (file.rank, file.place))


def _joined(directory: Path, facts: Mapping[str, Any]) -> dict[int, tuple[int, ...]]:
    """For the first rank in each joined folder, all ranks whose rows are there."""
    groups = facts.get("joined", [])
    if not isinstance(groups, list) or not all(
        isinstance(group, list) and group and {*map(type, group)} == {int} for group in groups
    ):
        raise damaged_store(directory, f"{STORE_FILE} joins {groups!r}"[:200])
    return {group[0]: tuple(group) for group in groups}


def verify_files(directory: Path, files: Iterable[StoredFile]) -> None:
    """Compares files with what was written.

    Raises:
        StoreError: one is missing or damaged.
    """
    for file in files:
        name = file.path.relative_to(directory)
        try:
            status = file.path.stat()
            if not S_ISREG(status.st_mode) or status.st_size != file.size:
                raise damaged_store(directory, f"{name} has {status.st_size} bytes instead of {file.size}")
            crc32 = _crc32_of(file.path)
        except OSError as error:
            raise damaged_store(directory, f"{name}: {error.strerror}") from None
        if crc32 != file.crc32:
            raise damaged_store(directory, f"{name} is not as it was written")


def damaged_store(directory: Path | None, reason: str) -> StoreError:
    """The error for a store whose files are not as they were written."""
    return StoreError(
        f"{directory}: the store cannot be read ({reason})",
        hint="ask the recording itself, or import it again: stepscope import SRC -o DIR",
        slug="store-damaged",
    )


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a directory is a store, of any version, even if it has lost its `store.json`."""
    directory = Path(path)
    with contextlib.suppress(PermissionError):  # reading it later reports this
        return (directory / STORE_FILE).is_file() or _has_rank_folders(directory)
    return False


def holds_only_a_store(directory: Path) -> bool:
    """Whether deleting a directory loses nothing else: it has the files of a store, some or all, or the
    stores of several jobs, and nothing more. One without any file has nothing to lose."""
    of_jobs = _folders_of_jobs(directory)
    with os.scandir(directory) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and entry.name in of_jobs and holds_only_a_store(Path(entry.path)):
                continue
            if is_folder and _RANK_FOLDER.fullmatch(entry.name):
                is_part = _has_only(entry, _BEING_MADE)
            elif is_folder and entry.name == RESULTS_FOLDER:
                is_part = _has_only(entry, RESULT)
            else:
                is_part = not is_folder and entry.name == STORE_FILE and _is_ours(directory)
            if not is_part:
                return False
    return True


def _has_only(folder: os.DirEntry[str], names: re.Pattern[str]) -> bool:
    with os.scandir(folder) as files:
        return all(names.fullmatch(file.name) and file.is_file(follow_symlinks=False) for file in files)


def _folders_of_jobs(directory: Path) -> set[str]:
    """The folders in which a directory has the stores of several jobs."""
    if UNFINISHED in directory.name:  # the file that lists them is written last
        return {folder.name for folder in directory.glob("*/")}
    try:
        facts = stated_in(directory)
        return {str(job["folder"]) for job in facts.get("jobs", ())}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, RecursionError, AttributeError, TypeError, KeyError):
        return {folder.name for folder in directory.glob("*/") if _has_rank_folders(folder)}


def _is_ours(directory: Path) -> bool:
    """Whether `store.json` is ours, and not another program's file with that name."""
    # It may be damaged.
    if _has_rank_folders(directory) or any(map(_has_rank_folders, directory.glob("*/"))):
        return True
    try:
        facts = stated_in(directory)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and {"version", "source", "ranks"} <= facts.keys()


def _has_rank_folders(directory: Path) -> bool:
    return next(directory.glob("rank=[0-9]*/rank.*.parquet"), None) is not None


def _crc32_of(file: Path) -> int:
    crc32 = 0
    with file.open("rb", buffering=0) as stream:
        while block := stream.read(_BLOCK):
            crc32 = zlib.crc32(block, crc32)
    return crc32


def _crc32_of_facts(facts: Mapping[str, Any]) -> int:
    """The CRC-32 of everything in `store.json` except this number itself."""
    others = {name: value for name, value in facts.items() if name != "crc32"}
    return zlib.crc32(json.dumps(others, sort_keys=True).encode())
