"""Every question with each filter: it answers truly, or refuses in our words."""

from contextlib import ExitStack
from itertools import pairwise

import numpy as np
import pytest
from tests.literal import literal_store

import stepscope
from stepscope.api.trace import Trace
from stepscope.base.errors import UsageError
from stepscope.query.ask import ask, ask_within
from stepscope.query.event_filter import EventFilter
from stepscope.query.scope import Scope
from stepscope.questions import all_questions, find

GEMM, ADD = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_cublas", "add_kernel"


def step(number: int, start: int) -> dict[str, list[dict]]:
    """A step of 100 µs: a linear layer in a range, its backward, a copy; times in ns."""
    k, us = 20 * number, 1000

    def host(place: int, name: str, begin: int, length: int, **more) -> dict:
        times = {"start_ns": start + begin * us, "dur_ns": length * us, "self_ns": length * us}
        return {"id": k + place, "name": name, "step": number, **times, **more}

    def work(place: int, name: str, begin: int, length: int, launch: int, operator: int, **more) -> dict:
        called = {0: "aten::copy_", 3: "aten::addmm", 6: "MmBackward0"}[operator]
        return {
            "id": k + place, "name": name, "step": number, "start_ns": start + begin * us,
            "dur_ns": length * us, "launch_id": k + launch, "operator_id": k + operator,
            "launch_ns": start + (begin - 5) * us, "operator_name": called, "stream": 7, **more,
        }  # fmt: skip

    launch = {"kind": "runtime", "role": "launch"}
    forward = {"module_id": 1, "direction": "forward"}
    backward = {"module_id": 1, "direction": "backward"}
    return {
        "step": [
            {
                "step": number, "start_ns": start, "end_ns": start + 100 * us,
                "host_start_ns": start, "host_end_ns": start + 90 * us,
            }
        ],
        "host_event": [
            host(0, "aten::copy_", 2, 6, self_ns=4 * us),
            host(1, "cudaMemcpyAsync", 3, 2, parent_id=k, depth=1, kind="runtime", role="copy"),
            host(2, "forward", 9, 30, kind="annotation", self_ns=5 * us, device_ns=20 * us),
            host(3, "aten::addmm", 10, 25, parent_id=k + 2, depth=1, self_ns=21 * us, input_id=0,
                 device_ns=20 * us, device_self_ns=20 * us, **forward),
            host(4, "cudaLaunchKernel", 15, 2, parent_id=k + 3, depth=2, **launch, **forward),
            host(5, "cudaLaunchKernel", 25, 2, parent_id=k + 3, depth=2, **launch, **forward),
            host(6, "MmBackward0", 45, 20, thread=1, self_ns=18 * us, device_ns=30 * us, **backward),
            host(7, "cudaLaunchKernel", 50, 2, thread=1, parent_id=k + 6, depth=1, **launch, **backward),
        ],
        "device_event": [
            work(10, "Memcpy HtoD", 8, 4, 1, 0, kind="copy", bytes=4000, copy_kind="HtoD",
                 memory_kind="pageable"),
            work(11, GEMM, 20, 15, 4, 3, **forward),
            work(12, ADD, 35, 5, 5, 3, **forward),
            work(13, GEMM, 55, 30, 7, 6, **backward),
        ],
    }  # fmt: skip


STEPS = [step(number, start) for number, start in ((3, 0), (4, 100_000))]
ROWS = {
    **{table: [row for one in STEPS for row in one[table]] for table in STEPS[0]},
    "device": [{"device": 0, "name": "NVIDIA H100 80GB HBM3", "sm_count": 132}],
    "module": [
        {"module_id": 0, "path": "net", "name": "net", "class": "Net"},
        {"module_id": 1, "path": "net.fc", "name": "fc", "parent_id": 0, "depth": 1},
    ],
    "operator_input": [
        {
            "input_id": 0,
            "dims": "[[64], [64, 64], [64, 64]]",
            "types": '["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"]',
        }
    ],
}
FILTERS = {
    "name": EventFilter(name="aten::addmm"),
    "under": EventFilter(under="net.fc"),
    "window": EventFilter(window=(22_000, 160_000)),
}
TAKES = {"events": {"name", "under", "window"}, "time": {"window"}, "recording": set()}
ASKED = [
    (question, choice)
    for question in all_questions()
    if question.recordings == "one"
    for choice in next((p.choices for p in question.parameters if p.name == "by"), (None,))
]


