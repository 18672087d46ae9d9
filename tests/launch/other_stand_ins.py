"""Stand-ins for tools that cannot be installed here: they take the same options and write such files."""

import sys
from pathlib import Path

_HEAD = """#!{python}
import os, re, subprocess, sys
words = sys.argv[1:]
def value(name):
    return next(word.partition("=")[2] for word in words if word.lstrip("-").startswith(name + "="))
def wrote(path, content=b"x"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
"""

# A result of vtune is a folder: a file of its own name, and the raw data.
VTUNE = """
result = value("result-dir")
if "-finalize" in words:
    if not os.path.isdir(result + "/data.0"):
        sys.exit("vtune: Error: Cannot find result directory")
    wrote(result + "/sqlite-db/dicer.db", b"SQLite format 3\\0")
    sys.exit(0)
wrote(result + "/" + os.path.basename(result) + ".vtune")
wrote(result + "/data.0/host.1.0.trace", b"" if os.environ.get("NOTHING") else b"raw")
wrote(result + "/config/collect.cfg")
sys.exit(subprocess.call(words[words.index("--") + 1:]))
"""
APS = """
wrote(value("result-dir") + "/stat-20261122-0.bin")
sys.exit(subprocess.call(words[next(i for i, word in enumerate(words) if word[0] != "-"):]))
"""
ROCPROFV3 = """
if words == ["--version"]:
    sys.exit(os.environ["OLD"] if os.environ.get("OLD") else print("rocprofv3:\\n  version: 1.1.0"))
ending = {"rocpd": "db", "pftrace": "pftrace"}[value("output-format")]
name = value("output-file").replace("%pid%", str(os.getpid()))
wrote(f"{value('output-directory')}/{name}_results.{ending}", b"SQLite format 3\\0")
sys.exit(subprocess.call(words[words.index("--") + 1:]))
"""


def stand_in(folder: Path, name: str, body: str) -> None:
    """Puts an executable into a folder that a test puts on the PATH."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(_HEAD.replace("{python}", sys.executable) + body)
    file.chmod(0o755)
