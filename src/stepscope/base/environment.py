"""Removes environments and secrets from a file's description of itself.

Tools write a job's environment into its recording, and with it the tokens that were set there. Code that stores what a
file says passes it through `without_secrets`, whatever the format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from stepscope.base.ranks import RANK_VARIABLES

_STORED_VARIABLES = frozenset(
    ("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", *RANK_VARIABLES)
)
_STORED_PREFIXES = ("NCCL_", "PYTORCH_", "TORCH_")
_ENVIRONMENT = re.compile(r"(?:.*_)?env(?:iron(?:ment)?)?s?(?:_?var(?:iable)?s?)?", re.IGNORECASE)
_OF_EVERY_ENVIRONMENT = frozenset(("HOME", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL"))
"""Two of these make an environment, whatever its name."""
_SECRET = re.compile(
    r"secret|passw|passphrase|credential|cookie|bearer|(?:access|api|auth|private)(?:key|token)"
    r"|(?:account|encryption|license|master|signing|ssh)keys?$|(?:token|auth|authorization|pwd)s?$"
)
_KEY = re.compile(r"(?:(?:^|[-_.])(?i:keys?)|(?<=[a-z0-9])Keys?)[\W_]*$")
"""A separate word in a name without blanks: `WANDB_KEY`, `HubKey`; not `other key` or `newkey`."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_LETTER = re.compile(r"[\W_]+")
# Both start where a run of such letters does: otherwise each search in a long run would read to its end.
_ASSIGNED = re.compile(r"(?<![\w.-])((?:(?![A-Za-z])[\w.-])*)([A-Za-z][\w.-]*)=(?!=)[^\s\"']+")
_OPTION = re.compile(r"(?<![\w.-])((?:[\w.]|-(?![A-Za-z]|-[A-Za-z]))*)(--?[A-Za-z][\w.-]*)(\s+)[^\s-]\S*")
_OF_A_URL = re.compile(r"(?<=://)[^\s/@\"']+(?=@)")
_ISSUED = re.compile(
    r"\b(?:hf_|gh[opsur]_|github_pat_|glpat-|sk-|xox[abp]-|AKIA|ASIA|AIza)[\w-]{16,}|\beyJ[\w-]{8,}(?:\.[\w-]+)*"
)
"""Tokens by the shape in which services issue them, whatever their names."""

DEEPEST = 64
"""Levels of nested metadata that are stored."""

SUSPECT = (
    r"(?i)env|token|key|secret|passw|passphrase|credential|auth|pwd|cookie|bearer|home|path|\\u"
    r"|://[^\s/]*@|hf_|gh[opsur]_|_pat_|glpat-|sk-|xox|AKIA|ASIA|AIza|eyJ"
)
"""JSON text without a match comes back from `without_secrets` unchanged."""


_NUMBERS = frozenset({int, bool, type(None)})


def is_secret(name: str) -> bool:
    """Whether a value with this name looks like a secret: `HF_TOKEN`, `apiKey`, `db.password`."""
    plain = _NO_LETTER.sub("", name).lower()
    return _SECRET.search(plain) is not None or _KEY.search(name) is not None


def may_store_variable(name: str) -> bool:
    """Whether an environment variable may be stored: it affects speed and is not a secret."""
    return (name in _STORED_VARIABLES or name.startswith(_STORED_PREFIXES)) and not is_secret(name)


def without_secrets(value: Any, depth: int = DEEPEST) -> Any:
    """A JSON value without secrets and without environments, except for the variables that may be stored.

    A number under a name that looks like a secret is not one: `max_tokens` stays. Values deeper than `depth` are left
    out.

    >>> without_secrets({"env": {"NCCL_ALGO": "Ring", "HOME": "/root"}, "hub": {"apiKey": "a", "id": 1}})
    {'env': {'NCCL_ALGO': 'Ring'}, 'hub': {'id': 1}}
    """
    if isinstance(value, str):
        value = _ISSUED.sub("…", _OF_A_URL.sub("…", value))
        masked = _ASSIGNED.sub(lambda match: f"{match[1]}{match[2]}=" if is_secret(match[2]) else match[0], value)
        return _OPTION.sub(
            lambda match: f"{match[1]}{match[2]}{match[3]}…" if is_secret(match[2]) else match[0], masked
        )
    if not isinstance(value, Mapping | list | tuple):
        return None if isinstance(value, float) and not math.isfinite(value) else value  # JSON has no other numbers
    if not depth:
        return None
    if not isinstance(value, Mapping) and _NUMBERS.issuperset(map(type, value)):
        return list(value)  # a million ranks of a group contain no secret
    if _is_environment(value):
        value = _variables(value)
    if not isinstance(value, Mapping):
        return [
            "…" if _is_secret_option(before) else without_secrets(element, depth - 1)
            for before, element in zip((None, *value), value, strict=False)
        ]
    is_variable = is_secret(_variable(value))
    cleaned = {}
    for name, inside in value.items():
        is_environment = _ENVIRONMENT.fullmatch(_CAMEL.sub("_", name)) is not None
        secret = is_secret(name) or (is_variable and name == "value")
        if not secret or inside is None or isinstance(inside, int | float):
            cleaned[name] = without_secrets(_variables(inside) if is_environment else inside, depth - 1)
    return cleaned


def _is_secret_option(argument: Any) -> bool:
    """Whether the argument after this one in a list is a secret."""
    return isinstance(argument, str) and re.fullmatch(r"--?[\w.-]+", argument) is not None and is_secret(argument)


def _variables(value: Any) -> Any:
    """The variables of an environment that may be stored, in any of its written forms."""
    if isinstance(value, Mapping):
        return {name: inside for name, inside in value.items() if may_store_variable(name)}
    if isinstance(value, list | tuple):
        return [variable for variable in value if may_store_variable(_variable(variable))]
    if isinstance(value, str) and ("=" in value or len(value.split()) > 1):
        lines = re.split(r"[\n\0]", value)
        return "\n".join(line for line in lines if may_store_variable(_variable(line)))
    return value  # a single word is no environment: simulators have this name too


def _is_environment(value: Any) -> bool:
    names = value if isinstance(value, Mapping) else map(_variable, value)
    return len(_OF_EVERY_ENVIRONMENT.intersection(names)) > 1


def _variable(variable: Any) -> str:
    """The name of the variable in `A=1`, in `["A", "1"]`, or in `{"name": "A", "value": "1"}`."""
    if isinstance(variable, Mapping):
        variable = variable.get("name") or variable.get("key")
    elif isinstance(variable, list | tuple) and len(variable) == 2:
        variable = variable[0]
    return variable.partition("=")[0].strip() if isinstance(variable, str) else ""
