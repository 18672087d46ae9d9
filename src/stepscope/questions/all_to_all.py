"""How much each rank sent to each other in all-to-all exchanges, and how evenly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.query.declare import RANK, Column, by_form, question
from stepscope.query.rows import ArrowTable, answer_rows, noted
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.ranks.exchanges import Exchanges

_COLUMNS = (
    Column("group", "text", "name of the process group", shown="varying"),
    RANK,
    Column("source", "int", "rank that sent"),
    Column("destination", "int", "rank that received"),
    Column("calls", "int", "exchanges", "count"),
    Column("bytes", "int", "what it sent to it", sums=True),
    Column("share_ratio", "float", "its part of all that is listed of the group"),
    Column("sent_bytes", "int", "what it sent, to itself too", sums=True),
    Column("sent_over_mean", "float", "that over the mean of the group's ranks"),
    Column("received_bytes", "int", "what it received, from itself too", sums=True),
    Column("received_over_mean", "float", "that over the mean of the group's ranks"),
    Column("start_ns", "int", "when its first rank started, since the run's start", moment=True),
    Column("ranks", "int", "ranks that took part", "count"),
    Column("total_bytes", "int", "what they received together", sums=True),
    Column("max_over_mean", "float", "what the rank received that received most, over their mean"),
    Column("max_rank", "int", "that rank; empty where all received alike"),
)


_FORMS = {
    "pair": ("group", "source", "destination", "calls", "bytes", "share_ratio"),
    "rank": ("group", "rank", "calls", "sent_bytes", "sent_over_mean", "received_bytes",
             "received_over_mean"),
    "exchange": ("group", "start_ns", "ranks", "total_bytes", "max_over_mean", "max_rank"),
}  # fmt: skip


@question(
    "all-to-all",
    "How much did each rank send to each other in all-to-all exchanges, and how evenly?",
    _COLUMNS,
    group="ranks",
    rests_on=("device-work", "kernel-names"),
    about="events",
    parameters=(
        by_form(
            "`pair` for a row a sender and receiver, `rank` for a row a rank, `exchange` for a row an exchange", *_FORMS
        ),
    ),
    fills="How much goes to whom is recorded by torch 2.3 and later beside a collective's arguments. With sizes of "
    "messages alone: stepscope all-to-all SRC --by rank",
)
def all_to_all(scope: Scope, by: str = "pair") -> ArrowTable:
    """`--by pair` is the volume matrix: for each group what its ranks sent to each other, the largest
    exchanges first. It is known if the recording has the sizes of the parts (`In split size`, which
    torch records with a collective's arguments, or the values of `c10d::alltoall_base_`), unless the recorder cut
    the list short. Parts are recorded in rows or elements of the job; the bytes are the
    message's, divided in that proportion. Destinations are ranks of the job, by the ranks of the group.
    What unrecorded ranks sent is taken from the ranks that received it.

    `--by rank` shows how evenly the ranks are loaded: what each sent and received, over the mean of its group.
    For experts, that is the imbalance of tokens if tokens have one size. It needs only the sizes of messages.
    The means are over the recorded ranks; if a rank is missing they are not the group's.

    `--by exchange` lists the exchanges that are matched over all ranks of their group, the most uneven
    first: data that is evenly spread over a run may be uneven in each exchange, and every exchange lasts as long as
    its rank with most data.

    TraceLens' heat map mistakes an index in the group for a rank of the job.
    """
    from stepscope.analysis.ranks.exchanges import each_exchange, exchanges

    if by == "exchange":
        rows = [list(one) for one in each_exchange(scope)]
        return answer_rows(_COLUMNS, rows, _FORMS[by])
    found = exchanges(scope)
    rows = _by_rank(found) if by == "rank" else _by_pair(found)
    return noted(answer_rows(_COLUMNS, rows, _FORMS[by]), _note(found, by))


def _by_pair(found: Exchanges) -> list[list[Any]]:
    totals: dict[str | None, int] = {}
    for pair, size in found.moved.items():
        totals[pair.group] = totals.get(pair.group, 0) + size
    rows = [
        [*pair, found.pairs[pair], size, size / totals[pair.group] if totals[pair.group] else None]
        for pair, size in found.moved.items()
    ]
    return sorted(rows, key=lambda row: (str(row[0]), -row[4], row[1], row[2]))


def _by_rank(found: Exchanges) -> list[list[Any]]:
    rows = []
    for key, calls in sorted(found.of_rank.items(), key=lambda one: (str(one[0][0]), one[0][1])):
        row: list[Any] = [*key, calls]
        for amounts in (found.sent, found.received):
            alike = [size for (group, _), size in amounts.items() if group == key[0]]
            own, total = amounts[key], sum(size for size in alike if size is not None)
            even = len(alike) > 1 and None not in alike and total > 0
            row += [own, own * len(alike) / total if even and own is not None else None]
        rows.append(row)
    return rows


def _note(found: Exchanges, by: str) -> str:
    if not found.calls:
        return "The recording has no all-to-all exchange."
    if by == "rank":
        lacking = [key for key, size in found.sent.items() if size is None]
        return "Of some exchanges no size is recorded; ranks that had one have no sum." if lacking else ""
    if found.split == found.calls:
        return ""
    return (
        f"Of {found.calls - found.split} of {found.calls} exchanges the recording does not say how much went to whom: "
        "it lacks sizes of the parts or the ranks of the group. `stepscope all-to-all SRC --by rank` has their sums."
    )
