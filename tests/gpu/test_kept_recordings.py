"""Recordings of a real GPU, which `make gpu` makes: each is read, checked and judged.

`tests/data/gpu` has a folder for each, with its files and `made.json`: how it was made, and what was counted in its
files without StepScope.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.query.ask import ask
from stepscope.questions.invariants import invariants

FOLDER = Path(__file__).resolve().parents[1] / "data" / "gpu"
KEPT = sorted(path.parent for path in FOLDER.glob("*/made.json"))
LARGEST = 3_000_000
MADE = {"command", "device", "driver", "torch", "known"}

pytestmark = pytest.mark.skipif(
    not KEPT, reason="tests/data/gpu holds no recording yet: make gpu, on a GPU, makes them"
)


@pytest.fixture(params=KEPT or [None], ids=lambda path: "none" if path is None else path.name)
def kept(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


def _made(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / "made.json").read_text("utf-8"))
    return made


def test_how_it_was_made_is_written_down_and_its_files_are_small(kept: Path) -> None:
    assert set(_made(kept)) >= MADE
    files = [path for path in kept.iterdir() if path.name != "made.json"]
    assert files
    assert [path.name for path in files if path.stat().st_size > LARGEST] == []


def test_it_is_read_and_its_store_is_sound(kept: Path) -> None:
    with stepscope.open(kept) as recorded:
        found = ask(invariants, recorded.store).rows()
        assert [row for row in found if row["severity"] == "error"] == []
        recorded.ask("findings")
        recorded.ask("summary")


def test_it_holds_what_was_counted_in_its_raw_file(kept: Path) -> None:
    known = _made(kept)["known"]
    if not known:
        pytest.skip("nothing was counted in files of this kind")
    with stepscope.open(kept) as recorded:
        (found,) = recorded.sql(
            """
            SELECT count(*) FILTER (kind IN ('computation', 'communication')) AS kernels,
                coalesce(sum(dur_ns) FILTER (kind IN ('computation', 'communication')), 0)::BIGINT AS kernel_ns,
                count(*) FILTER (kind = 'copy') AS copies, count(*) FILTER (kind = 'fill') AS fills
            FROM device_event
            """
        ).rows()
    assert found == {name: known[name] for name in found}
