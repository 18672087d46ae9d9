"""A profiler that behaves as `STAND_IN` says: a stand-in for `nsys`, on the PATH under its name.

It takes nsys's options, runs what follows them, and writes the file of `--output`.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main(arguments):
    how = os.environ.get("STAND_IN", "works")
    if arguments == ["--version"]:
        print("NVIDIA Nsight Systems version 2024.5.1.113")
        return 0
    if arguments[0] == "export":
        return int(how == "truncates")
    if how == "starts the second time" and not Path("tried").exists():
        Path("tried").touch()
        return 1
    if how == "refuses":
        print("unrecognised option", file=sys.stderr)
        return 2
    time.sleep({"hangs at the start": 60, "starts late": 1}.get(how, 0))
    rest = arguments[1:]
    report = next(word for word in rest if word.startswith("--output=")).removeprefix("--output=")
    command = rest[next(at for at, word in enumerate(rest) if not word.startswith("-")) :]
    if how == "is daemons":
        # As nsys's agent: below nobody, and there before the command.
        subprocess.Popen(["sleep", "61"], start_new_session=True)
    if how == "prints":
        # As nsys: the command writes into pipes, and between its lines stands what the tool has to say.
        print("Collecting data...", flush=True)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(process.communicate()[0], "Generating report", flush=True)
        Path(f"{report}.nsys-rep").write_bytes(b"report")
        return process.returncode
    process = subprocess.Popen(command, start_new_session=how == "has sessions")
    if how in ("crashes", "is daemons"):
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "leaves":
        time.sleep(0.3)
        return 1
    if how == "kills what it started":
        time.sleep(0.3)
        process.kill()
        process.wait()
        return 1
    code = process.wait()
    if how == "hangs at the end":
        time.sleep(60)
    if how != "writes nothing":
        Path(f"{report}.nsys-rep").write_bytes(b"report")
    return 9 if how == "has codes of its own" else code


sys.exit(main(sys.argv[1:]))
