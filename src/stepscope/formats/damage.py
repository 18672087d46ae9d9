"""The classes of damage that readers count, each with a line for people.

A class says what is wrong with the bytes or the events of a file. Most classes cost something or had to be repaired,
which `--strict` does not allow; the others are only worth knowing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stepscope.base.errors import DamagedSourceError

ERRORS = {
    "damaged-source": (
        "`--strict` was given, and a file had to be repaired, lost events, or ends too early. "
        "Without `--strict` everything that is intact is used, and the answers say what was lost."
    )
}


@dataclass(frozen=True, slots=True)
class Damage:
    """A class of damage.

    Attributes:
        line: what it is, for people; goes after a count.
        harmless: nothing was lost or guessed, so that `--strict` lets it pass.
        uncounted: events are missing, altered or another trace's, and no count says how many.
    """

    line: str
    harmless: bool = False
    uncounted: bool = False


CLASSES: dict[str, Damage] = {
    # the container
    "gzip_truncated": Damage("the gzip stream breaks off; what came before was read"),
    "gzip_crc": Damage("the gzip checksum or length does not match what was decoded", uncounted=True),
    "gzip_corrupt": Damage("the gzip stream is corrupt; what came before was read", uncounted=True),
    "gzip_trailing": Damage("bytes after the end of the gzip stream were ignored", harmless=True),
    "compression_truncated": Damage("the compressed stream breaks off; the rest is lost"),
    "compression_corrupt": Damage("the compressed stream is corrupt; the rest is lost", uncounted=True),
    "archive_truncated": Damage("the archive breaks off inside this member"),
    "archive_crc": Damage("the archive's checksum of this member does not match", uncounted=True),
    "archive_corrupt": Damage("the archive's stream of this member is corrupt; the rest is lost", uncounted=True),
    "implausible_size": Damage(
        "the stream inflates to an implausible size, or has implausibly many parts, and was cut", uncounted=True
    ),
    "unmerged_wal": Damage(
        "there is a -wal file next to the database, and its content was not read; let sqlite3 merge it: "
        "PRAGMA wal_checkpoint",
        uncounted=True,
    ),
    "unfinished_database": Damage(
        "there is a -journal next to the database: it is being written, or its writer was killed", uncounted=True
    ),
    "byte_order_mark": Damage("a byte order mark was skipped", harmless=True),
    "trailing_nuls": Damage("zero bytes after the end were skipped", harmless=True),
    # the text
    "truncated": Damage("the file ends inside an event; its writer was killed or is still writing"),
    "invalid_utf8": Damage("bytes that are not UTF-8 were shown as \N{REPLACEMENT CHARACTER}"),
    "control_character": Damage("control characters inside strings were left as they are"),
    "invalid_escape": Damage("backslashes that escape nothing were left as they are"),
    "unescaped_quote": Damage("quotes inside strings were not escaped"),
    "missing_quote": Damage("keys lack their opening quote"),
    "not_a_number": Damage("N/A in place of a number was read as null"),
    "trailing_comma": Damage("there are commas with nothing between them"),
    "missing_comma": Damage("commas are missing"),
    "duplicate_key": Damage(
        "keys appear twice: an event has the last value, what is around the events the first that is not empty"
    ),
    "too_deep": Damage("values are nested too deep to be an event's"),
    "unreadable": Damage("text is not an event and cannot be repaired into one"),
    "torn_event": Damage("events break off and are followed by other text: lost blocks, or several writers"),
    "hole": Damage("zero bytes took the place of events: blocks that were never written", uncounted=True),
    "interleaved": Damage("there is more than one trace in the file: probably several writers", uncounted=True),
    "extra_data": Damage("there is text after the end of the trace; it was ignored"),
    "lost_metadata": Damage("entries of the metadata could not be read"),
    # the events
    "empty_event": Damage("empty events were ignored", harmless=True),
    "no_phase": Damage("objects without `ph` are not events and were dropped"),
    "unknown_phase": Damage("events of a kind (`ph`) that is not known were dropped"),
    "wrong_type": Damage("values have a type or size that their field cannot have and were read as null"),
    "bad_step": Damage("steps whose phases do not add up to them, or that are out of order, were dropped"),
    "no_id": Damage("starts and ends of asynchronous events lack the id that pairs them"),
    "no_time": Damage("events without a time were left out"),
    "missing_string": Damage(
        "names are numbers of strings that the file does not have; these ranges, calls and kernels have no name"
    ),
    "no_moments": Damage("the file says how long kernels took, and not when they ran", harmless=True),
    "untried_layout": Damage(
        "rows are of a kind of report whose layout is known from documentation alone: compare some with the report",
        harmless=True,
    ),
    "too_many_devices": Damage("there are more devices than a process sees; what is on the further ones was left out"),
    "zero_timestamp": Damage(
        "device events without a time (0) count as launched but take no part in time", harmless=True
    ),
    "negative_duration": Damage("events have a negative duration and no known end"),
    "impossible_duration": Damage(
        "events with a duration of more than a year were left out: no recording lasts that long"
    ),
    "cut_number": Damage("durations or sizes that add up to more than any recording has were cut"),
    "unfinished": Damage("events never ended; they end with the one around them"),
    "unmatched_begin": Damage("start events have no end"),
    "unmatched_end": Damage("end events have no start and were left out"),
}


def line(damage: str, count: int = 1) -> str:
    """Describes a class of damage for people, with how often it occurred.

    An unlisted class is shown by its name.

    Example:
        >>> line("missing_comma", 3)
        'missing_comma (3): commas are missing'
    """
    listed = CLASSES.get(damage)
    return f"{damage} ({count}): {listed.line}" if listed else f"{damage} ({count})"


def is_harmless(damage: str) -> bool:
    """Whether `--strict` lets a class of damage pass, because nothing was lost or guessed."""
    listed = CLASSES.get(damage)
    return listed is not None and listed.harmless


def check_strict(label: str, damage: Iterable[str], *, lost: bool) -> None:
    """Fails as `--strict` asks for.

    Args:
        lost: whether events were repaired or dropped, or the file ends too early.

    Raises:
        DamagedSourceError: something was lost or guessed.
    """
    if lost or not all(map(is_harmless, damage)):
        raise DamagedSourceError(
            f"{label}: damaged ({', '.join(sorted(damage))})",
            hint="leave out --strict to read what is intact",
            slug="damaged-source",
        )
