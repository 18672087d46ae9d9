"""Reads recordings in object stores and on web servers: `s3://bucket/run/`, `https://host/trace.json.gz`.

fsspec copies them to a temporary folder, where they are read and deleted: readers look at a file more than once, and at
a database from its end. A URL is passed as a path, whose two slashes pathlib makes one.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from stepscope.base.errors import SourceError, StepScopeError, UsageError
from stepscope.store.progress import Progress

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp"}  # fmt: skip
"""Schemes of URLs that can be read, with the package that fsspec needs for each."""

_URL = re.compile(rf"({'|'.join(PACKAGES)}):/+(.+)", re.DOTALL)
_VERSION = ("ETag", "etag", "LastModified", "Last-Modified", "last_modified", "updated", "mtime")
"""File systems' names for a value that changes when a file does, the best first."""
_BLOCK = 4 << 20
_MAX_FILES = 100_000

ERRORS = {
    "remote-package": (
        "fsspec reads each kind of object store through another package: `pip install s3fs` for `s3://`, "
        "`gcsfs` for `gs://`, `adlfs` for `az://` and `abfs://`, `aiohttp` for `https://`."
    ),
    "remote-unreadable": (
        "A file or folder of an object store or a web server cannot be listed or read. Credentials and "
        "endpoints are those of the package that reads it: for `s3://` the variables of AWS, and "
        "`FSSPEC_S3_ENDPOINT_URL`, `FSSPEC_S3_ANON=true` for a public bucket. From a web server only single "
        "files are read, not folders."
    ),
}


class _RemoteFiles(NamedTuple):
    """What is behind a URL: the files below `root`, with the size of each, and what changes when they do; None for a
    size or a version that the server does not state."""

    system: AbstractFileSystem
    root: str
    files: dict[str, int | None]
    version: list[str] | None


def is_remote(path: Path | str) -> bool:
    """Whether a source is a URL.

    Example:
        >>> is_remote(Path("s3://bucket/run")), is_remote(Path("run/s3"))
        (True, False)
    """
    return _URL.fullmatch(os.fspath(path)) is not None


