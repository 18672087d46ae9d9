import statistics
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

from stepscope.query.ask import ask
from stepscope.questions import find

GEMM = {"name": "gemm", "grid_x": 8, "grid_y": 4, "grid_z": 1, "block_x": 256, "block_y": 1}


def test_kernels_are_summed_by_name_and_copies_are_none(diff):
    diff(
        "kernels",
        {
            "device_event": [
                {"name": "gemm", "start_ns": 0, "dur_ns": 10},
                {"name": "gemm", "start_ns": 20, "dur_ns": 30},
                {"name": "relu", "start_ns": 60, "dur_ns": 40},
                {"name": "ncclKernel", "kind": "communication", "start_ns": 60, "dur_ns": 80},
                {"name": "Memcpy HtoD", "kind": "copy", "dur_ns": 1000},
                {"name": "Memset", "kind": "fill", "dur_ns": 1000},
                {"name": "a range", "kind": "annotation", "dur_ns": 1000},
                {"name": "a wait", "kind": "sync", "dur_ns": 1000},
            ]
        },
        """
        name,kind,count,total_ns,share_ratio,mean_ns,min_ns,median_ns,max_ns
        ncclKernel,communication,1,80,0.5,80.0,80,80.0,80
        gemm,computation,2,40,0.25,20.0,10,20.0,30
        relu,computation,1,40,0.25,40.0,40,40.0,40
        """,
    )


def test_deviation_is_exact_and_so_the_same_in_every_run(answer):
    durations = [2**59, 2**59 + 1, 2**59 + 7]
    events = [{"name": "gemm", "dur_ns": one, "start_ns": 0, "stream": n} for n, one in enumerate(durations)]
    (row,) = answer("kernels", {"device_event": events}).rows()
    assert row["std_ns"] == statistics.stdev([0, 1, 7])
    (once,) = answer("kernels", {"device_event": events[:1]}).rows()
    assert once["std_ns"] is None


def test_blocks_and_occupancy_are_weighted_by_duration_where_they_are_known(diff):
    diff(
        "kernels",
        {
            "device_event": [
                {"name": "k", "dur_ns": 30, "blocks_per_sm": 1.0, "occupancy_ratio": 0.25},
                {"name": "k", "dur_ns": 10, "blocks_per_sm": 5.0, "occupancy_ratio": 0.75},
                {"name": "k", "dur_ns": 900},
                {"name": "instant", "dur_ns": 0, "blocks_per_sm": 3.0},
            ]
        },
        """
        name,total_ns,share_ratio,blocks_per_sm,occupancy_ratio
        k,940,1.0,2.0,0.375
        instant,0,0.0,3.0,
        """,
    )


def test_durations_of_nothing_have_no_share(diff):
    diff("kernels", {"device_event": [{"name": "k", "dur_ns": 0}]}, "name,total_ns,share_ratio,mean_ns\nk,0,,0.0")


def test_of_operators_that_launched_a_kernel_as_often_the_first_by_name_is_named(diff):
    diff(
        "kernels",
        {
            "host_event": [
                {"id": 1, "name": "aten::contiguous", "start_ns": 0, "dur_ns": 10},
                {"id": 2, "name": "aten::cat", "start_ns": 20, "dur_ns": 10},
            ],
            "device_event": [
                {"name": "copy", "start_ns": 5, "dur_ns": 3, "operator_id": 1},
                {"name": "copy", "start_ns": 25, "dur_ns": 3, "operator_id": 2},
            ],
        },
        "name,operator,count\ncopy,aten::cat,2",
    )


