from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.analysis.operators.recursion import inner_calls

# aten::linear calls aten::addmm, which launches a kernel of 40 ns; aten::relu launches one of 25 ns.
LINEAR = [
    {"id": 0, "name": "aten::linear", "start_ns": 0, "dur_ns": 100, "device_ns": 40},
    {
        "id": 1,
        "name": "aten::addmm",
        "start_ns": 10,
        "dur_ns": 60,
        "parent_id": 0,
        "device_ns": 40,
        "device_self_ns": 40,
    },
    {
        "id": 2,
        "kind": "runtime",
        "role": "launch",
        "name": "cudaLaunchKernel",
        "start_ns": 20,
        "dur_ns": 15,
        "parent_id": 1,
        "device_ns": 40,
    },
    {"id": 3, "name": "aten::relu", "start_ns": 200, "dur_ns": 30, "device_ns": 25, "device_self_ns": 25},
]
KERNELS = [
    {"id": 10, "name": "gemm", "start_ns": 50, "dur_ns": 40, "launch_id": 2, "operator_id": 1},
    {"id": 11, "name": "relu", "start_ns": 240, "dur_ns": 25, "operator_id": 3},
]


def test_a_kernel_is_of_its_innermost_operator_and_in_the_total_of_all_above(diff):
    diff(
        "operators",
        {"host_event": LINEAR, "device_event": KERNELS},
        """
        name,calls,device_self_ns,device_total_ns,device_events,host_self_ns,host_total_ns,host_mean_ns
        aten::addmm,1,40,40,1,45,60,60.0
        aten::relu,1,25,25,1,30,30,30.0
        aten::linear,1,0,40,0,40,100,100.0
        """,
    )


def test_without_device_events_device_times_are_not_measured_and_host_time_ranks(diff):
    host = [{k: v for k, v in row.items() if "device" not in k} for row in LINEAR]
    diff(
        "operators",
        {"host_event": host},
        """
        name,device_self_ns,device_share_ratio,device_total_ns,device_events,host_self_ns
        aten::addmm,,,,,45
        aten::linear,,,,,40
        aten::relu,,,,,30
        """,
    )


def test_work_without_operator_has_a_row_so_that_self_times_add_up(diff):
    diff(
        "operators",
        {
            "host_event": LINEAR,
            "device_event": [
                *KERNELS,
                {"id": 12, "name": "lost kernel", "start_ns": 300, "dur_ns": 7},
                {"id": 13, "kind": "copy", "name": "lost copy", "start_ns": 310, "dur_ns": 1},
                {"id": 14, "kind": "annotation", "name": "range", "start_ns": 0, "dur_ns": 999},
            ],
        },
        """
        name,calls,device_self_ns,device_total_ns,device_events,host_self_ns,host_total_ns
        aten::addmm,1,40,40,1,45,60
        aten::relu,1,25,25,1,30,30
        (no operator),,8,8,2,,
        aten::linear,1,0,40,0,40,100
        """,
    )


def test_device_work_that_no_operator_is_known_of_leaves_operators_unmeasured(diff):
    diff(
        "operators",
        {"host_event": [{"name": "aten::mm", "dur_ns": 10}], "device_event": [{"name": "gemm", "dur_ns": 5}]},
        "name,device_self_ns,device_total_ns,host_total_ns\n(no operator),5,5,\naten::mm,,,10",
    )


def test_replays_of_a_graph_are_told_apart_from_other_work_without_operator(diff):
    diff(
        "operators",
        {
            "host_event": [{"id": 0, "kind": "runtime", "role": "graph_launch", "name": "cudaGraphLaunch"}],
            "device_event": [
                {"id": 1, "dur_ns": 9, "graph_id": 3, "launch_id": 0},
                {"id": 2, "dur_ns": 8, "launch_id": 0},
                {"id": 3, "dur_ns": 7},
            ],
        },
        """
        name,device_self_ns
        CUDA graph 3 (unattributed),9
        CUDA graph (unattributed),8
        (no operator),7
        """,
    )


RECURSIVE = [
    # to(100) > _to_copy(80) > to(50): the inner call of aten::to must not be counted again
    {"id": 0, "name": "aten::to", "dur_ns": 100, "device_ns": 30, "input_id": 0},
    {"id": 1, "name": "aten::_to_copy", "dur_ns": 80, "parent_id": 0, "device_ns": 30},
    {"id": 2, "name": "aten::to", "dur_ns": 50, "parent_id": 1, "device_ns": 30, "device_self_ns": 30, "input_id": 1},
    {"id": 3, "name": "aten::to", "start_ns": 200, "dur_ns": 7, "input_id": 0},
]
RECURSIVE_KERNEL = [{"id": 9, "dur_ns": 30, "operator_id": 2}]


