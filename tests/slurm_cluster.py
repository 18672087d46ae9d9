"""A Slurm of two nodes that are both this machine, for as long as a test module runs.

Its daemons need no munge and no configuration of the machine, and end with the module.
"""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol")
NODES = ("n0", "n1")
_CPUS = 4
_LONGEST_START_S, _LONGEST_JOB_S = 20, 60


def why_no_slurm() -> str:
    """Why the tests with Slurm cannot run here; empty where they can."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"no {', '.join(missing)} here (slurm-wlm has them)"
    return "" if os.geteuid() == 0 else "slurmd starts jobs as root only"


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Starts the cluster with its files in `folder`; gives the environment by which commands find it."""
    ports = _free_ports(1 + len(NODES))
    lines = [
        "ClusterName=test",
        "SlurmctldHost=localhost",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/none",
        "CredType=cred/none",
        f"SlurmctldPort={ports[0]}",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/slurmd.%n.pid",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool.%n",
        f"SlurmctldLogFile={folder}/slurmctld.log",
        f"SlurmdLogFile={folder}/slurmd.%n.log",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU",
        "SlurmdParameters=config_overrides",
        "MailProg=/bin/true",
        "MpiDefault=none",
        "ReturnToService=2",
        *(
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={_CPUS}"
            for name, port in zip(NODES, ports[1:], strict=True)
        ),
        "PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP",
    ]
    (folder / "state").mkdir()
    configuration = folder / "slurm.conf"
    configuration.write_text("\n".join(lines) + "\n")
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    environment = {**ours, "PATH": path, "SLURM_CONF": str(configuration)}
    with ExitStack() as stack:
        for words in (["slurmctld", "-D"], *(["slurmd", "-D", "-N", name] for name in NODES)):
            stack.enter_context(_running(words, environment))
        _wait_until_idle(environment)
        yield environment


@contextmanager
def _running(words: list[str], environment: dict[str, str]) -> Iterator[None]:
    daemon = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def submitted(script: Path, environment: dict[str, str]) -> int:
    """The exit code of a batch job; `sbatch --wait` looks for it every ten seconds."""
    asked = ["sbatch", "--parsable", f"--output={script}.out", script.name]
    done = subprocess.run(asked, cwd=script.parent, env=environment, capture_output=True, text=True, check=True)
    asked = ["scontrol", "show", "job", "--oneliner", done.stdout.strip()]
    last = time.monotonic() + _LONGEST_JOB_S
    while time.monotonic() < last:
        state = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
        if re.search(r"JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT)", state.stdout):
            return int(state.stdout.partition(" ExitCode=")[2].partition(":")[0])
        time.sleep(0.1)
    raise RuntimeError(f"the job did not end within {_LONGEST_JOB_S} s")


def _wait_until_idle(environment: dict[str, str]) -> None:
    """Until all nodes are idle: daemons say it no other way."""
    last = time.monotonic() + _LONGEST_START_S
    while time.monotonic() < last:
        done = subprocess.run(
            ["sinfo", "--noheader", "--format=%D %t"], env=environment, capture_output=True, text=True
        )
        if done.stdout.split() == [str(len(NODES)), "idle"]:
            return
        time.sleep(0.1)
    raise RuntimeError("slurmctld and slurmd did not start")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
