"""Pages and methods that are made from the source are what the source makes today."""

from pathlib import Path

import pytest
from tests.processes import python

ROOT = Path(__file__).resolve().parents[2]


def test_generated_files_are_current() -> None:
    done = python("docs/generate.py", "--check", cwd=ROOT)
    assert done.returncode == 0, f"run: python docs/generate.py\n{done.stdout}{done.stderr}"


def test_links_between_pages_lead_somewhere() -> None:
    import re

    pages = [*(ROOT / "docs").rglob("*.md")]
    assert pages
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        ({"cli/a.py": 'ERRORS = {"odd": "Odd."}\nError("x", slug="odd")'}, None),
        ({"cli/a.py": 'ERRORS = {"unknown-x": "Odd."}\nError("x", slug=f"unknown-{x}")'}, None),
        ({"cli/a.py": 'Error("x", slug="odd")'}, "odd is raised and explained nowhere"),
        ({"cli/a.py": 'ERRORS = {"odd": "Odd."}'}, "odd is explained in cli and not raised there"),
        (
            {"cli/a.py": 'ERRORS = {"odd": "Odd."}', "store/b.py": 'Error("x", slug="odd")'},
            "odd is explained in cli and not raised there",
        ),
        (
            dict.fromkeys(("cli/a.py", "cli/b.py"), 'ERRORS = {"odd": "Odd."}\nError("x", slug="odd")'),
            "odd is explained twice",
        ),
    ],
)
def test_each_error_is_explained_once_and_where_it_is_raised(tmp_path, monkeypatch, files, wrong):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from generate import errors_page

    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    if wrong is None:
        assert "Odd." in errors_page(tmp_path)
        return
    with pytest.raises(SystemExit, match=wrong):
        errors_page(tmp_path)
