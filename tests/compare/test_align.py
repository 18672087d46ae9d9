from stepscope.compare.align import align
from stepscope.compare.tree import Node


def module(name, class_name, *parts):
    node = Node("module", name, class_name)
    node.parts = {part.key: part for part in parts}
    return node


def work(kind, name, ns, *parts):
    node = Node(kind, name, self_ns={(0, 0, 0): ns} if ns else {}, self_count=1)
    node.parts = {part.key: part for part in parts}
    return node


def linear(name, ns=10):
    return module(name, "Linear", work("operator", "aten::linear", ns))


def forward(*parts):
    return work("step", "step", 0, work("direction", "forward", 0, *parts))


def listed(pair, path=()):
    """(path, before, after, matched) of every pair below the root."""
    found = []
    for part in pair.parts:
        here = (*path, part.node.name)
        times = [None if node is None else node.total_ns for node in (part.before, part.after)]
        found += [("/".join(here), *times, part.matched), *listed(part, here)]
    return found


def modules_of(pair):
    return {path: (before, after, matched) for path, before, after, matched in listed(pair)
            if not path.endswith(("forward", "aten::linear"))}  # fmt: skip


def test_a_module_with_another_name_and_the_same_class_and_parts_is_the_same():
    before = forward(module("encoder", "Block", linear("q"), linear("k")))
    after = forward(module("blocks", "Block", linear("q", 12), linear("k")))
    assert modules_of(align(before, after)) == {
        "forward/blocks": (20, 22, "was encoder"),
        "forward/blocks/q": (10, 12, None),
        "forward/blocks/k": (10, 10, None),
    }


def test_several_renamed_modules_of_one_shape_are_matched_in_order_when_all_are_there():
    before = forward(linear("fc1", 10), linear("fc2", 20))
    after = forward(linear("up", 11), linear("down", 21))
    assert modules_of(align(before, after)) == {"forward/up": (10, 11, "was fc1"), "forward/down": (20, 21, "was fc2")}


def test_two_of_one_shape_against_three_are_gone_and_new_because_nobody_can_tell_which_is_which():
    before = forward(linear("a"), linear("b"))
    after = forward(linear("x"), linear("y"), linear("z"))
    assert modules_of(align(before, after)) == {
        "forward/a": (10, None, None),
        "forward/b": (10, None, None),
        "forward/x": (None, 10, None),
        "forward/y": (None, 10, None),
        "forward/z": (None, 10, None),
    }


def test_modules_of_one_class_that_do_other_work_are_not_the_same():
    before = forward(module("a", "Block", work("operator", "aten::mm", 5)))
    after = forward(module("b", "Block", work("operator", "aten::conv2d", 5)))
    assert {matched for *_, matched in listed(align(before, after))} == {None}


def test_a_module_of_parts_that_is_elsewhere_now_says_where():
    attention = lambda ns: module("attn", "Attention", linear("q", ns), linear("k"))  # noqa: E731
    before = forward(module("encoder", "Encoder", attention(10)), module("decoder", "Decoder"))
    after = forward(module("encoder", "Encoder"), module("decoder", "Decoder", attention(15)))
    moved = modules_of(align(before, after))
    assert moved["forward/encoder/attn"] == (20, None, "moved to decoder.attn")
    assert moved["forward/decoder/attn"] == (None, 25, "moved from encoder.attn")


def test_an_operator_around_another_that_one_side_lacks_is_passed_over():
    inner = lambda: work("operator", "aten::addmm", 0, work("kernel", "gemm", 10))  # noqa: E731
    before = forward(work("operator", "aten::linear", 0, inner()))
    after = forward(inner())
    paths = {path: times for path, *times, _ in listed(align(before, after))}
    assert paths == {"forward": [10, 10], "forward/aten::addmm": [10, 10], "forward/aten::addmm/gemm": [10, 10]}


def test_what_is_least_of_an_operator_that_is_gone_is_not_the_one_beside_it():
    copy = lambda: work("operator", "aten::copy_", 2)  # noqa: E731
    before = forward(work("operator", "fused", 0, work("kernel", "big", 50), copy()))
    after = forward(copy())
    assert ("forward/aten::copy_", None, 2, None) in listed(align(before, after))
