"""What importing StepScope costs, and what runs where torch is absent."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.processes import python

ROOT = Path(__file__).resolve().parents[2]
HEAVY = [
    "duckdb",
    "numpy",
    "pyarrow",
    "torch",
    "rich",
    "click",
    "fsspec",
    "isal",
    "adbc_driver_manager",
    "pandas",
    "starlette",
    "uvicorn",
]

BLOCK_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoTorch())
"""


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return python("-c", code)


def test_importing_stepscope_loads_nothing_heavy() -> None:
    done = _python(f"import sys, json, stepscope\nprint(json.dumps([name for name in {HEAVY} if name in sys.modules]))")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_the_public_names_are_there() -> None:
    done = _python("import stepscope\nfor name in stepscope.__all__: getattr(stepscope, name)")
    assert done.returncode == 0, done.stderr


def test_no_module_outside_record_needs_torch() -> None:
    modules = sorted(
        path.relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".")
        for path in (ROOT / "src/stepscope").rglob("*.py")
        if "record" not in path.parts and path.name not in ("__init__.py", "__main__.py")
    )
    assert "stepscope.cli.demo" in modules
    code = f"{BLOCK_TORCH}\nimport importlib\nfor name in {modules}: importlib.import_module(name)"
    done = _python(code)
    assert done.returncode == 0, done.stderr


def test_the_floor_and_recording_need_nothing_but_python() -> None:
    modules = sorted(
        path.relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".")
        for part in ("base", "record")
        for path in (ROOT / "src/stepscope" / part).rglob("*.py")
        if path.name != "__init__.py" and "callbacks" not in path.parts
    )
    assert "stepscope.base.errors" in modules
    done = _python(
        f"import importlib, sys\nfor name in {HEAVY}: sys.modules[name] = None\n"
        f"for name in {modules}: importlib.import_module(name)"
    )
    assert done.returncode == 0, done.stderr


def test_a_job_that_is_not_recorded_loads_little_of_inline() -> None:
    done = _python(
        "import sys\nfrom stepscope.record import inline\nassert list(inline.iterate([1])) == [1]\n"
        "import stepscope.record.inline.schedule\n"
        "sys.stderr.write(str([name for name in sys.modules if 'record.targets' in name or "
        "'inline.session' in name]))"
    )
    assert (done.returncode, done.stderr) == (0, "[]")


def test_the_demo_without_torch_says_what_to_do() -> None:
    done = _python(f"{BLOCK_TORCH}\nfrom stepscope.cli.main import main\nsys.exit(main(['demo']))")
    assert done.returncode == 1
    assert "no torch" in done.stderr
    assert "pip install torch" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.torch
def test_answering_questions_never_imports_torch(tmp_path: Path) -> None:
    trace = tmp_path / "one.json"
    trace.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", '
        '"pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": {}}]}'
    )
    done = _python(
        "import sys\nfrom stepscope.cli.main import main\n"
        f"code = main(['operators', {str(trace)!r}, '--no-cache', '--json'])\n"
        "sys.stderr.write(repr((code, 'torch' in sys.modules)))"
    )
    assert done.stderr.endswith("(0, False)"), done.stderr


def test_no_two_modules_import_each_other() -> None:
    """Circles of any length; imports inside functions and those for types alone are among them."""
    import grimp

    graph = grimp.build_graph("stepscope", cache_dir=None)
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    while leaves := {name for name, others in imported.items() if not others}:
        imported = {name: others - leaves for name, others in imported.items() if name not in leaves}
    # What is left lies on a circle, or imports one that does.
    assert imported == {}