def test_by_properties_tells_launches_and_operators_apart(diff):
    diff(
        "kernels",
        {
            "host_event": [{"id": 0, "name": "aten::mm", "dur_ns": 9}, {"id": 1, "name": "aten::bmm", "dur_ns": 9}],
            "device_event": [
                {**GEMM, "id": 10, "dur_ns": 50, "operator_id": 0, "registers_per_thread": 64},
                {**GEMM, "id": 11, "dur_ns": 30, "operator_id": 0, "registers_per_thread": 64},
                {**GEMM, "id": 12, "dur_ns": 20, "operator_id": 1, "registers_per_thread": 64},
                {**GEMM, "id": 13, "dur_ns": 10, "operator_id": 1, "shared_memory_bytes": 512},
                {"name": "bare", "id": 14, "dur_ns": 5},
                {"name": "replayed", "id": 15, "dur_ns": 4, "graph_id": 2},
            ],
        },
        """
        name,grid,block,registers_per_thread,shared_memory_bytes,operator,count,total_ns
        gemm,"8,4,1","256,1",64,,aten::mm,2,80
        gemm,"8,4,1","256,1",64,,aten::bmm,1,20
        gemm,"8,4,1","256,1",,512,aten::bmm,1,10
        bare,,,,,(no operator),1,5
        replayed,,,,,CUDA graph 2 (unattributed),1,4
        """,
        by="properties",
    )


def test_by_graph_sums_a_node_over_replays_and_keeps_the_rest_as_one_row(diff):
    diff(
        "kernels",
        {
            "host_event": [
                {"id": 0, "name": "CompiledFunction", "dur_ns": 99},
                {"id": 1, "kind": "runtime", "role": "graph_launch", "parent_id": 0, "dur_ns": 5},
                {"id": 2, "kind": "runtime", "role": "graph_launch", "start_ns": 100},
            ],
            "device_event": [
                {"id": 10, "name": "gemm", "dur_ns": 3, "graph_id": 7, "graph_node_id": 1},
                {"id": 11, "name": "gemm", "dur_ns": 5, "graph_id": 7, "graph_node_id": 1},
                {"id": 12, "name": "gemm", "dur_ns": 2, "graph_id": 7, "graph_node_id": 2},
                {"id": 13, "name": "gemm", "dur_ns": 1, "graph_id": 8, "operator_id": 0},
                {"id": 14, "name": "(outside CUDA graphs)", "dur_ns": 4, "launch_id": 2},
                {"id": 15, "name": "gemm", "dur_ns": 500},
                {"id": 16, "name": "ncclKernel", "kind": "communication", "dur_ns": 500},
            ],
        },
        """
        name,graph_id,graph_node_id,operator,count,total_ns
        gemm,7,1,CUDA graph 7 (unattributed),2,8
        (outside CUDA graphs),,,CUDA graph (unattributed),1,4
        gemm,7,2,CUDA graph 7 (unattributed),1,2
        gemm,8,,CompiledFunction,1,1
        (outside CUDA graphs),,,,2,1000
        """,
        by="graph",
    )


def test_any_text_is_a_name(answer):
    names = ["f<int, 100%>", 'it\'s "quoted"', "two\nlines", "<script>alert(1)</script>", ""]
    rows = {"device_event": [{"name": name, "dur_ns": 1} for name in names]}
    for by in ("name", "properties"):
        found = [row["name"] for row in answer("kernels", rows, by=by).rows()]
        assert found == sorted(names)


def test_by_stack_a_kernel_has_the_call_stack_of_what_launched_it(diff):
    diff(
        "kernels",
        {
            "host_event": [
                {"id": 0, "name": "aten::mm", "dur_ns": 9, "stack_id": 0},
                {"id": 1, "name": "aten::mm", "start_ns": 10, "dur_ns": 9, "stack_id": 1},
                {"id": 2, "name": "aten::mm", "start_ns": 20, "dur_ns": 9, "stack_id": 0},
                {"id": 3, "kind": "runtime", "name": "cuLaunchKernel", "start_ns": 30, "dur_ns": 5,
                 "stack_id": 1},
            ],
            "call_stack": [
                {"stack_id": 0, "frames": "net.py(3): forward;train.py(9): main"},
                {"stack_id": 1, "frames": "train.py(9): main"},
            ],
            "device_event": [
                {"name": "gemm", "dur_ns": 40, "operator_id": 0},
                {"name": "gemm", "dur_ns": 30, "operator_id": 1},
                {"name": "gemm", "dur_ns": 50, "operator_id": 2},
                {"name": "mine", "dur_ns": 20, "launch_id": 3},
                {"name": "lost", "dur_ns": 10},
            ],
        },
        """
        name,operator,frame,call_stack,count,total_ns
        gemm,aten::mm,net.py(3): forward,net.py(3): forward;train.py(9): main,2,90
        gemm,aten::mm,train.py(9): main,train.py(9): main,1,30
        mine,(no operator),train.py(9): main,train.py(9): main,1,20
        lost,(no operator),,,1,10
        """,
        by="stack",
    )  # fmt: skip