def test_recursion_counts_once_in_totals(diff):
    diff(
        "operators",
        {"host_event": RECURSIVE, "device_event": RECURSIVE_KERNEL},
        """
        name,calls,device_self_ns,device_total_ns,host_self_ns,host_total_ns
        aten::to,3,30,30,77,107
        aten::_to_copy,1,0,30,30,80
        """,
    )


def test_recursion_into_another_shape_is_a_total_of_its_own(diff):
    diff(
        "operators",
        {
            "host_event": RECURSIVE,
            "device_event": RECURSIVE_KERNEL,
            "operator_input": [
                {"input_id": 0, "dims": "[[2,3]]", "types": '["float"]'},
                {"input_id": 1, "dims": "[[4,5]]", "types": '["float"]'},
            ],
        },
        """
        name,input_dims,calls,device_self_ns,device_total_ns,host_self_ns,host_total_ns
        aten::to,"[[4,5]]",1,30,30,50,50
        aten::_to_copy,,1,0,30,30,80
        aten::to,"[[2,3]]",2,0,30,27,107
        """,
        by="shape",
    )


def test_equal_shapes_are_one_row_over_ranks_and_spans(diff):
    diff(
        "operators",
        {
            "host_event": [
                {"rank": 0, "span": 0, "name": "aten::mm", "dur_ns": 1, "input_id": 5},
                {"rank": 0, "span": 1, "name": "aten::mm", "dur_ns": 2, "input_id": 6},
                {"rank": 1, "span": 0, "name": "aten::mm", "dur_ns": 4, "input_id": 5},
                {"rank": 1, "span": 0, "name": "aten::mm", "dur_ns": 8, "input_id": 6},
            ],
            "operator_input": [
                {"rank": 0, "span": 0, "input_id": 5, "dims": "[[2]]", "values": "[1]"},
                {"rank": 0, "span": 1, "input_id": 6, "dims": "[[2]]", "values": "[2]"},
                {"rank": 1, "span": 0, "input_id": 5, "dims": "[[3]]"},
                {"rank": 1, "span": 0, "input_id": 6, "dims": "[[2]]"},
            ],
        },
        "name,input_dims,calls,host_total_ns\naten::mm,[[2]],3,11\naten::mm,[[3]],1,4",
        by="shape",
    )


def test_by_stack_tells_call_sites_apart(diff):
    diff(
        "operators",
        {
            "host_event": [
                {"id": 0, "name": "aten::mm", "dur_ns": 5, "stack_id": 0, "device_ns": 3},
                {"id": 1, "name": "aten::mm", "dur_ns": 6, "stack_id": 1},
                {"id": 2, "name": "aten::mm", "dur_ns": 4},
                {"id": 3, "name": "aten::mm", "dur_ns": 3, "stack_id": 2},
            ],
            "call_stack": [
                {"stack_id": 2, "frames": ""},
                {"stack_id": 0, "frames": "model.py(3): forward;train.py(9): main"},
                {"stack_id": 1, "frames": "loss.py(1): <lambda>"},
            ],
            "device_event": [{"id": 9, "dur_ns": 3, "operator_id": 0}],
        },
        """
        name,frame,call_stack,calls,device_self_ns,host_total_ns
        aten::mm,model.py(3): forward,model.py(3): forward;train.py(9): main,1,3,5
        aten::mm,,,2,0,7
        aten::mm,loss.py(1): <lambda>,loss.py(1): <lambda>,1,0,6
        """,
        by="stack",
    )


def test_an_operator_called_like_the_rest_stays_apart(diff):
    diff(
        "operators",
        {
            "host_event": [{"id": 0, "name": "(no operator)", "dur_ns": 9, "device_ns": 1}],
            "device_event": [{"id": 1, "dur_ns": 1, "operator_id": 0}, {"id": 2, "dur_ns": 2}],
        },
        "name,calls,device_self_ns\n(no operator),,2\n(no operator),1,1",
    )


@st.composite
def call_trees(draw) -> list[dict[str, object]]:
    """Calls nested in earlier ones, with few names, so that names meet themselves."""
    count = draw(st.integers(1, 12))
    rows: list[dict[str, object]] = []
    for number in range(count):
        row: dict[str, object] = {
            "id": 100 + number,
            "kind": draw(st.sampled_from(["operator", "operator", "python"])),
            "name": draw(st.sampled_from("ab")),
            "dur_ns": 2 ** (count - number),  # longer than all below together
        }
        if number and draw(st.booleans()):
            row["parent_id"] = 100 + draw(st.integers(0, number - 1))
        rows.append(row)
    return rows


