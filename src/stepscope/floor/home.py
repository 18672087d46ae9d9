"""Where the user's own files are."""

from __future__ import annotations

import os
from pathlib import Path


def config_folder() -> Path:
    """Where the user's configuration of StepScope is: files that say what devices can do."""
    return user_folder("XDG_CONFIG_HOME", ".config")


def user_folder(variable: str, usual: str) -> Path:
    """The folder of StepScope's files of a kind, by the rules of XDG.

    Where no home is known (a container's user without an entry in `passwd`), it is one that can neither
    be read nor made.

    Args:
        variable: names the folder of all programs' files of this kind, `XDG_CACHE_HOME` say.
        usual: that folder where the variable is empty, below the home folder.
    """
    named = os.environ.get(variable)
    try:
        return (Path(named) if named else Path.home() / usual) / "stepscope"
    except RuntimeError:
        return Path(os.devnull) / "stepscope"
