"""Where the user's own files are."""

from __future__ import annotations

import os
from pathlib import Path


def config_folder() -> Path:
    """The folder of the user's configuration of StepScope: files about devices."""
    return user_folder("XDG_CONFIG_HOME", ".config")


def user_folder(variable: str, usual: str) -> Path:
    """The folder for StepScope's files of a kind, by the rules of XDG.

    If no home is known (a container's user without an entry in `passwd`), it is one that can neither
    be read nor made.
    """
    named = os.environ.get(variable)
    try:
        return (Path(named) if named else Path.home() / usual) / "stepscope"
    except RuntimeError:
        return Path(os.devnull) / "stepscope"