def missing(path: Path) -> SourceError:
    """The error for a source that is not a file, a folder or a URL that can be read."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/*", os.fspath(path))
    if scheme is None:
        return SourceError(f"{path}: no such file or folder", hint="check the path", slug="no-such-file")
    read = ", ".join(f"{name}://" for name in PACKAGES)
    place = os.fspath(path)[scheme.end() :]
    wrong = "is not read" if place else "names no place"
    return SourceError(
        f"{scheme[1]}://{place} {wrong}",
        hint=f"give a file, a folder, or a file or folder of {read}, in small letters",
        slug="no-such-file",
    )


def without_credentials(path: Path | str) -> str:
    """A URL for messages: without the secrets in a signed one, or one with a password.

    Example:
        >>> without_credentials(Path("https://me:secret@host/t.json?X-Amz-Signature=1"))
        'https://host/t.json'
    """
    scheme, place = _parts(path)
    host, slash, path_in_host = place.partition("/")
    if scheme in ("http", "https"):
        path_in_host = re.split(r"[?#]", path_in_host)[0]
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path_in_host}"


def remote_version(path: Path) -> list[str] | None:
    """What changes when the files behind a URL do; None if the server does not say. Raises as `copied`."""
    return _list_files(path).version


@contextmanager
def copied(path: Path, progress: Progress) -> Iterator[Path]:
    """A temporary copy of what is behind a URL. Its path in the temporary folder gives the URL
    (`formats.container.display_name`).

    Raises:
        SourceError: it cannot be listed or read, or is larger than half of the free disk space.
        UsageError: a package is missing.
        OSError: the copy cannot be written.
    """
    # Imported here: queries of a store must not wait for the readers.
    from stepscope.formats.container import COPIED

    remote_files = _list_files(path)
    folder = Path(tempfile.mkdtemp(prefix=COPIED))
    try:
        named = without_credentials(path)
        target = folder.joinpath(*_names(named.replace("://", "/", 1), named))
        sizes = remote_files.files.values()
        total = None if None in sizes else sum(size or 0 for size in sizes)
        limit = shutil.disk_usage(folder).free // 2
        progress.start(f"Copying {named}", total=total, unit="bytes")
        for name, size in remote_files.files.items():
            below = name.removeprefix(remote_files.root).strip("/")
            file = target.joinpath(*_names(below, named)) if name != remote_files.root else target
            file.parent.mkdir(parents=True, exist_ok=True)
            with _refusing(path):
                stream = remote_files.system.open(name, "rb", block_size=_BLOCK)
            with stream, file.open("xb") as copy:  # in a folder that mkdtemp made for us alone
                limit -= _copy(path, stream, size, copy, limit, progress)
        progress.finish()
        yield target
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(path: Path, stream: Any, size: int | None, copy: BinaryIO, limit: int, progress: Progress) -> int:
    """Copies a file of at most `limit` bytes; returns its size."""
    written = 0
    while True:
        with _refusing(path):
            block = stream.read(_BLOCK)
        if not block:
            break
        written += len(block)
        if written > limit:
            raise _unreadable(path, f"takes more than half of what {tempfile.gettempdir()} has free")
        copy.write(block)
        progress.advance(len(block))
    if size is not None and written != size:
        raise _unreadable(path, f"ended after {written} of {size} bytes")
    return written


def _list_files(path: Path) -> _RemoteFiles:
    import fsspec

    scheme, place = _parts(path)
    try:
        with _refusing(path):
            system, root = fsspec.core.url_to_fs(f"{scheme}://{place}")
            system.invalidate_cache()  # of earlier listings by this process
            info = system.info(root)
            infos = {root: info}
            if info.get("type") == "directory":
                infos = system.find(root, detail=True)
    except ImportError:
        raise UsageError(
            f"{scheme}:// needs a package that is not installed",
            hint=f"pip install {PACKAGES[scheme]}",
            slug="remote-package",
        ) from None
    if not infos or len(infos) > _MAX_FILES:
        raise _unreadable(path, "has no files" if not infos else f"has {len(infos)} files")
    if any(name.endswith("/store.json") for name in infos):
        raise _unreadable(path, "holds a store", "copy it to this machine and ask it there")
    described = [
        (
            f"{name} {info_of_file.get('size')}",
            next((str(info_of_file[key]) for key in _VERSION if info_of_file.get(key)), ""),
        )
        for name, info_of_file in sorted(infos.items())
    ]
    sizes = {name: info_of_file.get("size") for name, info_of_file in infos.items()}
    has_versions = all(version for _, version in described)
    return _RemoteFiles(
        system, root, sizes, [" ".join(info_of_file) for info_of_file in described] if has_versions else None
    )


def _parts(path: Path | str) -> tuple[str, str]:
    match = _URL.fullmatch(os.fspath(path))
    if match is None:
        raise ValueError(f"{path} is no URL")
    return match[1], match[2]


def _names(place: str, named: str) -> list[str]:
    """The folders and the file of a place, none of which leads out of the copy."""
    names = [name for name in place.split("/") if name]
    if ".." in names or "." in names or any("\0" in name or len(name) > 255 for name in names):
        raise SourceError(
            f"{named}: {place!r} is not the name of a file here",
            hint="copy the files to this machine and give their folder",
            slug="remote-unreadable",
        )
    return names


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turns the errors of any package that reads a URL into ours: they have no common class."""
    try:
        yield
    except (StepScopeError, ImportError, MemoryError):
        raise
    except Exception as error:
        # Its text may quote a signed URL. For every error of a web server, fsspec says that there is no file.
        cause = error.__cause__ or error
        status = getattr(cause, "status", None)
        if status is not None:
            reason = f"the server answered {status}"
        elif isinstance(error, FileNotFoundError) and not _parts(path)[0].startswith("http"):
            reason = "there is nothing there"
        else:
            reason = f"cannot be read ({type(cause).__name__})"
        raise _unreadable(path, reason) from None


def _unreadable(path: Path, what: str, hint: str = "") -> SourceError:
    return SourceError(
        f"{without_credentials(path)}: {what}",
        hint=hint or "check the address, and that the package that reads it finds its credentials",
        slug="remote-unreadable",
    )
