"""`throughput`: samples, tokens, or other numbers that a job counted, per second."""

from __future__ import annotations

from stepscope.query.declare import Column, by_form, question
from stepscope.query.rows import ArrowTable, answer_dicts, noted
from stepscope.query.scope import Scope

_COLUMNS = (
    Column("name", "text", "what was counted: samples, tokens, or a name that the script chose"),
    Column("rank", "int", "rank that counted it"),
    Column("ranks", "int", "ranks that counted it", "count"),
    Column("steps", "int", "steps that have the number, on all ranks", "count"),
    Column("per_step", "float", "mean per step, of all ranks together", "count"),
    Column("step_ns", "float", "mean time of these steps"),
    Column("per_second", "float", "sum over these steps divided by their time; over ranks the sum", "count"),
    Column("ci95_low_per_second", "float", "95 % interval of it, low end", "count"),
    Column("ci95_high_per_second", "float", "95 % interval of it, high end", "count"),
)


@question(
    "throughput",
    "How many samples or tokens per second does the job get through?",
    _COLUMNS,
    group="steps",
    rests_on=(),
    about="recording",
    parameters=(by_form("all ranks together, or each by itself", "run", "rank"),),
    steps="all",
    fills="Record with stepscope record; a script that has no DataLoader, or counts something else, "
    'calls stepscope.value("tokens", n) in each iteration.',
)
def throughput(scope: Scope, by: str = "run") -> ArrowTable:
    """Each row is a number that the job reported for its iterations, over all ranks; with `--by rank`, on each.

    The recorder counts `samples`: the first dimension that all tensors of the DataLoader's batch share or, if they
    differ, the loader's `batch_size` if one of them has it. A batch without tensors has no count. Other names are those
    that the script gives to `stepscope.value`, and those of HugeCTR's `record_data`. Several numbers of one name in an
    iteration add up.

    **Per second** is the sum of the numbers over the sum of the times of the steps that have one: for phases the stored
    steps, for inline measurements the iterations in which nothing was measured, for a trace the steps that count in
    means. The interval is that of a ratio of sums, with steps as samples (W. G. Cochran, "Sampling Techniques", chapter
    6). HugeCTR does not say in which iteration it took a value, so its rates are means divided by the mean iteration.

    Over ranks, rates are added up, and so are their intervals, because ranks wait for one another. Ranks that share a
    batch, as in tensor or pipeline parallelism, each count it: their sum is then that many times too large.
    """
    from stepscope.analysis.job.throughput import rates, together

    measured = rates(scope)
    if by == "run":
        measured = together(measured)
    left_out = "rank" if by == "run" else "ranks"
    names = [column.name for column in _COLUMNS if column.name != left_out]
    rows = []
    for rate in measured:
        half = rate.half_per_second
        row = {name: getattr(rate, name) for name in ("name", "steps", "per_step", "step_ns", "per_second")}
        row |= {"rank": rate.ranks[0], "ranks": len(rate.ranks)}
        if half is not None:
            # The low end is negative only for a negative rate.
            low = max(rate.per_second - half, min(rate.per_second, 0.0))
            row |= {"ci95_low_per_second": low, "ci95_high_per_second": rate.per_second + half}
        rows.append(row)
    note = ""
    if by == "run" and any(len(rate.ranks) > 1 for rate in measured):
        note = "Rates of all ranks are added up: ranks that share a batch each count it."
    return noted(answer_dicts(_COLUMNS, rows, names), note)
