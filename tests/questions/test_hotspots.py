"""`hotspots`: samples of several clocks and traced Python frames, flat and as trees."""

from typing import Any

SAMPLES = {
    "thread": [{"thread": 0, "tid": "5", "thread_name": "MainThread"}, {"thread": 1, "tid": "7"}],
    "call_stack": [
        {"stack_id": 0, "frames": "libm.so!gemm;a.py(4): step;a.py(9): main"},
        {"stack_id": 1, "frames": "a.py(5): step;a.py(9): main"},
        {"stack_id": 2, "frames": "a.py(4): step;a.py(4): step;a.py(9): main"},
    ],
    "stack_sample": [
        {"stack_id": 0, "thread": 0, "weight": 6, "clock": "running"},
        {"stack_id": 1, "thread": 0, "weight": 3, "clock": "running"},
        {"stack_id": 2, "thread": 1, "weight": 1, "clock": "running"},
    ],
}


def test_functions_by_their_own_samples_and_recursion_once(diff: Any) -> None:
    diff(
        "hotspots",
        SAMPLES,
        """
        function,library,file,self_ns,self_ratio,self_samples,total_samples,total_ratio
        gemm,libm.so,,,0.6,6,6,0.6
        step,,a.py,,0.4,4,10,1.0
        main,,a.py,,0.0,0,10,1.0
        """,
    )


def test_libraries_lines_and_threads(diff: Any) -> None:
    diff("hotspots", SAMPLES, "function,self_samples,total_samples\nlibm.so,6,6\na.py,4,10", by="library")
    diff(
        "hotspots",
        SAMPLES,
        """
        function,line,self_samples,total_samples
        gemm,,6,6
        step,5,3,3
        step,4,1,7
        main,9,0,10
        """,
        by="line",
    )
    diff(
        "hotspots", SAMPLES, "function,rank,tid,self_samples,self_ratio\nMainThread,0,5,9,0.9\n7,0,7,1,0.1", by="thread"
    )


def test_trees_from_both_ends(diff: Any) -> None:
    diff(
        "hotspots",
        SAMPLES,
        """
        function,depth,node,parent,self_samples,total_samples
        main,0,0,,0,10
        step,1,1,0,3,10
        gemm,2,2,1,6,6
        step,2,3,1,1,1
        """,
        by="top-down",
    )
    diff(
        "hotspots",
        SAMPLES,
        """
        function,depth,node,parent,self_samples
        gemm,0,0,,6
        step,1,1,0,6
        main,2,2,1,6
        step,0,3,,4
        main,1,4,3,3
        step,1,5,3,1
        main,2,6,5,1
        """,
        by="bottom-up",
    )


def test_imports_are_one_row_below_what_imports(diff: Any) -> None:
    bootstrap = "<frozen importlib._bootstrap>(1176): _find_and_load"
    rows = {
        "call_stack": [
            {"stack_id": 0, "frames": f"libc.so!read;numpy.py(1): <module>;{bootstrap};a.py(1): main"},
            {"stack_id": 1, "frames": f"{bootstrap};b.py(3): <module>;{bootstrap};a.py(1): main"},
            {"stack_id": 2, "frames": "a.py(5): step;a.py(9): main"},
        ],
        "stack_sample": [
            {"stack_id": stack, "weight": weight, "clock": "cpu"} for stack, weight in ((0, 3), (1, 2), (2, 1))
        ],
    }
    diff(
        "hotspots",
        rows,
        """
        function,file,self_samples,total_samples
        (import of modules),,5,5
        step,a.py,1,1
        main,a.py,0,6
        """,
    )


def test_what_a_sampler_takes_for_running_is_said(answer: Any) -> None:
    assert "sleeps and waits can be among" in answer("hotspots", SAMPLES).note
    cpu = [row | {"clock": "cpu", "weight": 10} for row in SAMPLES["stack_sample"]]
    assert answer("hotspots", SAMPLES | {"stack_sample": cpu}).note == ""


def test_few_samples_are_said_and_traced_calls_are_a_clock_of_their_own(answer: Any) -> None:
    """The recorder's samples by the clock and calls that were traced are never one clock."""
    rows = SAMPLES | {
        "stack_sample": [{"stack_id": 1, "sampled_ns": 50, "weight": 19, "clock": "wall"}],
        "host_event": [{"id": 0, "kind": "python", "name": "a.py(9): main", "dur_ns": 100}],
    }
    table = answer("hotspots", rows)
    assert table.note == "Of 19 samples (wall) no part is sure; record for longer."
    assert [row["clock"] for row in table.rows()] == ["wall", "wall", "traced"]
    rows["stack_sample"][0]["weight"] = 20
    assert answer("hotspots", rows).note == ""


def test_small_parts_are_left_out_of_trees_and_lists(diff: Any) -> None:
    expected = """
        function,self_samples,total_samples
        main,0,10
        step,3,10
        gemm,6,6
        """
    diff("hotspots", SAMPLES, expected, by="top-down", min_ratio=0.2)


def test_clocks_are_never_added_and_time_is_missing_where_one_row_has_none(diff: Any) -> None:
    rows = SAMPLES | {
        "stack_sample": [
            {"stack_id": 1, "sampled_ns": 5, "weight": 1, "clock": "cpu"},
            {"stack_id": 1, "weight": 1, "clock": "running"},
            {"stack_id": 2, "sampled_ns": 5, "weight": 1, "clock": "running"},
        ]
    }
    diff(
        "hotspots",
        rows,
        """
        function,clock,self_ns,self_samples
        step,cpu,5,1
        main,cpu,0,0
        step,running,,2
        main,running,,0
        """,
    )


