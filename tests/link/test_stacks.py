"""The call stack of each operator, from the Python frames around it."""

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.vocabulary import is_program_frame, lies_in_file
from stepscope.link import stacks


def stack_of(linked, row):
    number = linked.host(row)["stack_id"]
    known = dict(zip(*(linked.column("call_stack", one) for one in ("stack_id", "frames")), strict=True))
    return None if number is None else known[number]


def test_an_operator_has_the_frames_of_the_program_innermost_first(recording):
    recording.python("threading.py(1032): _bootstrap", 0, 1000)
    recording.python("train.py(40): main", 10, 990)
    recording.python("nn.Module: Net_0", 20, 900)
    recording.python("torch/nn/modules/module.py(1743): _call_impl", 30, 890)
    recording.python("models/net.py(12): forward", 40, 880)
    recording.python("<built-in function linear>", 50, 300)
    first = recording.operator("aten::linear", 60, 290)
    inner = recording.operator("aten::addmm", 70, 280)
    launch = recording.launch(80, 90, 1)
    other = recording.operator("aten::relu", 400, 500)
    outside = recording.operator("aten::zero_", 950, 960)
    linked = recording.link()
    whole = "models/net.py(12): forward;train.py(40): main"
    assert [stack_of(linked, row) for row in (first, inner, launch, other)] == [whole] * 4
    assert stack_of(linked, outside) == "train.py(40): main"
    assert sorted(linked.column("call_stack", "frames")) == [whole, "train.py(40): main"]


def test_without_a_frame_of_the_program_the_libraries_frames_count(recording):
    recording.python("threading.py(1032): _bootstrap", 0, 1000)
    recording.python("torch/utils/data/worker.py(5): _loop", 10, 990)
    recording.python("<built-in method stack>", 20, 300)
    alone = recording.operator("aten::stack", 30, 290)
    bare = recording.operator("aten::empty", 2000, 2010)
    linked = recording.link()
    assert stack_of(linked, alone) == ("torch/utils/data/worker.py(5): _loop;threading.py(1032): _bootstrap")
    assert stack_of(linked, bare) is None


def test_backward_has_the_stack_of_its_forward(recording):
    recording.python("train.py(9): main", 0, 1000)
    recording.python("net.py(3): forward", 10, 100)
    recording.operator("aten::mul", 20, 90, sequence_number=4)
    node = recording.operator("MulBackward0", 500, 600, 1, sequence_number=4, forward_thread=1)
    inner = recording.operator("aten::mul", 510, 590, 1)
    beside = recording.operator("aten::sum", 700, 710, 1)
    linked = recording.link()
    assert linked.host(node)["forward_id"] is not None
    assert stack_of(linked, node) == stack_of(linked, inner) == ("net.py(3): forward;train.py(9): main")
    assert stack_of(linked, beside) is None


def test_a_stack_that_the_file_states_is_kept_and_an_empty_one_is_none(recording):
    recording.stack_rows = [
        {"stack_id": 0, "frames": ""},
        {"stack_id": 1, "frames": "net.py(3): forward;train.py(9): main"},
    ]
    told = recording.operator("aten::mul", 20, 90, stack_id=1)
    silent = recording.operator("aten::add", 100, 190, stack_id=0)
    linked = recording.link()
    assert stack_of(linked, told) == "net.py(3): forward;train.py(9): main"
    assert stack_of(linked, silent) is None


def test_a_recursion_keeps_its_innermost_frames(recording):
    for level in range(100):
        recording.python(f"tree.py({level}): visit", level, 1000 - level)
    operator = recording.operator("aten::add", 400, 500)
    frames = stack_of(recording.link(), operator).split(";")
    assert frames == [f"tree.py({level}): visit" for level in range(99, 67, -1)]


def test_long_names_in_many_stacks_do_not_multiply(recording, monkeypatch):
    monkeypatch.setattr(stacks, "_MAX_TEXT", 3_000)
    recording.python(f"{'x' * 1000}.py(1): run", 0, 1000)
    operators = []
    for number in range(10):
        start = 10 + 50 * number
        recording.python(f"part.py({number}): step", start, start + 40)
        operators.append(recording.operator("aten::add", start + 10, start + 20))
    linked = recording.link()
    assert [stack_of(linked, row) for row in operators] == [f"part.py({number}): step" for number in range(10)]


NAMES = [
    "train.py(1): main", "net.py(2): forward", "torch/nn/modules/module.py(3): _call_impl", "threading.py(4): run",
    "<built-in function add>", "nn.Module: Net_0",
]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["op", *NAMES])), max_size=30))
@examples(60)
def test_stacks_are_those_of_a_walk_over_the_events(recording, events):
    recording = type(recording)()
    now, open_frames, spans = 0, [], []
    for closed, name in events:  # close some events, then open one
        for _ in range(min(closed, len(open_frames))):
            spans[open_frames.pop()][2] = now = now + 1
        now += 1
        open_frames.append(len(spans))
        spans.append([name, now, None, [spans[one][0] for one in open_frames[:-1]]])
    while open_frames:
        spans[open_frames.pop()][2] = now = now + 1
    rows = [
        recording.operator("aten::add", start, end) if name == "op" else recording.python(name, start, end)
        for name, start, end, _ in spans
    ]
    if not rows:
        return
    linked = recording.link()
    for row, (name, _, _, above) in zip(rows, spans, strict=True):
        if name != "op":
            continue
        frames = [one for one in above if one != "op"][::-1]
        kept = [one for one in frames if is_program_frame(one)] or [one for one in frames if lies_in_file(one)]
        assert stack_of(linked, row) == (";".join(kept) or None)
