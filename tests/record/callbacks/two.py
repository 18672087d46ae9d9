"""A job of two processes, as torchrun starts it."""

from pathlib import Path

from ..two_ranks import torchrun
from .reading import micro_steps_by_step

JOBS = Path(__file__).with_name("jobs")


def train_in_two(job: str, out: Path) -> None:
    """Runs `jobs/<job>.py OUT` over gloo, and looks for both ranks' traces and phases.

    The job traces two steps of two micro-steps each as `two`, with phases.
    """
    done = torchrun(JOBS / f"{job}.py", str(out))
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert micro_steps_by_step(out / f"two-{rank}-of-2.json.gz") == {"ProfilerStep#2": 2, "ProfilerStep#3": 2}
    assert len(list(out.glob("*.phases.json"))) == 2
