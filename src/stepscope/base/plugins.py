"""What other packages add to StepScope: found by their entry points, loaded once, left out if they fail.

A package says in its metadata what it adds: an entry point of the group `stepscope.questions`, for instance, leads to a
`Question`. The owner of a list asks here if a name is not one of ours, or if somebody wants all of them, so that an
ordinary command pays nothing. Code inside a training job never asks, and a command that runs a job finds nothing when
it answers afterwards.

Somebody installed the packages, so they are trusted. The working directory is not searched, though it may be on
Python's path: it often has files that others have sent.

Some plug-ins come with StepScope, in a package of ours that has entry points in a file of its own. They are found
without any search, belong to our code (what fails in them is our fault, results with them are cached), and no switch
disables them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, ParamSpec, TextIO, TypeVar

from stepscope.base.errors import StepScopeError
from stepscope.base.quoting import printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = Literal["formats", "tools", "questions", "operators", "rules", "devices"]
"""What can be added; the group of entry points is `stepscope.` and the kind."""

BUNDLED = "stepscope.bundled"
"""The package of the plug-ins that come with StepScope."""

SWITCH = "STEPSCOPE_PLUGINS"
"""The variable that disables all plug-ins of other packages if it is `no`."""

ERRORS = {
    "plug-in-failed": (
        "A package that adds something to StepScope failed; the message names it and Python's error. The "
        "fault is in that package, not in the recording: report it to the package's author. With "
        "`STEPSCOPE_PLUGINS=no` all plug-ins are left out. See [plug-ins](plugins.md)."
    ),
}

_GROUP = "stepscope."
_LONGEST = 300
_reported: set[PlugIn] = set()
_runs_a_job = False

Thing = TypeVar("Thing")
Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PlugIn:
    """An entry point of an installed package; `kind` is what it adds."""

    kind: Kind
    entry: EntryPoint
    package: str
    version: str

    def __str__(self) -> str:
        """Its name for people, with its package."""
        return f"plug-in {self.entry.name} ({_GROUP}{self.kind}) of {self.package} {self.version}"

    def leave_out(self, cause: BaseException) -> None:
        """Says once, on stderr, that it is left out and why."""
        if self in _reported:
            return
        _reported.add(self)
        sys.stderr.write(printable(f"stepscope: {self} is left out: {_words(cause)}") + "\n")

    def or_else(self, otherwise: Result, call: Callable[Given, Result]) -> Callable[Given, Result]:
        """The function; if it fails, the plug-in is left out and the result is `otherwise`."""

        @functools.wraps(call)
        def guarded(*args: Given.args, **options: Given.kwargs) -> Result:
            try:
                with _silent():
                    return call(*args, **options)
            except Exception as cause:
                self.leave_out(cause)
                return otherwise

        return guarded


@contextlib.contextmanager
def named(plug_in: PlugIn | None, error: type[StepScopeError] = StepScopeError, *, of: str = "") -> Iterator[None]:
    """Names a plug-in in the errors of a block; for None, our own code, nothing happens.

    Args:
        error: raised in place of an exception that is not a `StepScopeError`.
        of: the file that it worked on.
    """
    if plug_in is None:
        yield
        return
    try:
        with _silent():
            yield
    except StepScopeError:
        raise
    except Exception as cause:
        raise error(
            f"{of and f'{of}: '}{plug_in} failed: {_words(cause)}",
            hint=f"report it to whoever made {plug_in.package}; {SWITCH}=no leaves plug-ins out",
            slug="plug-in-failed",
        ) from cause


def _silent() -> contextlib.redirect_stdout[TextIO]:
    """Sends what a plug-in prints to stderr, because stdout is for answers."""
    return contextlib.redirect_stdout(sys.stderr)


def _words(cause: BaseException) -> str:
    text = " ".join(str(cause).split())
    return f"{type(cause).__name__}: {text[:_LONGEST]}" if text else type(cause).__name__


def stay_out() -> None:
    """From now on finds nothing in this process, because it runs somebody's training job."""
    global _runs_a_job
    _runs_a_job = True


