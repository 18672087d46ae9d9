# main calls mm twice and add once; each mm launches 30 ns of work through a runtime call.
HOST = [
    {"id": 1, "kind": "annotation", "role": "step", "name": "ProfilerStep#3", "dur_ns": 90, "self_ns": 10},
    {"id": 2, "kind": "python", "name": "main", "dur_ns": 80, "self_ns": 20, "parent_id": 1},
    {"id": 3, "name": "mm", "dur_ns": 25, "self_ns": 20, "parent_id": 2},
    {"id": 4, "kind": "runtime", "name": "launch", "dur_ns": 5, "self_ns": 5, "parent_id": 3},
    {"id": 5, "name": "mm", "dur_ns": 25, "self_ns": 20, "parent_id": 2},
    {"id": 6, "kind": "runtime", "name": "launch", "dur_ns": 5, "self_ns": 5, "parent_id": 5},
    {"id": 7, "name": "add", "dur_ns": 10, "self_ns": 10, "parent_id": 2},
    {"id": 8, "kind": "annotation", "role": "step", "name": "ProfilerStep#4", "dur_ns": 10, "self_ns": 5},
    {"id": 9, "name": "mm", "dur_ns": 5, "self_ns": 5, "parent_id": 8, "thread": 0},
]  # fmt: skip
DEVICE = [
    {"dur_ns": 30, "launch_id": 4, "operator_id": 3},
    {"dur_ns": 30, "launch_id": 6, "operator_id": 5},
    {"dur_ns": 500},
]
RECORDED = {"host_event": HOST, "device_event": DEVICE}


def test_calls_of_one_path_are_one_row_and_steps_are_one_place(diff):
    diff(
        "call-tree",
        RECORDED,
        """
        name,kind,depth,id,parent,calls,host_total_ns,host_share_ratio,host_self_ns,device_total_ns,device_share_ratio,device_self_ns
        (step),annotation,0,0,,2,100,1.0,15,60,1.0,0
        main,python,1,1,0,1,80,0.8,20,60,1.0,0
        mm,operator,2,2,1,2,50,0.5,40,60,1.0,60
        launch,runtime,3,3,2,2,10,0.1,10,0,0.0,0
        add,operator,2,4,1,1,10,0.1,10,0,0.0,0
        mm,operator,1,5,0,1,5,0.05,5,0,0.0,0
        """,
    )


def test_from_the_bottom_a_function_stands_above_its_callers(diff):
    diff(
        "call-tree",
        RECORDED,
        """
        name,depth,parent,calls,host_total_ns,host_self_ns,device_total_ns
        mm,0,,3,45,0,60
        main,1,0,2,40,0,60
        (step),2,1,2,40,40,60
        (step),1,0,1,5,5,0
        main,0,,1,20,0,0
        (step),1,4,1,20,20,0
        """,
        by="bottom-up",
        top=6,
    )


def test_threads_and_ranks_stand_apart_where_asked(diff):
    rows = [{"rank": rank, "name": "mm", "dur_ns": 5 + rank, "self_ns": 5 + rank} for rank in (0, 1)]
    threads = [{"rank": rank, "thread": 0, "tid": "7", "kind": "thread"} for rank in (0, 1)]
    recorded = {"host_event": rows, "thread": threads}
    diff(
        "call-tree",
        recorded,
        """
        name,kind,calls,host_total_ns,device_total_ns
        "rank 1, thread 7",thread,,6,
        mm,operator,1,6,
        "rank 0, thread 7",thread,,5,
        mm,operator,1,5,
        """,
        by="thread",
    )
    diff("call-tree", recorded, "name,calls,host_total_ns\nmm,2,11")


def test_threads_that_only_wait_lead_nothing(diff, answer):
    """tqdm's monitor waits for as long as is recorded; one that also launches is more than a wait."""
    wait = {"kind": "python", "name": "threading.py(655): wait", "dur_ns": 1000, "thread": 1}
    host = [
        *(one | {"thread": 0} for one in HOST),
        {"id": 20, "kind": "python", "name": "tqdm/_monitor.py(60): run", "dur_ns": 1000, "thread": 1},
        wait | {"id": 21, "parent_id": 20, "self_ns": 1000},
    ]
    threads = [{"thread": thread, "tid": str(7 + thread), "kind": "thread"} for thread in (0, 1)]
    recorded = {"host_event": host, "device_event": DEVICE, "thread": threads}
    expected = """
        name,host_total_ns,host_share_ratio
        (step),100,1.0
        """
    diff("call-tree", recorded, expected, top=1)
    assert answer("call-tree", recorded).note == "Left out: 1 thread that only waited (--by thread has them)."
    by_thread = answer("call-tree", recorded, by="thread")
    assert [row["name"] for row in by_thread.rows() if row["depth"] == 0] == ["rank 0, thread 8", "rank 0, thread 7"]
    launched = recorded | {"device_event": [*DEVICE, {"dur_ns": 7, "launch_id": 21}]}
    assert answer("call-tree", launched).note == ""


def test_rows_that_are_no_thread_are_no_calls(diff):
    rows = [{"name": "mm", "dur_ns": 5, "self_ns": 5}, {"name": "span", "dur_ns": 9, "thread": 1}]
    track = {"thread": 1, "kind": "track"}
    diff("call-tree", {"host_event": rows, "thread": [track]}, "name\nmm")


def test_of_many_rows_those_with_most_time_are_listed_and_a_note_says_so(answer):
    table = answer("call-tree", RECORDED, max_nodes=3)
    assert table["name"] == ["(step)", "main", "mm"]
    assert table.note == "The 3 of 6 rows with most time; --max-nodes lists more."
    assert answer("call-tree", RECORDED).note == ""


def test_damaged_launches_mark_it(answer):
    damage = {"check": "x", "severity": "warning", "count": 1, "affects": "launches"}
    recorded = RECORDED | {"data_check": [damage]}
    assert [one["check"] for one in answer("call-tree", recorded).checks] == ["x"]
    clocks = RECORDED | {"data_check": [damage | {"affects": "clocks"}]}
    assert not answer("call-tree", clocks).checks
