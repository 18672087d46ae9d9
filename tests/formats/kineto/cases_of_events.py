"""Odd and broken inputs whose events are at fault: their times, their identity, their kinds."""

from .cases_of_text import BASE, GEMM, LAUNCH, MM, Case, column, columns, damaged

TIME = [
    Case(
        "C01_whole_microseconds.json", 3, host=[("aten::mm", 0, 20_000)],
        device=[("k1", 30_000, 0), ("k2", 30_000, 1_000)],
        fact=lambda t: t.facts.resolution_ns == 1_000 and t.facts.start_epoch_ns == 1_623_143_089_000_010_000,
    ),
    Case(
        "C02_decimal_microseconds.json", 3, host=[("a", 0, 1), ("b", 1, 1_234)], device=[("k", 954, 10_001)],
        fact=lambda t: t.facts.resolution_ns == 1 and t.facts.start_epoch_ns == BASE + 6_869_181_217_913_045,
    ),
    *(
        Case(
            file, 3, host=[("a", 0, 40), ("b", 40, 1)], device=[("k", 41, 2_111)],
            fact=lambda t: t.facts.start_epoch_ns == 1_778_655_624_745_710_848,
        )
        for file in ("C03_epoch_with_decimals.json", "C04_times_as_text.json")
    ),
    Case(
        "C05_zero_timestamps.json", 5, damage={"zero_timestamp": 1}, host=[MM, LAUNCH],
        # It takes no time, but its launch can still find it.
        fact=lambda t: (
            columns(t.device_event, "name", "dur_ns", "correlation") == [("lost", 0, 5), ("gemm", 8_500, 5)]
            and t.facts.start_epoch_ns == BASE + 10_500
        ),
    ),
    damaged(
        "C06_negative_durations.json", 5, repaired=3, damage={"negative_duration": 2, "unfinished": 1},
        # What has no end ends with the event around it.
        host=[
            ("outer", 0, 50_000), ("unfinished", 2_000, 48_000), ("wrapped", 10_000, 40_000),
            ("backwards", 20_000, 30_000),
        ],
    ),
    Case("C07_zero_durations.json", 4, device=[("first", 29_500, 0), ("second", 29_500, 0), ("third", 29_500, 1_500)]),
    Case(
        "C08_overrun.json", 4,
        device=[("too_long", 29_500, 9_000_000_000), ("next", 39_500, 2_000), ("after", 49_500, 2_000)],
    ),
    Case(
        "C09_crossing.json", 4, host=[("ProfilerStep#1", 0, 20_000), ("crosses the step", 19_999, 5_000)],
        device=[("first", 30_000, 10_000), ("dependent launch", 38_000, 10_000)],
    ),
    Case("C10_tenths.json", 3, host=[("a", 0, 500), ("b", 500, 100)], device=[("k", 900, 300)]),
    Case(
        "C11_annotation_a_nanosecond_early.json", 3, device=[("forward", 29_624, 8_502), GEMM],
        fact=lambda t: column(t.device_event, "kind") == ["annotation", "computation"],
    ),
    Case(
        "C12_record_window_end.json", 4, host=[MM], device=[GEMM],
        fact=lambda t: (
            column(t.instant, "name") == ["Iteration Start: PyTorch Profiler", "Record Window End"]
            and t.facts.start_epoch_ns == BASE + 10_500
        ),
    ),
    Case("C13_warm_up_events.json", 6, device=[("warmup_kernel", 1_000, 2_000), ("gemm", 39_125, 8_500)]),
    Case(
        "C14_clocks/rank0.json", 3,
        fact=lambda t: t.facts.rank == 0 and column(t.device_event, "start_ns") == [10_000, 210_000],
    ),
    Case("C14_clocks/rank1.json", 3, fact=lambda t: t.facts.rank == 1 and t.facts.start_epoch_ns == BASE + 360_000),
]  # fmt: skip