@given(call_trees(), st.randoms())
@examples(25)
def test_inner_calls_are_those_with_an_alike_ancestor(make_scope, rows, random):
    by_id = {row["id"]: row for row in rows}

    def ancestors(row):
        while (row := by_id.get(row.get("parent_id"))) is not None:
            yield row

    expected = {
        row["id"]
        for row in rows
        if row["kind"] == "operator"
        and any((a["kind"], a["name"]) == ("operator", row["name"]) for a in ancestors(row))
    }
    shuffled = random.sample(rows, len(rows))
    found = inner_calls(make_scope({"host_event": shuffled}), "kind = 'operator'")
    assert set(found["id"]) == expected


def test_by_arguments_calls_are_alike_in_strides_and_values_too(diff):
    inputs = {"dims": "[[2,3]]", "types": '["float"]'}
    diff(
        "operators",
        {
            "host_event": [
                {"id": number, "name": "aten::mul", "start_ns": 10 * number, "dur_ns": 5 + number,
                 "input_id": given}
                for number, given in enumerate((0, 1, 2, 0))
            ],
            "operator_input": [
                {"input_id": 0, **inputs, "strides": "[[3,1]]", "values": "[2]"},
                {"input_id": 1, **inputs, "strides": "[[1,2]]", "values": "[2]"},
                {"input_id": 2, **inputs, "strides": "[[3,1]]", "values": "[4]"},
            ],
        },
        """
        name,input_dims,input_types,input_strides,input_values,calls,host_total_ns
        aten::mul,"[[2,3]]","[""float""]","[[3,1]]",[2],2,13
        aten::mul,"[[2,3]]","[""float""]","[[3,1]]",[4],1,7
        aten::mul,"[[2,3]]","[""float""]","[[1,2]]",[2],1,6
        """,
        by="arguments",
    )  # fmt: skip


def test_delays_reach_to_the_first_and_the_last_work_launched_anywhere_in_a_call(diff):
    # linear calls addmm, which launches kernels that run from 50 to 90 and from 95 to 130; a second
    # linear launches one itself; relu launches nothing, and is in no mean.
    diff(
        "operators",
        {
            "host_event": [
                {"id": 0, "name": "aten::linear", "dur_ns": 40, "device_ns": 75},
                {"id": 1, "name": "aten::addmm", "start_ns": 10, "dur_ns": 20, "parent_id": 0,
                 "depth": 1, "device_ns": 75},
                {"id": 2, "name": "aten::linear", "start_ns": 200, "dur_ns": 10, "device_ns": 5},
                {"id": 3, "name": "aten::relu", "start_ns": 300, "dur_ns": 10},
            ],
            "device_event": [
                {"name": "gemm", "start_ns": 50, "dur_ns": 40, "operator_id": 1},
                {"name": "epilogue", "start_ns": 95, "dur_ns": 35, "operator_id": 1},
                {"name": "gemv", "start_ns": 210, "dur_ns": 5, "operator_id": 2},
            ],
        },
        """
        name,device_self_ns,first_delay_ns,last_delay_ns
        aten::addmm,75,40.0,120.0
        aten::linear,5,30.0,72.5
        aten::relu,0,,
        """,
    )  # fmt: skip


def test_tensor_cores_and_libraries_of_what_an_operator_launched_itself(diff):
    kernels = [
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_tn", 60, 0),
        ("void splitKreduce_kernel<32, 16, int>(int)", 20, 0),
        ("my_own_kernel", 20, 0),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::relu>(int)", 30, 1),
        ("mystery", 10, 2),
    ]
    names = ["aten::addmm", "aten::relu", "mine::op"]
    diff(
        "operators",
        {
            "host_event": [
                {"id": number, "name": name, "start_ns": 10 * number, "dur_ns": 9 - number}
                for number, name in enumerate(names)
            ],
            "device_event": [
                {"name": name, "dur_ns": dur, "operator_id": operator,
                 "operator_name": names[operator]}
                for name, dur, operator in kernels
            ] + [{"name": "Memset", "kind": "fill", "dur_ns": 1}],
        },
        """
        name,device_self_ns,tensor_core_eligible,tensor_core_ratio,library
        aten::addmm,100,True,0.6,cuBLAS
        aten::relu,30,False,,PyTorch
        mine::op,10,False,,
        (no operator),1,,,
        """,
    )  # fmt: skip