@pytest.fixture(scope="module")
def store():
    with literal_store(ROWS) as opened:
        yield opened


@pytest.fixture(scope="module")
def narrowed(store):
    """The recording with each filter: all questions are asked of the same three scopes."""
    with ExitStack() as open_scopes:
        yield {name: open_scopes.enter_context(Scope(store, part=part)) for name, part in FILTERS.items()}


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("question", "by"), ASKED, ids=[f"{q.name}-{by}" if by else q.name for q, by in ASKED])
def test_every_question_takes_a_filter_or_refuses_it(narrowed, question, by):
    form = {} if by is None else {"by": by}
    about = question.about if isinstance(question.about, str) else question.about[by]
    for name, scope in narrowed.items():
        if name in TAKES[about]:
            answer = ask_within(question, scope, **form)
            assert answer.note.startswith(FILTERS[name].words())
            assert len(answer) or "No matching rows" in answer.note
        else:
            with pytest.raises(UsageError) as caught:
                ask_within(question, scope, **form)
            assert caught.value.slug == "cannot-narrow"
            assert f"--{name}" in caught.value.message


def rows_of(store, question: str, key: str, name: str, part: EventFilter | None = None, **asked):
    """The rows of an answer with one name, without what is a share of all rows."""
    answer = ask(find(question), store, **asked, **({} if part is None else {"part": part}))
    kept = [c.name for c in answer.columns if c.unit != "ratio" and c.name != "priority"]
    return [
        {column: row[column] for column in kept} for row in answer.rows() if row[key] == name
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "key", "name", "asked"),
    [
        ("operators", "name", "aten::addmm", {}),
        ("operators", "name", "aten::addmm", {"by": "shape"}),
        ("operators", "name", "aten::addmm", {"by": "stack"}),
        ("kernels", "name", GEMM, {}),
        ("kernels", "name", GEMM, {"by": "properties"}),
        ("launches", "name", GEMM, {}),
        ("annotations", "name", "forward", {}),
        ("roofline", "name", GEMM, {"by": "kernel"}),
        ("roofline", "name", "aten::addmm", {}),
        ("tensor-cores", "kernel", GEMM, {"by": "kernel"}),
        ("roofline", "name", GEMM, {"by": "priority"}),
        ("copies", "direction", "HtoD", {}),
    ],
)
def test_a_row_of_its_own_name_is_as_it_is_without_the_filter(store, question, key, name, asked):
    part = EventFilter(name="Memcpy*" if question == "copies" else name)
    plain = rows_of(store, question, key, name, **asked)
    assert plain
    assert rows_of(store, question, key, name, part, **asked) == plain
    assert not [
        row[key]
        for row in ask(find(question), store, part=part, **asked).rows()
        if row[key] not in (name, "aten::addmm", "MmBackward0", ADD)
    ]


def test_kernels_by_the_operator_that_launched_them(diff):
    diff(
        "kernels",
        ROWS,
        f"""
        name,count,total_ns,share_ratio
        {GEMM},2,30000,0.75
        {ADD},2,10000,0.25
        """,
        part=EventFilter(name="aten::addmm"),
    )


def test_operators_by_the_kernels_that_they_launched(diff):
    """What does not match itself has no calls here, and no totals."""
    diff(
        "operators",
        ROWS,
        """
        name,calls,device_self_ns,device_total_ns,host_self_ns
        MmBackward0,,60000,,
        aten::addmm,,30000,,
        """,
        part=EventFilter(name="*gemm*"),
    )


def test_a_module_has_what_modules_says_it_has(store):
    by_path = {row["path"]: row for row in ask(find("modules"), store).rows()}
    for path in ("net", "net.fc"):
        kernels = ask(find("kernels"), store, part=EventFilter(under=path)).rows()
        assert sum(row["total_ns"] for row in kernels) == by_path[path]["device_total_ns"]
        assert sum(row["count"] for row in kernels) == 6
    (_, part) = ask(find("modules"), store, part=EventFilter(under="net.fc")).rows()
    assert part["backward_device_ns"] == by_path["net.fc"]["backward_device_ns"] == 60_000