LONG = 9_223_372_036_854_775_807
IDENTITY = [
    Case(
        "I01_text_ids.json",
        5,
        fact=lambda t: {("7", "7"), ("Spans", "PyTorch Profiler"), ("-1", "0")} <= set(columns(t.thread, "pid", "tid")),
    ),
    Case("I02_stream_as_text.json", 3, fact=lambda t: column(t.device_event, "stream") == [7]),
    Case("I03_pid_is_device.json", 3, host=[MM], device=[GEMM]),
    Case(
        "I04_long_thread_ids.json",
        3,
        fact=lambda t: (
            {"140234567890112", "4294967303"} <= set(column(t.thread, "tid"))
            and len(set(column(t.host_event, "thread"))) == 2
        ),
    ),
    Case(
        "I05_long_ids.json",
        4,
        fact=lambda t: (
            column(t.device_event, "stream") == [LONG] and column(t.flow, "flow_id") == [1_778_655_624_745_710_730] * 2
        ),
    ),
    Case(
        "I06_negative_thread_ids.json",
        3,
        fact=lambda t: ("-1410655872", "thread 1410655872 (pt_autograd_0)") in columns(t.thread, "tid", "thread_name"),
    ),
    Case(
        "I07_stream_sync_rows.json",
        4,
        fact=lambda t: columns(t.device_event, "kind", "stream") == [("computation", 7), ("sync", 7)],
    ),
    Case(
        "I08_spelling_of_keys.json",
        3,
        fact=lambda t: (
            column(t.host_event, "external_id") == [1, 2, 3]
            and column(t.operator_input, "dims") == ["[[2,3],[3,4]]", "[[2,4]]"]
        ),
    ),
    Case(
        "I09_external_id_zero.json",
        3,
        fact=lambda t: (
            columns(t.host_event, "correlation", "external_id") == [(None, 31), (5, 0)]
            and columns(t.device_event, "correlation", "external_id") == [(5, 31)]
        ),
    ),
    Case(
        "I10_colliding_ids.json",
        4,
        fact=lambda t: (
            columns(t.host_event, "correlation", "external_id") == [(None, 5), (None, 6), (6, 5)]
            and columns(t.device_event, "correlation", "external_id") == [(6, 5)]
        ),
    ),
    Case(
        "I11_flow_categories.json",
        6,
        fact=lambda t: (
            columns(t.flow, "category", "phase", "flow_id")
            == [("launch", "s", 1), ("launch", "f", 1), ("fwdbwd", "s", 2), ("fwdbwd", "f", 2), ("launch", "f", 5)]
        ),
    ),
    Case(
        "I12_graph_replay.json",
        5,
        fact=lambda t: (
            columns(t.device_event, "correlation", "graph_id", "graph_node_id")
            == [(5, 2, 20), (5, 2, 21), (5, 2, 22), (77, None, None)]
            and column(t.host_event, "role") == ["graph_launch"]
        ),
    ),
    Case("I13_launch_names.json", 6, fact=lambda t: column(t.host_event, "role") == ["launch"] * 5 + ["synchronize"]),
    Case(
        "I14_collective_names.json",
        6,
        fact=lambda t: (
            column(t.host_event, "role") == ["communication"] * 3
            and column(t.device_event, "kind") == ["communication", "communication", "computation"]
        ),
    ),
    Case(
        "I15_collective_arguments.json",
        3,
        fact=lambda t: (
            column(t.device_event, "collective_id") == [None, 0]
            and columns(t.collective_args, "operation", "group_size", "sequence", "elements_in")
            == [("allreduce", 2, 41, 2_049_000)]
        ),
    ),
    Case(
        "I16_streams.json",
        3,
        fact=lambda t: (
            columns(t.device_event, "kind", "device", "stream") == [("computation", 2, 0), ("sync", 2, -1)]
            and column(t.host_event, "kind") == ["runtime"]
        ),
    ),
    Case(
        "I17_xpu.json",
        3,
        fact=lambda t: (
            column(t.device_event, "device") == [0]
            and column(t.host_event, "role")[-1] == "launch"
            and "memory opration id" in t.report.unknown_fields
        ),
    ),
    Case(
        "I18_altered_names.json",
        4,
        fact=lambda t: (
            column(t.host_event, "name")[:2] == ["unknown", "unknown"] and column(t.device_event, "name") == ["Kernel"]
        ),
    ),
]

KINDS = [
    Case("F01_begin_end.json", 4, host=[("outer", 0, 20_250), ("inner", 2_500, 2_500)]),
    damaged(
        "F02_unbalanced_begin_end.json", 4, repaired=1, dropped=1,
        damage={"unmatched_end": 1, "unmatched_begin": 1, "unfinished": 1},
        # What never ended ends with the recording; where an end has no begin nothing is made up.
        fact=lambda t: (
            sorted(columns(t.host_event, "start_ns", "name", "dur_ns"))
            == [(0, "closed", 10_000), (15_000, "never closed", 15_000), (20_000, "last", 10_000)]
        ),
    ),
    Case(
        "F03_counters_and_instants.json", 5,
        fact=lambda t: (
            sorted(columns(t.counter, "track", "series", "time_ns", "value"))
            == [
                ("GPU power", "limit", 9_500, 700.0), ("GPU power", "watts", 9_500, 310.5),
                ("dram", "GB/s", 10_500, 1200.0),
            ]
            and columns(t.memory_event, "time_ns", "bytes", "total_allocated_bytes") == [(11_500, -1_024, -512)]
            and column(t.instant, "name") == ["mark"]
        ),
    ),
    Case(
        "F04_async.json", 5, host=[MM], device=[GEMM],
        fact=lambda t: column(t.instant, "name") == ["generate", "first token", "generate"],
    ),
    Case(
        "F05_flows.json", 5,
        fact=lambda t: columns(t.flow, "phase", "time_ns") == [("s", 1_500), ("t", 9_500), ("f", 29_625)],
    ),
    Case(
        "F06_orphans_in_python_stack.json", 3,
        fact=lambda t: columns(t.host_event, "python_id", "python_parent_id") == [(1, None), (9, 404), (2, 1)],
    ),
]  # fmt: skip