def test_instructions_and_cycles_without_stacks_have_no_total(diff: Any) -> None:
    rows = {
        "call_stack": [{"stack_id": 0, "frames": "a!f"}],
        "stack_sample": [
            {"stack_id": 0, "weight": None, "clock": "cpu", "sampled_ns": 9, "instructions": 8, "cycles": 6}
        ],
    }  # fmt: skip
    diff("hotspots", rows, "function,self_ns,total_ns,self_samples,instructions,cpi\nf,9,,,8,0.75")


def test_python_frames_hold_the_operators_that_they_call(diff: Any) -> None:
    rows = {
        "host_event": [
            {"id": 0, "kind": "python", "name": "a.py(9): main", "dur_ns": 100},
            {"id": 1, "kind": "operator", "name": "aten::mm", "start_ns": 10, "dur_ns": 40, "parent_id": 0},
            {"id": 2, "kind": "python", "name": "a.py(3): hook", "start_ns": 20, "dur_ns": 10, "parent_id": 1},
        ]
    }  # fmt: skip
    diff("hotspots", rows, "function,file,clock,self_ns,total_ns\nmain,a.py,traced,90,100\nhook,a.py,traced,10,10")


def test_own_threads_beside_the_job_are_left_out_and_counted(diff: Any, answer: Any) -> None:
    """A thread of ours waits; a hook of ours within the job's own thread is the job's time."""
    ours = "stepscope/record/job/at_end.py(180): _notice"
    stacks = (("_bootstrap", "_bootstrap_inner", "run", ours, "recvmsg"), ("_bootstrap", "run", "a.py(3): train", ours))
    events, at = [], 0
    for thread, stack in enumerate(stacks):
        for depth, name in enumerate(stack):
            named = name if "(" in name else f"threading.py(9): {name}"
            events.append({
                "id": at, "kind": "python", "thread": thread, "name": named, "start_ns": depth,
                "dur_ns": 100 - 10 * depth, "parent_id": at - 1 if depth else None,
            })  # fmt: skip
            at += 1
    rows = {"host_event": events}
    diff(
        "hotspots",
        rows,
        """
        function,self_ns,total_ns
        _notice,70,70
        _bootstrap,10,100
        run,10,90
        train,10,80
        """,
    )
    assert "Left out: 100 ns of StepScope's own threads." in answer("hotspots", rows).note


def test_samples_of_own_threads_beside_the_job_are_left_out_and_counted(answer: Any) -> None:
    """One of ours waits; a hook of ours within a thread that the job has started is the job's time."""
    started = "threading.py(9): run;threading.py(8): _bootstrap_inner;threading.py(7): _bootstrap;libc.so!clone"
    ours = "stepscope/record/job/at_end.py(180): _notice"
    stacks = (f"libc.so!recvmsg;{ours};{started}", f"{ours};a.py(3): train;{started}", started)
    rows = {
        "thread": [{"thread": at, "tid": str(at)} for at in range(3)],
        "call_stack": [{"stack_id": at, "frames": one} for at, one in enumerate(stacks)],
        "stack_sample": [
            {"stack_id": at, "thread": at, "weight": 1, "sampled_ns": 100, "clock": "running"} for at in range(3)
        ],
    }
    table = answer("hotspots", rows)
    own = {row["function"]: row["self_ns"] for row in table.rows() if row["self_ns"]}
    assert own == {"_notice": 100, "run": 100}
    assert "Left out: 100 ns of StepScope's own threads." in table.note
    assert len(answer("hotspots", rows, by="thread")) == 2


def test_threads_that_only_wait_are_left_out_while_another_works(diff: Any, answer: Any) -> None:
    """tqdm's monitor waits for as long as is recorded: it would lead every list."""
    stacks = (
        ("train.py(3): main", 80), ("threading.py(655): wait", 15),
    ), (
        ("tqdm/_monitor.py(60): run", 100), ("threading.py(655): wait", 100),
        ("<built-in method acquire of _thread.lock object at 0x7f>", 100),
    )  # fmt: skip
    names = ("main", "monitor")

    def recorded(*which: int) -> dict[str, Any]:
        events: list[dict[str, Any]] = []
        for thread in which:
            first = len(events)
            for depth, (name, ns) in enumerate(stacks[thread]):
                above = None if depth == 0 else first + depth - 1
                events.append({"id": len(events), "kind": "python", "thread": thread, "name": name,
                               "dur_ns": ns, "parent_id": above})  # fmt: skip
        threads = [{"thread": at, "tid": str(at), "thread_name": names[at]} for at in which]
        return {"thread": threads, "host_event": events}

    expected = """
        function,self_ns,self_ratio,total_ns
        main,65,0.8125,80
        wait,15,0.1875,15
        """
    diff("hotspots", recorded(0, 1), expected)
    assert answer("hotspots", recorded(0, 1)).note == ("Left out: 1 thread that only waited (--by thread has them).")
    diff(
        "hotspots",
        recorded(0, 1),
        "function,clock,self_ns,self_ratio\nmain,traced,80,1.0\nmonitor,waiting,100,",
        by="thread",
    )
    alone = answer("hotspots", recorded(1))
    assert [row["self_ns"] for row in alone.rows()] == [100, 0, 0]
    assert alone.note == ""
