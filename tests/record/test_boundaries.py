"""What recording may import: it runs inside other people's jobs."""

import ast
import subprocess
import sys
from pathlib import Path

import stepscope.record

FOLDER = Path(stepscope.record.__file__).parent
ALLOWED = {"torch", "tomli"}
"""torch is the job's own; tomli is the standard library's TOML reader for Python 3.10."""
FRAMEWORKS = {
    "callbacks/lightning.py": {"lightning", "pytorch_lightning"},
    "callbacks/transformers.py": {"transformers"},
    "callbacks/accelerate.py": {"accelerate"},
}
"""Files that only scripts with that framework import."""


def _imports(path: Path) -> list[tuple[str, bool]]:
    """(module, whether at the top of the file)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = set(map(id, tree.body))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.module, id(node) in top))
    return found


def test_recording_imports_the_standard_library_torch_and_the_floor_only() -> None:
    strangers = [
        f"{path.name}: {module}"
        for path in FOLDER.rglob("*.py")
        for module, _ in _imports(path)
        if module.split(".")[0]
        not in sys.stdlib_module_names | ALLOWED | FRAMEWORKS.get(path.relative_to(FOLDER).as_posix(), set())
        if not module.startswith(("stepscope.record", "stepscope.base"))
    ]
    assert strangers == []


def test_torch_is_imported_when_recording_starts_and_not_before() -> None:
    at_the_top = [
        path.name
        for path in FOLDER.rglob("*.py")
        for module, top in _imports(path)
        if top and module.split(".")[0] == "torch"
    ]
    assert at_the_top == []


def test_importing_all_of_it_loads_no_torch() -> None:
    modules = [
        f"stepscope.record.{path.relative_to(FOLDER).with_suffix('').as_posix().replace('/', '.')}"
        for path in FOLDER.rglob("*.py")
        if path.name != "__init__.py"
        if path.relative_to(FOLDER).as_posix() not in FRAMEWORKS
    ]
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
