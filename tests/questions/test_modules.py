# net has fc1 and fc2; fc2 has act. Direct work: net 1, fc1 forward 10 and backward 20, act 5.
MODULES = [
    {"module_id": 0, "path": "net", "class": "Net", "calls": 2},
    {"module_id": 1, "path": "net.fc2", "class": "Linear", "depth": 1, "parent_id": 0, "calls": 4},
    {"module_id": 2, "path": "net.fc2.act", "class": "ReLU", "depth": 2, "parent_id": 1},
    {"module_id": 3, "path": "net.fc1", "class": "Linear", "depth": 1, "parent_id": 0},
]
KERNELS = [
    {"module_id": 0, "dur_ns": 1, "direction": "forward"},
    {"module_id": 3, "dur_ns": 10, "direction": "forward"},
    {"module_id": 3, "dur_ns": 20, "direction": "backward"},
    {"module_id": 2, "dur_ns": 5, "kind": "copy"},
]
OPTIMIZER = {"dur_ns": 14, "direction": "optimizer"}


def test_a_module_holds_its_own_work_and_that_of_its_parts_and_the_rest_is_the_last_row(diff):
    diff(
        "modules",
        {"module": MODULES, "device_event": [*KERNELS, OPTIMIZER]},
        """
        name,path,class,depth,parent_path,calls,device_total_ns,share_ratio,device_self_ns,forward_device_ns,backward_device_ns
        net,net,Net,0,,2,36,0.72,1,16,20
        fc2,net.fc2,Linear,1,net,4,5,0.1,0,5,0
        act,net.fc2.act,ReLU,2,net.fc2,1,5,0.1,5,5,0
        fc1,net.fc1,Linear,1,net,1,30,0.6,30,10,20
        (no module),(no module),,,,,14,0.28,14,0,0
        """,
    )


def test_depth_hides_parts_and_keeps_their_time_above(diff):
    diff(
        "modules",
        {"module": MODULES, "device_event": KERNELS},
        """
        path,device_total_ns
        net,36
        net.fc2,5
        net.fc1,30
        """,
        depth=1,
    )


def test_host_time_is_that_of_the_innermost_module_summed_up_the_tree(diff):
    diff(
        "modules",
        {
            "module": MODULES,
            "host_event": [
                {"id": 0, "kind": "python", "module_id": 0, "dur_ns": 100},
                {"id": 1, "kind": "python", "module_id": 3, "dur_ns": 60, "parent_id": 0},
                {"id": 2, "name": "aten::mm", "module_id": 3, "dur_ns": 40, "parent_id": 1},
                {"name": "MmBackward", "module_id": 3, "dur_ns": 7, "direction": "backward", "thread": 1},
                {"name": "aten::nothing", "dur_ns": 500},
            ],
        },
        """
        path,host_total_ns,host_self_ns,forward_host_ns,backward_host_ns
        net,107,40,100,7
        net.fc2,0,0,0,0
        net.fc2.act,0,0,0,0
        net.fc1,67,67,60,7
        """,
    )


def test_without_device_events_device_times_are_not_measured(diff):
    diff(
        "modules",
        {"module": MODULES[:1], "host_event": [{"module_id": 0, "dur_ns": 3}]},
        """
        path,device_total_ns,share_ratio,device_self_ns,forward_device_ns,backward_device_ns,host_total_ns
        net,,,,,,3
        """,
    )


def test_work_that_no_module_is_known_of_leaves_modules_unmeasured(diff):
    diff(
        "modules",
        {"module": MODULES[:1], "device_event": [{"dur_ns": 3}, {"dur_ns": 4, "module_id": 77}]},
        """
        path,device_total_ns,share_ratio,device_self_ns,host_self_ns
        net,,,,0
        (no module),7,1.0,7,
        """,
    )


def test_modules_of_one_path_are_one_row_over_ranks_and_spans(diff):
    diff(
        "modules",
        {
            "module": [
                {"rank": 0, "module_id": 0, "path": "net"},
                {"rank": 0, "module_id": 1, "path": "net.a", "parent_id": 0, "depth": 1},
                {"rank": 0, "span": 1, "module_id": 0, "path": "net.a", "depth": 1},
                {"rank": 1, "module_id": 0, "path": "net.b", "parent_id": 4, "depth": 1},
                {"rank": 1, "module_id": 4, "path": "net"},
            ],
            "device_event": [
                {"rank": 0, "module_id": 1, "dur_ns": 1},
                {"rank": 0, "span": 1, "module_id": 0, "dur_ns": 2},
                {"rank": 1, "module_id": 0, "dur_ns": 4},
            ],
        },
        """
        path,parent_path,calls,device_total_ns,device_self_ns
        net,,2,7,0
        net.a,net,2,3,3
        net.b,net,1,4,4
        """,
    )


def test_a_step_shows_its_own_work_and_calls(diff):
    diff(
        "modules",
        {
            "step": [{"step": 1, "end_ns": 9}, {"step": 2, "start_ns": 10, "end_ns": 19}],
            "module": [
                {"module_id": 0, "path": "net", "calls": 3},
                {"module_id": 1, "path": "range", "calls": 3, "rule": "annotation"},
            ],
            "host_event": [
                {"kind": "python", "role": "module", "module_id": 0, "step": 1, "dur_ns": 5},
                {"kind": "python", "role": "module", "module_id": 0, "step": 2, "dur_ns": 6},
                {"kind": "python", "role": "module", "module_id": 0, "step": 2, "dur_ns": 7},
            ],
            "device_event": [{"module_id": 0, "dur_ns": 1, "step": 1}, {"module_id": 0, "dur_ns": 2, "step": 2}],
        },
        "path,calls,device_total_ns,host_total_ns\nnet,2,2,13\nrange,,0,0",
        steps=[2],
    )


def test_a_module_called_like_the_rest_or_oddly_stays_apart(answer):
    paths = ["(no module)", "net['a'].<b>", "100%", "two\nlines"]
    rows = {
        "module": [{"module_id": n, "path": path} for n, path in enumerate(paths)],
        "device_event": [{"module_id": 0, "dur_ns": 1}, {"dur_ns": 2}],
    }
    found = answer("modules", rows).rows()
    assert [row["path"] for row in found] == [*paths, "(no module)"]
    assert [row["device_self_ns"] for row in found] == [1, 0, 0, 0, 2]


def test_parents_that_run_in_a_circle_lose_nothing(answer):
    rows = {
        "module": [
            {"module_id": 0, "path": "a", "parent_id": 1},
            {"module_id": 1, "path": "b", "parent_id": 0, "depth": 1},
            {"module_id": 2, "path": "c", "parent_id": 2, "depth": 2},
        ],
        "device_event": [{"module_id": n, "dur_ns": 1} for n in range(3)],
    }
    found = {row["path"]: row["device_total_ns"] for row in answer("modules", rows).rows()}
    assert found == {"a": 2, "b": 1, "c": 1}
