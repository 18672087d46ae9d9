"""The one grammar of ranks of a job: what it chooses, and how it refuses what it cannot read."""

import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.examples import examples

from stepscope.base.chosen_ranks import chosen, may_be_chosen, parse_ranks
from stepscope.base.errors import StepScopeError, UsageError
from stepscope.base.ranks import Process

PROCESS = Process(rank=3, local_rank=1, world_size=8, host="a", pid=1, rule="Slurm", node=1, local_world_size=2)


@pytest.mark.parametrize(
    ("ranks", "yes"),
    [
        (None, True), ("all", True), ("3", True), ("0,3", True), ("2-4", True), ("0-2", False), (" 0, 2 - 4 ", True),
        ("local:1", True), ("local:0", False), ("local:0,1", True), ("node:0-1", True), ("node:0", False),
        ("every:3", True), ("every:16", False), ("every:1", True), ("local:1+0-7", True), ("local:1+0-2", False),
        ("all+local:1", True), ("node:1+local:1+every:3+3", True), ("node:1 + local:0", False),
    ],
)  # fmt: skip
def test_ranks_are_chosen(ranks: str | None, yes: bool) -> None:
    assert chosen(ranks, PROCESS) is yes
    assert may_be_chosen(ranks, PROCESS) is yes


NUMBERS = some.integers(0, 9)
RANGES = some.lists(some.tuples(NUMBERS, NUMBERS).map(sorted).map(tuple), min_size=1, max_size=3)
TERMS = some.lists(
    some.one_of(
        some.tuples(some.just("all"), some.just([])),
        some.tuples(some.sampled_from(["", "local:", "node:"]), RANGES),
        some.tuples(some.just("every:"), some.integers(1, 9).map(lambda step: [(step, step)])),
    ),
    min_size=1,
    max_size=3,
)


def _text(terms: list[tuple[str, list[Any]]]) -> str:
    lists = [prefix + ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges) for prefix, ranges in terms]
    return "+".join(lists)


@examples(100)
@given(terms=TERMS, nodes=some.integers(1, 4), on_node=some.integers(1, 5))
def test_a_choice_is_the_same_as_that_of_sets(terms: list[tuple[str, list[Any]]], nodes: int, on_node: int) -> None:
    world = {node * on_node + local: (node, local) for node in range(nodes) for local in range(on_node)}
    wanted = set(world)
    for prefix, ranges in terms:
        named = {number for first, last in ranges for number in range(first, last + 1)}
        if prefix == "":
            wanted &= named
        elif prefix == "local:":
            wanted &= {rank for rank, (_, local) in world.items() if local in named}
        elif prefix == "node:":
            wanted &= {rank for rank, (node, _) in world.items() if node in named}
        elif prefix == "every:":
            wanted &= set(range(0, len(world), ranges[0][0]))
    text = _text(terms)
    assert shlex.quote(text) == text, "a shell would change it"
    found = {
        rank
        for rank, (node, local) in world.items()
        if chosen(text, replace(PROCESS, rank=rank, local_rank=local, node=node))
    }
    assert found == wanted


def _place(text: str) -> int | None:
    """How many characters of a text stand before the one from which it cannot be read; None for none."""
    try:
        parse_ranks(text)
    except UsageError as error:
        return int(error.message.rpartition("from character ")[2].partition(",")[0]) - 1
    return None


@examples(200)
@given(some.text(alphabet="0123,-+: alnodevrycxé;", max_size=12))
def test_a_text_can_go_on_from_where_it_could_not_be_read(text: str) -> None:
    place = _place(text)
    if place is not None:
        continued = (text[:place] + rest for rest in ("", "99", ":1"))
        assert 0 <= place <= len(text)
        assert any(_place(one) is None for one in continued)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ("", 'character 1, where the text ends: a number is missing; write for example "0,8"'),
        ("1-", "character 3, where the text ends: a number is missing"),
        ("0,", "character 3, where the text ends: a number is missing"),
        ("3-1", 'character 1, "3-1": the range runs backwards; write for example "1-3"'),
        ("0,3-1,9", 'character 3, "3-1,9": the range runs backwards'),
        ("first two", 'character 1, "first two": "first" is none of'),
        ("local:0;1", 'character 8, ";1": only ",", "-" or "+" can follow a number'),
        ("local:0|0-7", 'character 8, "|0-7": only ",", "-" or "+" can follow'),
        ("local0", 'character 6, "0": a ":" is missing after "local"; write for example "local:1"'),
        ("local:", "character 7, where the text ends: a number is missing"),
        ("Local:0", 'character 1, "Local:0": "Local" is none of'),
        ("every:0", 'character 7, "0": "every:" takes a number from 1 on'),
        ("every:16,2", 'character 9, ",2": "every:" takes one number, which only "+" can follow'),
        ("all,3", 'character 4, ",3": only "+" can follow "all"'),
        ("0++1", 'character 3, "+1": a number is missing'), ("-1", 'character 1, "-1": a number is missing'),
        ("0-3-5", 'character 4, "-5": only "," or "+" can follow a range'), ("٣", "character 1"),
        ("1" * 30, "the number is too long"), ("0;" + "x" * 50, f'character 2, ";{"x" * 19}…"'),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_its_character_and_an_example(ranks: str, said: str) -> None:
    with pytest.raises(UsageError) as told:
        chosen(ranks, PROCESS)
    assert said in told.value.message
    assert f'ranks "{ranks}"' in told.value.message
    assert 'write for example "' in told.value.message
    assert "local:0+0-7" in told.value.hint
    assert told.value.slug == "bad-ranks"
    with pytest.raises(UsageError):
        may_be_chosen(ranks, PROCESS)


@pytest.mark.parametrize("ranks", [0, [0, 8], True])
def test_ranks_that_are_no_text_are_refused(ranks: Any) -> None:
    with pytest.raises(UsageError, match="is not text"):
        chosen(ranks, PROCESS)


@pytest.mark.parametrize(("ranks", "missing"), [("local:0", "local rank"), ("node:1", "node"), ("node:1+0-7", "node")])
def test_what_the_launcher_does_not_say_is_not_guessed(ranks: str, missing: str) -> None:
    unknown = Process(rank=3, local_rank=None, world_size=8, host="a", pid=1, rule="ALPS")
    with pytest.raises(StepScopeError) as told:
        chosen(ranks, unknown)
    assert f"its {missing} is not known from ALPS" in told.value.message
    assert told.value.slug == "rank-unknown"
    assert may_be_chosen(ranks, unknown)


def test_a_rank_that_is_out_in_any_case_needs_no_local_rank() -> None:
    unknown = Process(rank=9, local_rank=None, world_size=16, host="a", pid=1, rule="ALPS")
    assert chosen("local:0+0-7", unknown) is False
    assert may_be_chosen("local:0+0-7", unknown) is False


def test_where_launchers_disagree_only_all_ranks_are_sure() -> None:
    unsure = replace(PROCESS, disagreement="it is rank 3 by PALS, but rank 0 by Flux")
    assert chosen("all", unsure)
    assert chosen(None, unsure)
    with pytest.raises(StepScopeError, match="rank 3 by PALS, but rank 0 by Flux"):
        chosen("9", unsure)
    assert may_be_chosen("9", unsure)