def test_what_runs_inside_a_range_or_an_operator(diff):
    diff(
        "kernels", ROWS, f"name,count\n{GEMM},2\n{ADD},2\n", part=EventFilter(under="forward")
    )  # fmt: skip
    diff("kernels", ROWS, f"name,count\n{GEMM},2\n", part=EventFilter(under="MmBackward0"))


def test_a_window_cuts_what_reaches_out_of_it(diff):
    window = EventFilter(window=(22_000, 60_000))
    diff(
        "kernels",
        ROWS,
        f"""
        name,count,total_ns,max_ns
        {GEMM},2,18000,13000
        {ADD},1,5000,5000
        """,
        part=window,
    )
    diff(
        "operators",
        ROWS,
        """
        name,calls,device_self_ns,device_total_ns,host_self_ns,host_total_ns
        aten::addmm,1,18000,,11000,13000
        MmBackward0,1,5000,,13000,15000
        """,
        part=window,
    )
    diff("copies", ROWS, "direction,bytes,total_ns\nHtoD,1000,1000\n", part=EventFilter(window=(11_000, 20_000)))
    diff("device-time", ROWS, "span_ns,busy_ns,idle_ns\n38000,23000,15000\n", part=window)
    diff("idle", ROWS, "stream,idle_ns\n,15000\n7,15000\n", part=window)
    diff("steps", ROWS, "step,start_ns,total_ns\n3,22000,38000\n", part=window)


def test_work_counts_when_it_runs_whenever_it_was_launched(diff):
    """Its operator's call is over, and its host time is none of the window's."""
    diff(
        "operators",
        ROWS,
        "name,calls,device_self_ns,device_total_ns,host_self_ns\nMmBackward0,,15000,,",
        part=EventFilter(window=(70_000, 90_000)),
    )


def test_a_window_takes_the_work_done_in_proportion(store):
    """What a cut kernel did of its call is less, and its rate is the same."""
    part = EventFilter(window=(0, 27_500))
    (cut,) = rows_of(store, "roofline", "name", GEMM, part, by="kernel")
    (forward,) = rows_of(store, "roofline", "name", GEMM, EventFilter(name="aten::addmm"), by="kernel")
    assert cut["device_ns"] == 7_500
    assert cut["flops"] == forward["flops"] / 4  # half of one of two calls
    assert cut["flop_per_s"] == pytest.approx(forward["flop_per_s"])
    (first,) = ask(find("prof"), store, part=part).rows()
    (whole, *_) = ask(find("prof"), store).rows()
    assert first["sil"] == 7_500
    assert first["flops"] == whole["flops"] // 2


def test_comparing_takes_the_filters_of_what_is_compared():
    fewer = {**ROWS, "device_event": [row for row in ROWS["device_event"] if row["name"] != ADD]}
    with Trace(literal_store(ROWS)) as before, Trace(literal_store(fewer)) as after:
        rows = stepscope.diff(before, after, by="kernel", name="add*").rows()
        assert [(row["name"], row["before_ns"], row["after_ns"]) for row in rows[1:]] == [(ADD, 5000, 0)]
        rows = stepscope.diff(before, after, by="operator", under="net.fc").rows()
        assert {row["name"] for row in rows[1:]} == {"aten::addmm", "MmBackward0"}
        rows = stepscope.diff(before, after, window="0:0.00012", columns=["before_ns"], top=1).rows()
        assert rows == [{"before_ns": 100_000}]  # of the one complete step
        with pytest.raises(UsageError, match="diff is about all that went on"):
            stepscope.diff(before, after, name="add*")


def test_answers_in_sql_take_them_too():
    with Trace(literal_store(ROWS)) as trace:
        rows = trace.sql("SELECT name, count FROM answer.kernels", name="aten::addmm").rows()
        assert rows == [{"name": GEMM, "count": 2}, {"name": ADD, "count": 2}]
        count = "SELECT count(*) AS n FROM device_event"
        assert trace.sql(count, under="net.fc", window=(0, 30_000)).rows() == [{"n": 1}]
        with pytest.raises(UsageError, match="steps is about all that went on"):
            trace.sql("FROM answer.steps", name="aten::addmm")


