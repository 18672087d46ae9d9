"""Makes the environment for the Makefile's commands: ours, its dependencies, and a torch.

    python3 scripts/environment.py .venv [--dev] [--torch auto|no]
    python3 scripts/environment.py .venv-hta --only benchmarks/hta-requirements.txt

Needs only a Python 3.10 or newer with pip. A torch that this Python can already import is linked instead of installed
again; its other packages come after ours on the path.

If torch, or a framework whose callback is tested, cannot be installed, fewer tests run; if the variable CI is set, that
is a failure.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = "torch_of_the_base_python.pth"
OLDEST = (3, 10)
# Python compiles modules when they are first imported, and most of these 19,000 files never are.
INSTALL = ("-m", "pip", "install", "--quiet", "--no-compile")


def say(line):
    """Prints one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(*command, **options):
    """Runs a program in the repository's root and shows its output."""
    return subprocess.run([str(part) for part in command], cwd=str(ROOT), check=False, **options).returncode


def ask(python, code):
    """The output of a line of Python, or None if it fails."""
    done = subprocess.run(
        [str(python), "-c", code],
        cwd=str(ROOT / "scripts"),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        universal_newlines=True,
    )
    return done.stdout.strip() if done.returncode == 0 else None


def make_environment(venv):
    """Creates the virtual environment unless a working one for this Python version exists."""
    python = venv / "bin" / "python"
    version = "import sys; print(sys.version_info[:2])"
    if python.exists() and ask(python, version) == str(tuple(sys.version_info[:2])) and ask(python, "import pip"):
        return python
    if venv.exists():
        shutil.rmtree(str(venv))
    say("making {} with Python {}.{}".format(venv.name, *sys.version_info[:2]))
    if ask(sys.executable, "import ensurepip") is not None and run(sys.executable, "-m", "venv", venv) == 0:
        return python
    # Debian ships `venv` without ensurepip; this Python's own pip can install pip.
    if run(sys.executable, "-m", "venv", "--without-pip", "--clear", venv) != 0:
        sys.exit("{} cannot make a virtual environment".format(sys.executable))
    packages = ask(python, "import sysconfig; print(sysconfig.get_path('purelib'))")
    if run(sys.executable, *INSTALL, "--target", packages, "pip") != 0:
        sys.exit("{} has no working pip. Install pip for it and try again.".format(sys.executable))
    return python


def go_without(*lines):
    """Says what is missing; ends the program if nothing may be missing."""
    for line in lines:
        say(line)
    if os.environ.get("CI"):
        sys.exit("CI is set, so nothing may be missing")


def install_package(python, dev):
    """Installs this checkout, editable, with its dependencies and, if requested, the developers' tools."""
    say("installing stepscope" + (" and the developers' tools" if dev else ""))
    what = ".[dev]" if dev else "."
    if run(python, *INSTALL, "-c", "constraints.txt", "--editable", what) != 0:
        sys.exit("the dependencies could not be installed; pip says why above")


def provide_torch(python, link):
    """Links the base Python's torch, or else installs the one in constraints.txt.

    StepScope needs torch only to record, so a Python without a torch build is not a failure.
    """
    there = ask(sys.executable, "import torch; print(torch.__file__)")
    if there is not None:
        folder = Path(there).parent.parent
        link.write_text("{}\n".format(folder), encoding="utf-8")
        say("using the torch in {}".format(folder))
        return
    if ask(python, "import torch") is not None:
        return
    say("installing torch (to go without it: make ... TORCH=no)")
    if run(python, *INSTALL, "-c", "constraints.txt", "torch") != 0:
        go_without(
            "torch could not be installed for Python {}.{}: tests that need it will be skipped, and".format(
                *sys.version_info[:2]
            ),
            "the demo cannot record. Everything else works.",
        )


def provide_frameworks(python):
    """Installs the frameworks whose callbacks are tested, for the present torch and no other."""
    # pip then refuses a package that needs another torch, instead of installing that.
    version = ask(python, "import importlib.metadata as m, torch; print(m.version('torch'))")
    if version is None:
        return
    say("installing the frameworks that callbacks are tested with")
    with tempfile.TemporaryDirectory() as space:
        bound = Path(space) / "torch.txt"
        bound.write_text("torch=={}\n".format(version), encoding="utf-8")
        done = run(python, *INSTALL, "-c", bound, "--editable", ".[frameworks]")
    if done != 0:
        go_without("they could not be installed beside torch {}: their tests will be skipped".format(version))


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description="Makes the environment that the Makefile's commands run in.")
    parser.add_argument("venv")
    parser.add_argument("--dev", action="store_true", help="with the developers' tools")
    parser.add_argument("--torch", choices=["auto", "no"], default="auto")
    parser.add_argument("--only", metavar="FILE", help="with these requirements and nothing of ours")
    asked = parser.parse_args()
    if sys.version_info[:2] < OLDEST:
        sys.exit(
            "StepScope needs Python {}.{} or newer; this is {}.{}. Name one: make PYTHON=python3.12".format(
                *OLDEST, *sys.version_info[:2]
            )
        )
    # An activated environment or PYTHONPATH must not affect the new one.
    os.environ.pop("PYTHONPATH", None)
    venv = (ROOT / asked.venv).resolve()
    python = make_environment(venv)
    if asked.only:
        return run(python, *INSTALL, "-r", asked.only)
    link = Path(ask(python, "import sysconfig; print(sysconfig.get_path('purelib'))")) / LINK
    if link.exists():
        link.unlink()  # pip must not mistake the base Python's packages for this environment's
    install_package(python, asked.dev)
    if asked.torch == "auto":
        provide_torch(python, link)
        if asked.dev:
            provide_frameworks(python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
