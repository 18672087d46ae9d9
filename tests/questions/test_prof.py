import json

import pytest

from stepscope.questions.prof import short_name

GEMM = {"name": "volta_sgemm_128x64_nn", "start_ns": 100, "dur_ns": 40}


def product(input_id=0, m=8, k=4, n=2):
    return {"input_id": input_id, "dims": json.dumps([[m, k], [k, n]]), "types": '["float", "float"]'}


def test_a_kernel_stands_beside_its_operator_and_its_work(diff):
    diff(
        "prof",
        {
            "host_event": [
                {"id": 1, "name": "aten::matmul", "dur_ns": 50, "device_ns": 40},
                {
                    "id": 2, "name": "aten::mm", "parent_id": 1, "depth": 1, "dur_ns": 40,
                    "input_id": 0, "device_ns": 40, "sequence_number": 7,
                },
                {
                    "id": 3, "name": "cudaLaunchKernel", "kind": "runtime", "parent_id": 2,
                    "depth": 2, "dur_ns": 5, "correlation": 9, "device_ns": 40,
                },
            ],
            "device_event": [
                GEMM | {
                    "launch_id": 3, "operator_id": 2, "direction": "forward", "stream": 7,
                    "grid_x": 8, "grid_y": 2, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1,
                }
            ],
            "operator_input": [product()],
        },
        """
        idx,seq,dir,sub,mod,op,kernel,params,sil,tc,stream,grid,block,flops,bytes
        1,7,fprop,0,aten,matmul,volta_sgemm_128x64_nn,"(8,4)float,(4,2)float",40,0,7,"8,2,1","256,1,1",128,224
        """,
    )  # fmt: skip


def test_a_kernel_that_only_prepares_a_product_has_none_of_its_work(diff):
    diff(
        "prof",
        {
            "host_event": [{"id": 1, "name": "aten::mm", "dur_ns": 50, "input_id": 0, "device_ns": 90}],
            "device_event": [
                GEMM | {"name": "nchwToNhwcKernel", "dur_ns": 50, "operator_id": 1},
                GEMM | {"start_ns": 160, "operator_id": 1},
            ],
            "operator_input": [product()],
        },
        "idx,kernel,sil,flops,bytes\n1,nchwToNhwcKernel,50,0,0\n2,volta_sgemm_128x64_nn,40,128,224",
    )


def test_kernels_of_one_call_share_its_work_by_duration_to_the_last_flop(diff):
    diff(
        "prof",
        {
            "host_event": [
                {"id": 1, "name": "aten::mm", "dur_ns": 50, "input_id": 0, "device_ns": 90}
            ],
            "device_event": [
                GEMM | {"start_ns": start, "dur_ns": ns, "operator_id": 1}
                for start, ns in ((0, 20), (30, 20), (60, 20))
            ] + [{"name": "Memset", "kind": "fill", "start_ns": 90, "dur_ns": 9, "operator_id": 1}],
            "operator_input": [product()],
        },
        """
        idx,sil,flops,bytes
        1,20,43,75
        2,20,43,75
        3,20,42,74
        """,
    )  # fmt: skip


def test_a_communication_kernel_has_the_work_of_its_collective(diff):
    diff(
        "prof",
        {
            "device_event": [
                {"id": 5, "name": "ncclKernel_AllReduce", "kind": "communication", "dur_ns": 9}
            ],
            "collective": [
                {
                    "id": 5, "operation": "all_reduce", "dtype": "Float", "elements_in": 100,
                    "elements_out": 100, "group_size": 4,
                }
            ],
        },
        "idx,tc,flops,bytes\n1,-,75,800",
    )  # fmt: skip


def test_gradients_of_a_convolution_stand_at_the_kernels_named_after_them(diff):
    kernels = ("cudnn_wgrad_x", 10), ("cudnn_dgrad_x", 40), ("transpose", 99), ("cudnn_wgrad_y", 30)
    diff(
        "prof",
        {
            "host_event": [
                {
                    "id": 1, "name": "aten::convolution_backward", "dur_ns": 50, "input_id": 0,
                    "device_ns": 90,
                }
            ],
            "device_event": [
                {"name": name, "start_ns": 100 * place, "dur_ns": ns, "operator_id": 1}
                for place, (name, ns) in enumerate(kernels)
            ],
            "operator_input": [
                {
                    "input_id": 0,
                    "dims": "[[2, 8, 6, 6], [2, 3, 8, 8], [8, 3, 3, 3], [], [], [], [], [], [], [], []]",
                    "types": '["float", "float", "float", "", "ScalarList", "ScalarList", '
                    '"ScalarList", "Scalar", "ScalarList", "Scalar", "ScalarList"]',
                    "values": '["", "", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", '
                    '"1", "[True, True, False]"]',
                }
            ],
        },
        """
        idx,kernel,flops,bytes
        1,cudnn_wgrad_x,7776,1176
        2,cudnn_dgrad_x,31104,4704
        3,transpose,0,0
        4,cudnn_wgrad_y,23328,3528
        """,
    )  # fmt: skip


