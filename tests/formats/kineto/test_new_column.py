"""A new argument of Kineto's is one line of the schema, from the trace to the exported one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import stepscope

from .conftest import kernel, op

SOURCE = Path(stepscope.__file__).parent
LINES = {
    'Column("grid_x",': (
        'Column("clusters", COUNT, "new count", type=INTEGER, nullable=True, argument="cluster Size"),',
        'Column("tail_ratio", VALUE, "new value", nullable=True, argument="tail %"),',
    ),
    'Column("input_id",': (
        'Column("backend_name", WORD, "new word", nullable=True, argument="Backend name"),',
        'Column("cached", FLAG, "new flag", nullable=True, argument="cached"),',
    ),
    'Column("dtype",': ('Column("algorithm", TEXT, "new text", nullable=True, argument="Algo"),',),
}
"""Columns that are added to `device_event`, `host_event` and `collective`: before the first column with this text."""

ARGS = {"clusters": ("cluster Size", 8), "tail_ratio": ("tail %", 25), "backend_name": ("Backend name", 'a "b"'),
        "cached": ("cached", True), "algorithm": ("Algo", "ring")}  # fmt: skip
ROW = {"clusters": 8, "tail_ratio": 0.25, "backend_name": 'a "b"', "cached": True, "algorithm": "ring"}
QUERY = f"SELECT {', '.join(ROW)} FROM device_event, host_event AS h, collective WHERE h.name = 'a'"

EACH_WAY = """
import sys
from stepscope.cli.main import main
trace, store, exported, query = sys.argv[1:]
assert main(["import", trace, "-o", store]) == 0
assert main(["sql", store, query, "--no-cache"]) == 0
assert main(["export", store, "--no-cache", "--chrome", exported]) == 0
assert main(["sql", exported, query, "--no-cache", "--json"]) == 0
from stepscope.timeline.details import described
print([one["meaning"] for table in ("host_event", "device_event") for one in described(table)])
"""


def package_with_lines(folder: Path) -> None:
    """Makes a copy of the package, all links but for the schema, in which the lines are added."""
    package = folder / "stepscope"
    (package / "schema").mkdir(parents=True)
    for path in SOURCE.iterdir():
        if path.name != "schema":
            (package / path.name).symlink_to(path)
    for path in (SOURCE / "schema").glob("*.py"):
        text = path.read_text()
        if path.name == "tables.py":
            for before, lines in LINES.items():
                text = text.replace(before, "\n".join((*lines, before)), 1)
        (package / "schema" / path.name).write_text(text)


def test_a_line_in_the_schema_reads_shows_and_exports_an_argument(tmp_path):
    package_with_lines(tmp_path / "src")
    args = dict(ARGS.values())
    events = [op("a", 1, 2, **args), kernel("ncclDevKernel_AllReduce", 1, 5, dtype="Float", **args)]
    trace, store, exported = tmp_path / "trace.json", tmp_path / "store", tmp_path / "out.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    ran = subprocess.run(
        [sys.executable, "-c", EACH_WAY, trace, store, exported, QUERY],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    answer = ran.stdout.index("{\n")
    shown, told = ran.stdout[:answer], ran.stdout[answer : ran.stdout.rindex("}") + 1]
    assert [*shown.splitlines()[-1].split()] == ["8", "25.0", "%", "a", '"b"', "yes", "ring"]
    assert json.loads(told)["rows"] == [ROW]
    assert all(f"new {kind}" in ran.stdout for kind in ("count", "value", "word", "flag", "text"))
    written = json.loads(exported.read_text())["traceEvents"]
    read_back = {key: value for event in written for key, value in event.get("args", {}).items()}
    assert {key: read_back.get(key) for key in args} == args