def test_tensor_cores_by_the_operator_and_the_library_by_the_name(diff):
    product = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_tn"
    plain = "ampere_sgemm_128x64_nn"
    diff(
        "kernels",
        {
            "device_event": [
                {"name": product, "dur_ns": 60, "operator_id": 0, "operator_name": "aten::mm"},
                {"name": plain, "dur_ns": 30, "operator_id": 0, "operator_name": "aten::mm"},
                {"name": plain, "dur_ns": 10, "operator_id": 1, "operator_name": "mine::op"},
                {"name": "mystery", "dur_ns": 5, "operator_id": 1, "operator_name": "mine::op"},
                {"name": "cutlass_gemm", "dur_ns": 4},
            ]
        },
        f"""
        name,total_ns,tensor_core_eligible_ratio,tensor_core_used,library
        {product},60,1.0,True,cuBLAS
        {plain},40,1.0,False,cuBLAS
        mystery,5,0.0,,
        cutlass_gemm,4,1.0,,CUTLASS
        """,
    )


def test_by_source_a_generated_kernel_has_its_code_and_its_compiled_graph(diff):
    triton = "triton_poi_fused_add_my_op_0"
    diff(
        "kernels",
        {
            "host_event": [
                {"id": 0, "name": "Torch-Compiled Region: 0/0", "role": "compiled", "dur_ns": 100},
                {"id": 1, "name": "## Call CompiledFxGraph abc ##", "role": "compiled",
                 "start_ns": 10, "dur_ns": 40, "parent_id": 0},
                {"id": 2, "name": triton, "start_ns": 20, "dur_ns": 9, "parent_id": 1,
                 "kernel_source_id": 0},
                {"id": 3, "name": triton, "start_ns": 200, "dur_ns": 9, "kernel_source_id": 0},
            ],
            "kernel_source": [
                {"kernel_source_id": 0, "file": "/node/ti/cab.py", "backend": "triton",
                 "options": "XBLOCK=16"}
            ],
            "device_event": [
                {"name": triton, "dur_ns": 30, "operator_id": 2},
                {"name": triton, "dur_ns": 20, "operator_id": 3},
                {"name": "gemm", "dur_ns": 10},
            ],
        },
        f"""
        name,source_file,backend,launch_options,compiled_graph,fused_operators,total_ns
        {triton},/node/ti/cab.py,triton,XBLOCK=16,## Call CompiledFxGraph abc ##,"add, my_op",30
        {triton},/node/ti/cab.py,triton,XBLOCK=16,,"add, my_op",20
        gemm,,,,,,10
        """,
        by="source",
    )  # fmt: skip


def test_what_limits_occupancy_and_the_priority_of_the_stream(diff):
    rows = {
        "device_event": [
            {"name": "gemm", "dur_ns": 30, "occupancy_limit": "registers", "priority": -5},
            {"name": "gemm", "dur_ns": 20, "occupancy_limit": "warps", "priority": 0},
            {"name": "relu", "dur_ns": 10},
        ]
    }
    diff("kernels", rows, "name,occupancy_limit\ngemm,registers; warps\nrelu,")
    diff(
        "kernels",
        rows,
        """
        name,priority,occupancy_limit,total_ns
        gemm,-5,registers,30
        gemm,0,warps,20
        relu,,,10
        """,
        by="properties",
    )


