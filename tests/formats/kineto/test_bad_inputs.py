"""Every odd or broken input seen in the wild, as a file of three to six events: what is kept of it.

The files lie in tests/data/kineto/bad, named for the case. B: bytes and syntax; T: the top level;
C: time; I: identity; F: kinds of event. Times are in ns since the file's first event.
"""

import contextlib
from pathlib import Path

import pytest

from stepscope.base.errors import DamagedSourceError, SourceError
from stepscope.formats.container import members
from stepscope.formats.damage import check_strict
from stepscope.formats.options import ReadOptions
from stepscope.formats.registry import format_of
from stepscope.formats.tables import RankTables

from .cases_of_events import IDENTITY, KINDS, TIME
from .cases_of_text import BAD, BYTES, TOP_LEVEL, columns

CASES = [*BYTES, *TOP_LEVEL, *TIME, *IDENTITY, *KINDS]

WRONG_FILES = {
    "B16_only_zeros.json": "file of zeros", "T08_execution_trace.json": "PyTorch execution trace",
    "T08_observer_without_schema.json": "json", "T08_notes.txt": "text", "T08_error_page.json": "HTML or XML page",
    "T08_empty.json": "empty file", "T08_picture.json": "picture", "T08_database.json": "SQLite database",
    "T08_pickle.pickle": "pickle", "T08_report.nsys-rep": "Nsight Systems report",
}  # fmt: skip
ARCHIVES = ("B01_two_ranks.zip", "B01_two_ranks.tar", "B01_two_ranks.tgz")


def read(path: Path, **options: bool) -> RankTables:
    (member,) = members(path)
    return format_of(member).read(member, ReadOptions(**options))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_what_is_intact_is_kept_and_what_is_not_is_counted_and_refused_by_strict(case):
    tables = read(BAD / case.file)
    report = tables.report
    assert (report.read, report.repaired, report.dropped) == (case.kept, case.repaired, case.dropped)
    assert report.damage == case.damage
    assert report.truncated == case.truncated
    if case.offset_of is not None:
        assert report.damage_offset == (BAD / case.file).read_bytes().rindex(case.offset_of)
    for table, expected in ((tables.host_event, case.host), (tables.device_event, case.device)):
        if expected is not None:
            assert columns(table, "name", "start_ns", "dur_ns") == expected
    if case.fact is not None:
        assert case.fact(tables)
    with contextlib.nullcontext() if case.strict else pytest.raises(DamagedSourceError):
        check_strict(case.file, report.damage, lost=report.lost)


@pytest.mark.parametrize("file", WRONG_FILES)
def test_wrong_kind_of_file_is_named_with_a_cure(file):
    with pytest.raises(SourceError) as caught:
        read(BAD / file)
    assert WRONG_FILES[file] in caught.value.message
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("file", ARCHIVES)
def test_archive_is_as_many_recordings_as_it_has_files(file):
    read = [format_of(member).read(member, ReadOptions()) for member in members(BAD / file)]
    assert [tables.facts.rank for tables in read] == [0, 1]
    assert [tables.report.read for tables in read] == [3, 3]


def test_every_file_of_the_folder_is_tested():
    files = {str(path.relative_to(BAD)) for path in BAD.rglob("*") if path.is_file() and path.suffix != ".py"}
    assert files == {case.file for case in CASES} | set(WRONG_FILES) | set(ARCHIVES)
