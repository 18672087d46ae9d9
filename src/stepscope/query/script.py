"""Finds the recorded script, for commands that run it again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.query.scope import Scope

_PLAIN = re.compile(r"(-m )?[\w./~][\w./~+@=:,-]{0,200}( ARGS)?")
"""A command that needs no quotes in any shell; files are untrusted."""
_NO_NAME = "train.py"
_NAMED = "SELECT metadata->>'$.script' AS script FROM source ORDER BY rank, span"


def script_of(scope: Scope) -> str:
    """The script, or `-m MODULE`, as recorded, with `ARGS` if it had arguments; `train.py` if it was not recorded."""
    named = [row["script"] or "" for row in scope.sql(_NAMED).to_pylist()]
    return next((script for script in named if _PLAIN.fullmatch(script)), _NO_NAME)


def with_script(scope: Scope, text: str) -> str:
    """Replaces `train.py` in a text's commands with the recorded script."""
    return text if _NO_NAME not in text else text.replace(_NO_NAME, script_of(scope))