def test_a_kernel_of_the_backward_has_its_forwards_operation(diff):
    diff(
        "prof",
        {
            "host_event": [
                {"id": 1, "name": "aten::linear", "dur_ns": 50},
                {"id": 2, "name": "aten::addmm", "parent_id": 1, "depth": 1, "sequence_number": 5},
                {
                    "id": 3, "name": "AddmmBackward0", "role": "backward", "forward_id": 2,
                    "sequence_number": 5, "start_ns": 60, "dur_ns": 30, "device_ns": 40,
                },
                {
                    "id": 4, "name": "aten::mm", "parent_id": 3, "depth": 1, "forward_id": 2,
                    "start_ns": 61, "dur_ns": 20, "device_ns": 40, "direction": "backward",
                },
            ],
            "device_event": [GEMM | {"operator_id": 4, "direction": "backward"}],
        },
        "seq,dir,mod,op,params,tc,flops,bytes\n5,bprop,aten,linear,,na,,",
    )  # fmt: skip


def test_functions_that_pyprof_wrapped_name_the_operation_ranges_the_layer_and_stacks_the_trace(diff):
    diff(
        "prof",
        {
            "host_event": [
                {"id": 1, "name": "epoch", "kind": "annotation", "dur_ns": 90, "device_ns": 40},
                {
                    "id": 2, "name": "encoder", "kind": "annotation", "parent_id": 1, "depth": 1,
                    "dur_ns": 80, "device_ns": 40,
                },
                {
                    "id": 3, "name": "torch.nn.functional.relu", "category": "pyprof",
                    "kind": "python", "parent_id": 2, "depth": 2, "dur_ns": 70, "device_ns": 40,
                },
                {
                    "id": 4, "name": "aten::relu", "parent_id": 3, "depth": 3, "dur_ns": 60,
                    "device_ns": 40, "stack_id": 0,
                },
            ],
            "device_event": [GEMM | {"operator_id": 4}],
            "call_stack": [
                {"stack_id": 0, "frames": "lib/torch/nn/functional.py:9;net.py:3;train.py:12"}
            ],
        },
        'layer,trace,mod,op,dir\nepoch:encoder,"train.py:12,net.py:3",torch.nn.functional,relu,',
    )  # fmt: skip


def test_sub_counts_kernels_of_one_number_and_direction(diff):
    operator = {"name": "aten::norm", "dur_ns": 9, "device_ns": 1}
    diff(
        "prof",
        {
            "host_event": [
                operator | {"id": 1, "sequence_number": 3},
                operator | {"id": 2, "sequence_number": 3, "start_ns": 10},
                operator | {"id": 3, "start_ns": 20},
            ],
            "device_event": [
                {"name": "a", "operator_id": 1, "start_ns": 1, "direction": "forward"},
                {"name": "b", "operator_id": 2, "start_ns": 2, "direction": "backward"},
                {"name": "c", "operator_id": 2, "start_ns": 3, "direction": "forward"},
                {"name": "d", "operator_id": 3, "start_ns": 4},
            ],
        },
        """
        kernel,seq,sub
        a,3,0
        b,3,0
        c,3,1
        d,,
        """,
    )


def test_ranks_are_numbered_on_and_each_keeps_its_own_operators(diff):
    def of_rank(rank, name):
        return {"rank": rank, "id": 1, "name": name, "dur_ns": 9, "device_ns": 40}

    diff(
        "prof",
        {
            "rank": [{"rank": 0}, {"rank": 1}],
            "host_event": [of_rank(0, "aten::mm"), of_rank(1, "aten::bmm")],
            "device_event": [GEMM | {"rank": rank, "operator_id": 1} for rank in (0, 1)],
        },
        "rank,idx,op\n0,1,mm\n1,2,bmm",
    )


@pytest.mark.parametrize(
    ("kernel", "short"),
    [
        ("void at::native::elementwise_kernel<512, 1, at::native::add>(int)", "elementwise_kernel"),
        ("void (anonymous namespace)::softmax_warp_forward<float>(float*)", "softmax_warp_forward"),
        ("void cutlass::Kernel<int>(cutlass::Params)", "cutlass::Kernel"),
        ("triton_poi_fused_0", "triton_poi_fused_0"),
        ("<unnamed>", "<unnamed>"),
    ],
)
def test_kernels_are_called_as_pyprof_called_them(kernel, short):
    assert short_name(kernel) == short