def test_an_empty_answer_says_what_there_is(store):
    empty = ask(find("copies"), store, part=EventFilter(name="forward"))
    assert "--under asks for what ran inside" in empty.note
    assert "Record with" not in empty.note


@pytest.mark.parametrize("filter_name", ["name", "under"])
def test_what_the_recording_never_had_is_an_error_and_what_only_the_step_lacks_is_none(filter_name):
    rows = {**ROWS, "host_event": [*ROWS["host_event"]]}
    rows["host_event"].append(
        {"id": 5000, "step": 4, "name": "rare", "kind": "operator", "start_ns": 199_000, "dur_ns": 1}
    )
    with Trace(literal_store(rows)) as trace:
        with pytest.raises(UsageError, match="'aten::add' in this recording") as caught:
            trace.operators(**{filter_name: "aten::add"})
        assert caught.value.slug == "named-nothing"
        assert caught.value.hint.startswith("did you mean aten::addmm")
        with pytest.raises(UsageError, match="'nosuch' in this recording"):
            trace.operators(**{filter_name: "nosuch"}, step=3, window="0:1")
        assert len(trace.operators(**{filter_name: "rare"}, step=4))
        for narrowed in ({"step": 3}, {"window": (0, 50_000)}):
            empty = trace.operators(**{filter_name: "rare"}, **narrowed)
            assert not len(empty)
            assert "not in the ranks, steps or part that were asked for" in empty.note


def test_a_comparison_shows_what_one_side_alone_has():
    rows = {**ROWS, "device_event": [{**one, "name": "new"} for one in ROWS["device_event"]]}
    with Trace(literal_store(ROWS)) as before, Trace(literal_store(rows)) as after:
        diff = stepscope.diff(before, after, by="kernel", name="new").rows()
        assert [(row["name"], row["calls_before"]) for row in diff][1:] == [("new", 0.0)]
        with pytest.raises(UsageError, match="no event is named 'newer'"):
            stepscope.diff(before, after, by="kernel", name="newer")


@pytest.mark.traces
def test_a_recorded_trace_filtered_by_hand(shared_traces):
    with stepscope.open(shared_traces / "kineto" / "bert_small_h100" / "trace.json.gz") as trace:
        work = trace.sql(
            "SELECT name, operator_name, start_ns, dur_ns FROM device_event WHERE kind IN ('computation', 'copy', 'fill')"
        ).arrow
        start, ns = (work.column(name).to_numpy() for name in ("start_ns", "dur_ns"))
        names = np.array(work.column("name").to_pylist())
        operators = np.array([name or "" for name in work.column("operator_name").to_pylist()])
        chosen = np.char.find(names, "gemm") >= 0
        answer = trace.kernels(name="*gemm*").arrow
        assert sum(answer["total_ns"].to_pylist()) == ns[chosen].sum()
        answer = trace.kernels(name="aten::addmm").arrow
        assert sum(answer["count"].to_pylist()) == (operators == "aten::addmm").sum()
        edges = [0, 1_234_567, 2_000_000, 3_777_777, 10_000_000]
        sums = {"kernels": 0, "operators": 0, "device": 0}
        for window in pairwise(edges):
            inside = np.clip(start + ns, *window) - np.clip(start, *window)
            answer = trace.operators(window=window).arrow
            device = sum(answer["device_self_ns"].to_pylist())
            assert device == inside.sum()
            sums["device"] += device
            sums["operators"] += sum(answer["host_self_ns"].to_pylist())
            sums["kernels"] += sum(trace.kernels(window=window).arrow["total_ns"].to_pylist())
        everything = trace.operators().arrow
        assert sums["device"] == sum(everything["device_self_ns"].to_pylist())
        assert sums["operators"] == sum(everything["host_self_ns"].to_pylist())
        assert sums["kernels"] == sum(trace.kernels().arrow["total_ns"].to_pylist())
        for row in trace.modules(sort="device_total_ns", top=9).rows():
            if row["depth"] is not None:
                answer = trace.operators(under=f"module:{row['path']}").arrow
                assert sum(answer["device_self_ns"].to_pylist()) == row["device_total_ns"]