def test_by_source_kernels_of_one_name_and_several_places_have_none_unless_the_graph_tells(diff):
    def origin(graph, lines, modules=None):
        return {"kernel": "triton", "graph": graph, "lines": lines, "modules": modules}

    rows = {
        "host_event": [
            {"id": 0, "kind": "annotation", "role": "compiled", "dur_ns": 10,
             "name": "## Call CompiledFxGraph f2 ##"},
            {"id": 1, "kind": "runtime", "role": "launch", "start_ns": 1, "dur_ns": 2},
            {"id": 2, "kind": "runtime", "role": "launch", "start_ns": 20, "dur_ns": 2},
        ],
        "device_event": [
            {"id": 10, "name": "triton", "dur_ns": 5, "launch_id": 1},
            {"id": 11, "name": "triton", "dur_ns": 3, "launch_id": 2},
        ],
        "kernel_origin": [origin("f1", "[1]"), origin("f2", "[2]", '["a"]')],
    }  # fmt: skip
    diff(
        "kernels",
        rows,
        """
        name,compiled_graph,program_lines,program_modules,total_ns
        triton,## Call CompiledFxGraph f2 ##,[2],"[""a""]",5
        triton,,,,3
        """,
        by="source",
    )


ROWS = {
    "host_event": [{"id": 0, "name": "aten::add", "dur_ns": 9}],
    "device_event": [
        {"name": "add", "dur_ns": 2_000, "operator_id": 0, "operator_name": "aten::add"},
        {"name": "add", "dur_ns": 4_000, "operator_id": 0, "operator_name": "aten::add"},
        {"name": "add", "dur_ns": 9_999},
        {"name": "gemm", "dur_ns": 10_000},
        {"name": "gemm", "dur_ns": 74_001},
        {"name": "Memcpy HtoD", "kind": "copy", "dur_ns": 1_000},
    ],
}


def test_kernels_below_ten_microseconds_by_name_and_operator(diff: Any) -> None:
    diff(
        "kernels",
        ROWS,
        """
        name,operator,count,count_ratio,total_ns,share_ratio,mean_ns,min_ns,max_ns
        add,aten::add,2,0.4,6000,0.06,3000.0,2000,4000
        add,(no operator),1,0.2,9999,0.09999,9999.0,9999,9999
        """,
        by="short",
    )


def test_where_all_kernels_are_long_it_says_so() -> None:
    with literal_store({"device_event": ROWS["device_event"][3:]}) as store:
        assert ask(find("kernels"), store, by="short").note == "None of 2 kernels runs for less than 10.00 µs."
        assert ask(find("kernels"), store, by="short", below_ns=20_000).note == ""


def test_the_histogram_has_empty_bins_too(diff: Any) -> None:
    diff(
        "kernels",
        ROWS,
        """
        from_ns,to_ns,count,count_ratio,total_ns,share_ratio
        0,2500,1,0.2,2000,0.02
        2500,5000,1,0.2,4000,0.04
        5000,7500,0,0.0,0,0.0
        7500,10000,1,0.2,9999,0.09999
        """,
        by="histogram",
        bins=4,
    )


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 30), st.integers(1, 7))
@examples(30)
def test_bins_hold_each_short_kernel_once(durations: list[int], below: int, bins: int) -> None:
    rows = {"device_event": [{"name": "k", "dur_ns": one} for one in durations]}
    with literal_store(rows) as store:
        found = ask(find("kernels"), store, by="histogram", below_ns=below, bins=bins).rows()
    short = [one for one in durations if one < below]
    assert sum(row["count"] for row in found) == len(short)
    assert sum(row["total_ns"] for row in found) == sum(short)
    for row in found:
        assert row["count"] == sum(row["from_ns"] <= one < row["to_ns"] for one in short)
