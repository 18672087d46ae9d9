"""A script in this process is what it would be alone."""

import os
import sys
import zipfile
from pathlib import Path

import pytest
from tests.processes import python, ran

from stepscope.record.job.as_main import MainProgram

TELLS = """
import sys, __main__
print(__name__, __file__, __package__, __spec__ and __spec__.name, type(__loader__).__name__)
print(sorted(name for name in globals() if name.startswith("__")))
print(sys.argv, sys.path[0], vars(__main__) is globals(), __doc__, sys._getframe().f_code.co_filename)
"""
OURS = """
import sys
from stepscope.record.job.as_main import MainProgram
how, target, *arguments = sys.argv[1:]
main = MainProgram()
(main.run_module if how == "-m" else main.run_script)(target, arguments)
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(TELLS)
    (tmp_path / "link.py").symlink_to(tmp_path / "far" / "script.py")
    package = tmp_path / "pkg"
    for path in (package / "inner", tmp_path / "far", tmp_path / "folder"):
        path.mkdir(parents=True)
    (tmp_path / "far" / "script.py").write_text(TELLS)
    (tmp_path / "folder" / "__main__.py").write_text(TELLS)
    (package / "__init__.py").write_text("")
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "__main__.py").write_text(TELLS)
    (package / "near.py").write_text("HERE = 5")
    (package / "relative.py").write_text("from .near import HERE\nprint(HERE)\n" + TELLS)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", "print(__name__)\n")
    return tmp_path


def _output(folder: Path, *arguments: str) -> tuple[int, str]:
    done = python(*arguments, cwd=folder)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("script.py", "a", "-b"),
        ("link.py",),
        ("./far/script.py",),
        ("folder",),
        ("archive.zip",),
        ("-m", "pkg.relative", "x"),
        ("-m", "pkg.inner"),
        ("-m", "script"),
        ("-m", "pkg.absent"),
        ("-m", "absent"),
        ("-m", "pkg"),
    ],
)
def test_a_program_sees_what_python_would_show_it(command: tuple[str, ...], programs: Path) -> None:
    how = command if command[0] == "-m" else ("script", *command)
    assert _output(programs, "-c", OURS, *how) == _output(programs, *command)


def test_a_module_runs_in_a_directory_that_was_removed(programs: Path) -> None:
    gone = ("sh", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh", sys.executable)
    path = os.pathsep.join([str(programs), *filter(None, [os.environ.get("PYTHONPATH")])])
    ours, alone = (
        ran(*gone, *words, "-m", "pkg.relative", cwd=programs, env={**os.environ, "PYTHONPATH": path}).stdout
        for words in (("-c", OURS), ())
    )
    assert ours == alone
    assert ours.startswith("5\n")


def test_future_statements_of_ours_do_not_hold_in_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("def f(x: int): pass\nprint(f.__annotations__)")
    assert _output(tmp_path, "-c", OURS, "script", "script.py") == (0, "{'x': <class 'int'>}\n")


SPAWNS = """
import multiprocessing, os, sys
def work(x):
    return x * 2
if __name__ == "__main__":
    os.chdir("/")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [1, 2]))
"""


def test_processes_that_a_script_spawns_find_its_functions(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SPAWNS)
    assert _output(tmp_path, "-c", OURS, "script", "script.py") == (0, "[2, 4]\n")


def test_what_was_the_main_program_can_be_again(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nsys.path.append('x')\nraise ValueError('mine')")
    before = sys.argv[:], sys.path[:], sys.modules["__main__"]
    main = MainProgram()
    with pytest.raises(ValueError, match="mine"):
        main.run_script(str(tmp_path / "script.py"), ["a"])
    assert sys.modules["__main__"] is not before[2]
    main.restore()
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before
