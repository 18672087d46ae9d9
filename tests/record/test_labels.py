"""What a label in a plan asks for."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.record.labels import label_in_layer, parse_label, pattern


@pytest.mark.parametrize(
    ("text", "kind", "module", "direction", "name"),
    [
        ("layers.0.attn.forward", "module", "layers.0.attn", "forward", None),
        ("forward", "module", "", "forward", None),
        ("fc1.backward", "module", "fc1", "backward", None),
        ("backward", "backward", None, None, None),
        ("fc1.forward.aten::addmm", "operator", "fc1", "forward", "aten::addmm"),
        ("forward.aten::addmm", "operator", "", "forward", "aten::addmm"),
        ("fc1.backward.aten::mm", "operator", "fc1", "backward", "aten::mm"),
        ("fc1.backward.AddmmBackward0", "node", "fc1", "backward", "AddmmBackward0"),
        ("fc1.backward.*", "node", "fc1", "backward", "*"),
        ("fc1.forward.*", "operator", "fc1", "forward", "*"),
        ("rnn.backward.forward", "module", "rnn.backward", "forward", None),
        ("optimizer.step", "named", None, None, None),
        ("collective.all_reduce", "collective", None, None, "all_reduce"),
        ("interaction", "region", None, None, None),
        ("fc1.fused.forward.mapping_and_fuse", "region", None, None, None),
    ],
)
def test_each_kind_of_label_is_told_apart(
    text: str, kind: str, module: str | None, direction: str | None, name: str | None
) -> None:
    label = parse_label(text)
    assert (label.kind, label.module, label.direction, label.name) == (kind, module, direction, name)


def test_an_occurrence_is_not_part_of_the_label() -> None:
    label = parse_label("fc1.forward.aten::addmm#2")
    assert (label.text, label.occurrence) == ("fc1.forward.aten::addmm", 2)
    assert label.matches("fc1.forward.aten::addmm", 2)
    assert not label.matches("fc1.forward.aten::addmm", 0)


def test_an_empty_label_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        parse_label("  ")


def test_a_star_stays_within_a_part_and_two_do_not() -> None:
    one, two = parse_label("layers.*.forward"), parse_label("layers.**.forward")
    assert one.matches("layers.0.forward", 0)
    assert not one.matches("layers.0.attn.forward", 0)
    assert two.matches("layers.0.attn.forward", 0)


def test_dots_and_brackets_in_a_label_are_themselves() -> None:
    assert not parse_label("a.b").matches("axb", 0)
    assert parse_label("loss[0]").matches("loss[0]", 0)


@pytest.mark.parametrize(
    ("direction", "event", "label"),
    [
        ("forward", "forward", "fc1.forward"),
        ("backward", "backward", "fc1.backward"),
        ("forward", "aten::addmm#1", "fc1.forward.aten::addmm#1"),
        ("backward", "AddmmBackward0", "fc1.backward.AddmmBackward0"),
        ("backward", "fused.bprop.cublasGemmEx_1", "fc1.fused.bprop.cublasGemmEx_1"),
    ],
)
def test_events_of_a_layer_get_its_name(direction: str, event: str, label: str) -> None:
    assert label_in_layer("fc1", direction, event) == label  # type: ignore[arg-type]


@given(st.lists(st.sampled_from(["a", "b", ".", "*", "**"]), min_size=1, max_size=9), st.text("ab.", max_size=10))
@examples(600)
def test_wildcards_stand_for_names_and_paths(parts, label):
    """As of an expression that tries every place."""
    wild = {"*": "[^.]*", "**": ".*"}
    text = "".join(parts)
    every_place = "".join(wild.get(part, re.escape(part)) for part in re.split(r"(\*\*|\*)", text))
    assert bool(pattern(text).fullmatch(label)) == bool(re.fullmatch(every_place, label))


@pytest.mark.parametrize("part", ["a*", "**a", "**a*b."])
def test_many_wildcards_take_no_longer(part):
    """Trying every place took 18 s for sixty."""
    assert pattern(part * 60 + "x").fullmatch("a.ab" * 100) is None
