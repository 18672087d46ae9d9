"""Which of nested rows did the work: none counts twice, none is left out that could be counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.costs.composite import answering
from stepscope.costs.registry import BY_NAME, is_composite


def _answers(parent, modelled, composite) -> list[int]:
    return answering(
        np.array(parent, dtype=np.int64), np.array(modelled, dtype=bool), np.array(composite, dtype=bool)
    ).tolist()


def test_linear_leaves_its_work_to_the_addmm_inside() -> None:
    # linear > addmm; a kernel of linear itself would have nobody to answer for it.
    assert _answers([-1, 0], [True, True], [True, False]) == [-1, 1]


def test_a_composite_alone_answers_for_itself() -> None:
    assert _answers([-1, 0], [True, False], [True, False]) == [0, 0]


def test_an_operator_that_is_no_composite_answers_beside_one_inside() -> None:
    # addmm that copies its addend first: the copy's kernel is the copy's, the product's is its own.
    assert _answers([-1, 0], [True, True], [False, False]) == [0, 1]


def test_rows_without_a_model_ask_upwards_past_each_other() -> None:
    assert _answers([-1, 0, 1, 2], [True, False, False, False], [False] * 4) == [0, 0, 0, 0]
    assert _answers([-1, 0], [False, False], [False, False]) == [-1, -1]


forests = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        st.tuples(*(st.integers(-1, at - 1) for at in range(n))),
        st.lists(st.booleans(), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n),
    )
)


@examples(60)
@given(forests, st.randoms(use_true_random=False))
def test_answers_are_those_of_walking_upwards(forest, random) -> None:
    parent, modelled, composite = (list(part) for part in forest)
    order = list(range(len(parent)))
    random.shuffle(order)  # a parent may stand anywhere
    place = {old: new for new, old in enumerate(order)}
    parent = [place[parent[old]] if parent[old] >= 0 else -1 for old in order]
    modelled, composite = [modelled[old] for old in order], [composite[old] for old in order]

    def above(row):
        while parent[row] >= 0:
            row = parent[row]
            yield row

    enclosing = {over for row in range(len(parent)) if modelled[row] for over in above(row)}
    counts = [modelled[row] and not (composite[row] and row in enclosing) for row in range(len(parent))]
    expected = [next((over for over in [row, *above(row)] if counts[over]), -1) for row in range(len(parent))]
    assert _answers(parent, modelled, composite) == expected


def test_a_deep_chain_is_walked_in_few_rounds() -> None:
    depth = 5000
    parent = np.arange(-1, depth - 1)
    modelled = np.zeros(depth, dtype=bool)
    modelled[0] = True
    assert set(answering(parent, modelled, np.zeros(depth, dtype=bool)).tolist()) == {0}


@pytest.mark.torch
def test_every_modelled_operator_that_torch_composes_is_known_as_composite() -> None:
    torch = pytest.importorskip("torch")
    schemas: dict[str, list[str]] = {}
    for schema in torch._C._jit_get_all_schemas():
        overload = f".{schema.overload_name}" if schema.overload_name else ""
        schemas.setdefault(schema.name, []).append(schema.name + overload)

    def composed(name: str) -> bool:
        found = []
        for full in schemas[name]:
            if full.endswith(("out", "Dimname", "names")):
                continue
            try:
                found.append(torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd"))
            except RuntimeError:
                continue
        return bool(found) and all(found)

    modelled = {name for name, model in BY_NAME.items() if name in schemas and model.family != "view"}
    assert len(modelled) > 500
    missing = sorted(name for name in modelled if composed(name) and not is_composite(name))
    assert missing == []


@pytest.mark.torch
def test_the_composites_are_operators_of_torch_past_or_present() -> None:
    torch = pytest.importorskip("torch")
    known = {schema.name for schema in torch._C._jit_get_all_schemas()}
    past = {
        "aten::cudnn_convolution_backward",
        "aten::cudnn_convolution_transpose_backward",
        "aten::miopen_convolution_backward",
        "aten::miopen_depthwise_convolution_backward",
        "aten::miopen_convolution_transpose_backward",
        "aten::mkldnn_convolution_backward",
    }
    composites = {name for name in BY_NAME if is_composite(name)}
    assert sorted(composites - known - past) == []
