"""How a running job is asked for a trace: through files in a directory that its ranks can see.

1. `stepscope trigger` writes `request.json` with a new id and without a step: the call.
2. Every rank answers with a file of its own, `rank=00003.json`: its current step, and how long its steps take.
3. When all have answered, the request is written again with a step that none of them has reached: the order. Each rank
starts when it gets there.

So the ranks agree without comparing clocks or adding messages to the job's communication. Without a request nothing is
written.
"""

from __future__ import annotations

import errno
import json
import math
import uuid
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from stepscope.base.regular_file import regular_file_bytes
from stepscope.record.output import write_complete

REQUEST = "request.json"
WARMUP = 1
"""Steps before the first recorded one in which the profiler is running."""
MAX_STEPS = 100
FINAL = frozenset({"written", "skipped", "not-chosen", "failed", "ended", "busy"})
"""States that end a rank's answers to a request."""
BUSY = "busy"
"""State of a rank that is recording for another request."""

_MAX_BYTES = 1 << 16
_NO_REQUEST = {errno.EINVAL: "no regular file", errno.EFBIG: "far too large"}
_MAX_RANKS = 1 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a job; ValueError for an invalid field.

    `at_step` is the first recorded step, None until the ranks have answered; `ranks` as in `base.chosen_ranks`.
    """

    id: str
    steps: int = 5
    at_step: int | None = None
    ranks: str | None = None
    memory: bool = False
    stack: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not 0 < len(self.id) <= 64:
            raise ValueError("id is a text of at most 64 characters")
        if not _is_integer(self.steps) or not 1 <= self.steps <= MAX_STEPS:
            raise ValueError(f"steps is a number from 1 to {MAX_STEPS}")
        if self.at_step is not None and (not _is_integer(self.at_step) or self.at_step < 1):
            raise ValueError("at_step is the number of a step, from 1")
        if self.ranks is not None and not isinstance(self.ranks, str):
            raise ValueError('ranks is a text like "0,8"')
        if not isinstance(self.memory, bool) or not isinstance(self.stack, bool):
            raise ValueError("memory and stack are true or false")


@dataclass(frozen=True, slots=True)
class Answer:
    """A rank's answer to a request; ValueError for an invalid field.

    `step_seconds` is the median of its recent steps, `state` is `here`, `armed`, `recording` or one of `FINAL`, and
    `why` the reason if the result is not what was requested.
    """

    id: str
    rank: int
    world_size: int
    host: str
    pid: int
    step: int
    step_seconds: float
    state: str
    why: str = ""
    files: tuple[str, ...] = ()
    local_rank: int | None = None
    node: int | None = None
    disagreement: str = ""

    def __post_init__(self) -> None:
        texts = (self.id, self.host, self.state, self.why, self.disagreement, *self.files)
        places = [place for place in (self.local_rank, self.node) if place is not None]
        numbers = (self.rank, self.world_size, self.pid, self.step, *places)
        if not all(isinstance(text, str) for text in texts) or not all(map(_is_integer, numbers)):
            raise ValueError("an answer's texts are texts and its numbers are integers")
        if not 0 <= self.rank < self.world_size <= _MAX_RANKS:
            raise ValueError("rank is a number below world_size")
        seconds = self.step_seconds
        if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            raise ValueError("step_seconds is a time")


def new_request(**options: Any) -> Request:
    """Makes a request with a new id; ValueError for an invalid field."""
    return Request(uuid.uuid4().hex, **options)


def read_request(directory: Path) -> Request:
    """Reads the request in a directory.

    Raises:
        OSError: there is none, or it cannot be read.
        ValueError: it is not a request.
    """
    content = _read_json(directory / REQUEST)
    names = {field.name for field in fields(Request)}
    if not isinstance(content, dict) or "id" not in content or not set(content) <= names:
        raise ValueError("it is not an object with the fields of a request")
    return Request(**content)


def write_request(directory: Path, request: Request) -> None:
    """Writes a complete request into the directory, replacing the previous one."""
    _write_json(directory / REQUEST, asdict(request))


def write_answer(directory: Path, answer: Answer) -> None:
    """Writes a rank's answer into the directory; does not recreate a deleted directory."""
    if not directory.is_dir():
        raise FileNotFoundError(str(directory))
    _write_json(directory / f"rank={answer.rank:05}.json", asdict(answer))


def read_answers(directory: Path, request: Request) -> dict[int, Answer]:
    """The answers to this request by rank, without answers to other requests and damaged files."""
    return {answer.rank: answer for answer in all_answers(directory) if answer.id == request.id}


def all_answers(directory: Path) -> list[Answer]:
    """The last answer of each rank, to any request."""
    answers = []
    for path in sorted(directory.glob("rank=*.json")):
        try:
            content = _read_json(path)
            answers.append(Answer(**{**content, "files": tuple(content["files"])}))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return answers


def _is_integer(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _read_json(path: Path) -> Any:
    # Anything may be there: a pipe would block, and a huge file is not ours.
    try:
        text = regular_file_bytes(path, _MAX_BYTES)
    except OSError as error:
        if error.errno in _NO_REQUEST:
            raise ValueError(f"it is {_NO_REQUEST[error.errno]}") from None
        raise
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content).encode()
    write_complete(path, lambda file: file.write(text))
