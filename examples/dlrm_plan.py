"""What to measure in the recommender, layer by layer, as HugeCTR's inline profiler was told."""

FORWARD = [
    "fused_fully_connected.fprop",
    "fused_fully_connected.fprop.cublasGemmEx",
    "fused_fully_connected.fprop.add_bias_and_re_kernel",
]
BACKWARD = [
    "fused_fully_connected.bprop",
    "fused_fully_connected.bprop.initialize_array",
    "fused_fully_connected.bprop.reverse_add_bias_and_re_kernel",
    "fused_fully_connected.bprop.convert_array",
    "fused_fully_connected.bprop.cublasGemmEx_1",
    "fused_fully_connected.bprop.cublasGemmEx_2",
]

dlrm_perf_schedule = {
    "BottomMLP.fc1": {
        "forward_events": ["fused_fully_connected.fprop.cublasGemmEx"],
        "backward_events": [
            "fused_fully_connected.bprop",
            "fused_fully_connected.bprop.initialize_array",
            "fused_fully_connected.bprop.convert_array",
            "fused_fully_connected.bprop.cublasGemmEx_2",
        ],
    },
    "BottomMLP.fc2": {"forward_events": FORWARD, "backward_events": BACKWARD},
    "BottomMLP.fc3": {"forward_events": FORWARD, "backward_events": BACKWARD},
    "sparse_embedding1": {
        "forward_events": ["localized_slot_sparse_embedding_one_hot.forward.mapping_and_fuse"],
        "backward_events": [],
    },
    "interaction1": {"forward_events": [], "backward_events": []},
    "TopMLP.fc4": {"forward_events": FORWARD, "backward_events": BACKWARD},
    "TopMLP.fc5": {"forward_events": FORWARD, "backward_events": BACKWARD},
    "TopMLP.fc6": {"forward_events": FORWARD, "backward_events": BACKWARD},
    "TopMLP.fc7": {"forward_events": FORWARD, "backward_events": BACKWARD},
    "TopMLP.fc8": {"forward_events": [], "backward_events": []},
}
