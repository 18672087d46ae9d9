from tests.questions.launched import calls


def test_the_operator_decides_and_copies_and_communication_are_what_they_are(diff):
    conv = ("aten::convolution_backward", [[1, 4, 4, 4], [1, 3, 4, 4], [4, 3, 3, 3]], ["float"] * 3)
    rows = calls(
        [
            (*conv, 40, {"name": "volta_sgemm_64x64"}),
            ("aten::mm", [[8, 8]] * 2, ["float"] * 2, 30, {"direction": "forward"}),
            ("aten::relu", [[8]], ["float"], 10, {"name": "vectorized_elementwise_kernel"}),
            ("aten::mul_", [[8]] * 2, ["float"] * 2, 5, {"direction": "optimizer", "name": "mul"}),
            ("aten::mm", [[8, 8]] * 2, ["float"] * 2, 4, {"direction": "optimizer"}),
        ]
    )
    rows["operator_input"][0]["values"] = None
    rows["device_event"] += [
        {"id": 1, "name": "ncclDevKernel_AllReduce", "kind": "communication", "dur_ns": 6},
        {"id": 2, "name": "Memcpy HtoD (Pinned -> Device)", "kind": "copy", "dur_ns": 3},
        {"id": 3, "name": "no_idea", "dur_ns": 2},
    ]
    diff(
        "classes",
        rows,
        """
        class,count,device_ns,share_ratio,forward_ns
        convolution,1,40,0.4,0
        GEMM,2,34,0.34,30
        element-wise,1,10,0.1,0
        communication,1,6,0.06,0
        optimizer,1,5,0.05,0
        copy,1,3,0.03,0
        other,1,2,0.02,0
        """,
    )


def test_by_module_rows_still_add_up_to_all_device_work(diff):
    mm = ("aten::mm", [[8, 8]] * 2, ["float"] * 2)
    diff(
        "classes",
        calls(
            [(*mm, 30, {"module_id": 0}), (*mm, 50, {"module_id": 1}), (*mm, 20, {})],
            module=[{"module_id": 0, "path": "net"}, {"module_id": 1, "path": "net.fc"}],
        ),
        """
        module,class,count,device_ns,share_ratio
        net.fc,GEMM,1,50,0.5
        net,GEMM,1,30,0.3
        (no module),GEMM,1,20,0.2
        """,
        by="module",
    )


def test_softmax_and_its_logarithm_are_a_class_of_their_own_forward_and_backward(diff):
    forward = [[[8, 8], [], []], ["float", "Scalar", "Scalar"]]
    backward = [[[8, 8], [8, 8], [], []], ["float", "float", "Scalar", "Scalar"]]
    named = {"name": "vectorized_kernel"}
    diff(
        "classes",
        calls(
            [
                ("aten::_softmax", *forward, 40, {"direction": "forward", **named}),
                ("aten::_log_softmax", *forward, 20, {"direction": "forward", **named}),
                ("aten::_softmax_backward_data", *backward, 16, {"direction": "backward", **named}),
                ("aten::_log_softmax_backward_data", *backward, 4, {"direction": "backward"} | named),
                ("aten::sum", [[8]], ["float"], 20, named),
            ]
        ),
        """
        class,count,device_ns,share_ratio,forward_ns,backward_ns
        softmax,4,80,0.8,60,20
        reduction,1,20,0.2,0,0
        """,
    )