@functools.cache
def bundled(kind: Literal["formats", "tools"], expected: type[Thing]) -> tuple[Thing, ...]:
    """The objects of a kind that come with StepScope, in the order of their declaration."""
    import pkgutil

    text = (pkgutil.get_data(BUNDLED, "entry_points.txt") or b"").decode()
    group = text.partition(f"[{_GROUP}{kind}]\n")[2].partition("\n[")[0]
    paths = [line.partition("=")[2].strip() for line in group.splitlines() if line]
    return tuple(of_type(expected, pkgutil.resolve_name(path)) for path in paths)


@functools.cache
def installed(kind: Kind) -> tuple[PlugIn, ...]:
    """The installed plug-ins of a kind, in order of package and name; none of them is loaded."""
    if are_none():
        return ()
    from importlib.metadata import distributions

    by_package: dict[str, list[PlugIn]] = {}
    for distribution in distributions(path=_search_path()):
        # A package's metadata is read only if it adds something: reading takes most of the time.
        with contextlib.suppress(Exception):  # unreadable metadata belongs to no plug-in of ours
            entries = [entry for entry in distribution.entry_points if entry.group == _GROUP + kind]
            if entries:
                package, version = str(distribution.metadata["Name"]), str(distribution.version)
                here = [PlugIn(kind, entry, package, version) for entry in entries]
                by_package.setdefault(package, here)  # Python imports the first on its path
    return tuple(
        plug_in
        for _, here in sorted(by_package.items())
        for plug_in in sorted(here, key=lambda plug_in: plug_in.entry.name)
    )


def are_none() -> bool:
    """Whether no plug-in of any kind can be found; quick."""
    return _runs_a_job or os.environ.get(SWITCH) == "no" or not any(metadata_folders().values())


@functools.cache
def metadata_folders() -> dict[str, bool]:
    """The folders that describe installed packages, by name, and whether each may add something.

    `importlib.metadata`, which takes ten times as long, is used only for those that may.
    """
    folders: dict[str, bool] = {}
    for place in _search_path():
        try:
            names = os.listdir(place)  # noqa: PTH208  # ten times as fast
        except FileNotFoundError:
            continue
        except OSError:  # an archive
            folders[place] = True
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info", ".egg")):
                inside = "EGG-INFO" if name.endswith(".egg") else ""
                folders[name] = folders.get(name, False) or _adds(os.path.join(place, name, inside))  # noqa: PTH118
    return dict(sorted(folders.items()))


def _adds(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "entry_points.txt"), "rb") as file:  # noqa: PTH118, PTH123
            return f"[{_GROUP}".encode() in file.read()
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _search_path() -> list[str]:
    try:
        here = os.getcwd()  # noqa: PTH109  # as Python writes it into its path
    except OSError:
        here = ""
    return [place for place in sys.path if place not in ("", here)]


def versions(kind: Kind) -> dict[str, str]:
    """The packages with plug-ins of a kind, and their versions."""
    return {plug_in.package: plug_in.version for plug_in in installed(kind)}


def load(
    kind: Kind, expected: type[Thing], names_of: Callable[[Thing], Iterable[str]], ours: Iterable[str]
) -> tuple[tuple[PlugIn, Thing], ...]:
    """Loads the plug-ins of a kind; leaves those out that fail, and says so.

    Args:
        names_of: the names under which an object is looked up.
        ours: names that are taken.
    """
    owners = dict.fromkeys(ours, "StepScope")
    loaded = []
    for plug_in in installed(kind):
        try:
            with _silent():
                thing = of_type(expected, plug_in.entry.load())
            names = tuple(of_type(str, name) for name in names_of(thing))
            for name in names:
                if name in owners:
                    raise ValueError(f"{name!r} is taken by {owners[name]}")
        # SystemExit: a script that leaves as soon as it is imported.
        except (Exception, SystemExit) as cause:
            plug_in.leave_out(cause)
            continue
        owners |= dict.fromkeys(names, plug_in.package)
        loaded.append((plug_in, thing))
    return tuple(loaded)


def of_type(expected: type[Thing], thing: object) -> Thing:
    """Returns what a plug-in provides if it is of the expected type.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(thing, expected):
        raise TypeError(f"it gives a {type(thing).__name__}, not a {expected.__name__}")
    return thing
