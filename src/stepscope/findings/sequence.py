"""The device work of a typical step, in order, in which rules look for patterns of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from stepscope.analysis.attribution import HOST_CALLS
from stepscope.costs import class_of, model_of
from stepscope.schema.device_work import WORK

if TYPE_CHECKING:
    from stepscope.costs import Model
    from stepscope.query.scope import Scope

_MAX_PIECES = 50_000
"""The most pieces of work examined in a recording without marked steps; patterns repeat."""

_TYPICAL = """
    SELECT rank, span, step, start_ns, end_ns FROM step
    WHERE {counted} ORDER BY end_ns - start_ns, rank, span, step
    LIMIT 1 OFFSET (SELECT (count(*) - 1) // 2 FROM step WHERE {counted})
"""
_CALLS = HOST_CALLS.format(host="host_event")
_WORK = f"""
    SELECT work.kind, work.name, op.name AS operator, op.input_id, work.operator_id,
        coalesce(op.start_ns, launch.start_ns) AS called_ns,
        launch.start_ns + launch.dur_ns AS launched_ns, forward.start_ns AS forward_called_ns, work.direction,
        work.device, work.stream, work.start_ns, work.start_ns + work.dur_ns AS end_ns,
        work.blocks_per_sm, work.graph_id IS NOT NULL OR launch.role = 'graph_launch' AS replayed
    FROM (
        SELECT * FROM device_event
        WHERE {WORK} AND rank = $rank AND span = $span AND (step = $step OR NOT $marked)
        ORDER BY start_ns LIMIT {_MAX_PIECES}
    ) AS work
    LEFT JOIN (
        SELECT id, name, input_id, forward_id, start_ns FROM ({_CALLS})
        WHERE kind = 'operator' AND rank = $rank
    ) AS op ON op.id = work.operator_id
    LEFT JOIN (SELECT id, start_ns FROM host_event WHERE rank = $rank) AS forward
        ON forward.id = op.forward_id
    LEFT JOIN (SELECT id, role, start_ns, dur_ns FROM host_event WHERE kind = 'runtime' AND rank = $rank)
        AS launch ON launch.id = work.launch_id
    ORDER BY work.device, work.stream, work.start_ns, work.id
"""


@dataclass(frozen=True, slots=True)
class Piece:
    """A kernel, copy or fill; `called_ns` is when its operator started (or its launch, if there is none), `launched_ns`
    when its launch ended, `forward_called_ns`, for backward work, when its forward operator started."""

    kind: str
    name: str
    operator: str | None
    input_id: int | None
    operator_id: int | None
    called_ns: int | None
    launched_ns: int | None
    forward_called_ns: int | None
    direction: str | None
    device: int
    stream: int
    start_ns: int
    end_ns: int
    blocks_per_sm: float | None
    replayed: bool | None

    @property
    def dur_ns(self) -> int:
        """Its duration (ns)."""
        return self.end_ns - self.start_ns

    @property
    def model(self) -> Model | None:
        """The model of its operator."""
        return model_of(self.operator) if self.operator is not None else None

    @property
    def label(self) -> str:
        """Its class of work."""
        model = self.model
        return class_of(None if model is None else model.family, self.name)


@dataclass(frozen=True, slots=True)
class Sequence:
    """The work of one step of one rank, by stream and start."""

    rank: int
    span: int
    step: int | None
    start_ns: int
    end_ns: int
    pieces: tuple[Piece, ...]

    @property
    def place(self) -> dict[str, Any]:
        """Its rank, step and window, for a finding about it; no step if none is marked."""
        window = (self.start_ns, self.end_ns)
        return {"rank": self.rank, "lost_on": self.rank, "step": self.step, "window_ns": window}

    def streams(self) -> Iterator[list[Piece]]:
        """The work of each stream in order."""
        for _, pieces in groupby(self.pieces, key=lambda piece: (piece.device, piece.stream)):
            yield list(pieces)


def host_ns(pieces: Iterable[Piece]) -> int:
    """How long the host takes to launch consecutive work (ns); 0 if not recorded."""
    times = [
        (piece.called_ns, piece.launched_ns)
        for piece in pieces
        if piece.called_ns is not None and piece.launched_ns is not None
    ]
    return max((end for _, end in times), default=0) - min((start for start, _ in times), default=0)


def typical_step(scope: Scope, counted: str, *, marked: bool) -> Sequence | None:
    """The step of median length among `counted` (SQL), with its work; that of the recording if steps are not `marked`."""
    rows = scope.sql(_TYPICAL.replace("{counted}", counted)).to_pylist()
    if not rows:
        return None
    row = rows[0]
    key = {name: row[name] for name in ("rank", "span", "step")}
    work = scope.sql(_WORK, {**key, "marked": marked}).to_pylist()
    row["step"] = row["step"] if marked else None
    return Sequence(**row, pieces=tuple(Piece(**piece) for piece in work))
