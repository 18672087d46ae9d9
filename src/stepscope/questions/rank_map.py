"""One measure by rank and step: the data of a heat map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stepscope.formats.evidence import Evidence
from stepscope.query.declare import RANK, SPAN, STEP, Column, Parameter, question
from stepscope.query.rows import answer_rows, noted

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.query.scope import Scope

_COLUMNS = (
    RANK,
    SPAN,
    STEP,
    Column("value_ns", "int", "the measure, summed over the rank's devices"),
    Column("share_ratio", "float", "the part of the step that this is; of several devices, of theirs"),
    Column("counted", "bool", "whether means are made of the step; of no step of a damaged rank", shown="varying"),
)
_MEASURES = {
    "step": "step",
    "computation": "computation",
    "exposed-communication": "exposed_communication",
    "communication": "communication",
    "exposed-copies": "exposed_copy",
    "copies": "copy",
    "idle": "idle",
    "kernels": "kernels",
    "waiting": "waiting",
    "bubble": "bubble",
}
_OF_DEVICES: tuple[Evidence, ...] = ("devices", "device-work", "device-times", "kernel-names", "steps")
_OF_WAITING: tuple[Evidence, ...] = ("clocks", "across-ranks")
_OF_THE_RANK = ("step", "waiting", "bubble")
"""Measures of the rank itself, which its devices share."""
_NO_PIPELINE = (
    "No pipeline is recognised: of the process groups in which ranks send and receive none is described as one, and "
    "in none do they send to those that they receive from, as its stages do."
)


@question(
    "rank-map",
    "How does one measure differ over ranks and steps?",
    _COLUMNS,
    rests_on=(*_OF_DEVICES, *_OF_WAITING),
    about="time",
    parameters=(
        Parameter(
            "measure",
            "text",
            "what is shown of each step: its length, parts of `rank-overview`, communication or copies "
            "hidden or not, the time in which a kernel ran, that of waiting for other ranks in collectives, or the "
            "bubble, in which it waited for other stages of its pipeline",
            "step",
            tuple(_MEASURES),
            form=True,
        ),
    ),
    drawing="map",
    fills="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on every rank.",
)
def rank_map(scope: Scope, measure: str = "step") -> pa.Table:
    """Each row is a step of a rank, with one of the measures of `rank-overview`; a rank without a device has
    only its steps' lengths.

    A terminal draws it as a map: a line for each rank, a column for each step, the darker the higher. The scale
    extends from the lowest value to the highest, but at least over 10 % of the median, so that noise
    does not look like a pattern. If it does not fit, ranks are merged to lines and steps to columns, and
    the map says so: each cell then has the value farthest from the median of all, so that no unusual rank or
    step is lost. Steps that a rank does not have are blank; those left out of means, including all of a rank whose
    recording is damaged, are drawn but do not extend the scale. `--plot` draws it all into a file.
    """
    import numpy as np

    from stepscope.analysis.ranks.rank_times import PARTS, rank_steps
    from stepscope.query.sound import damaged_ranks

    damaged = damaged_ranks(scope)

    def rows() -> Iterator[list[Any]]:
        name = _MEASURES[measure]
        for one in rank_steps(scope):
            if name not in one.times:
                continue
            parts = PARTS if one.devices and name not in _OF_THE_RANK else ("step",)
            of = np.sum([one.times[part] for part in parts], axis=0)
            columns = (one.step, one.times[name], of, one.counted & (one.rank not in damaged))
            for step, value, whole, counted in zip(*(c.tolist() for c in columns), strict=True):
                yield [one.rank, one.span, step, value, value / whole if whole else None, counted]

    answer = answer_rows(_COLUMNS, rows())
    if measure == "bubble" and not answer.num_rows:
        return noted(answer, _NO_PIPELINE)
    return answer if measure in ("waiting", "bubble") else noted(answer, "", rests_on=_OF_DEVICES)
