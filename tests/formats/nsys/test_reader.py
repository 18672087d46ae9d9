import pytest
from tests.formats.nsys.exports import PROCESS, Nsys, device, global_pid, global_tid, host

import stepscope
from stepscope.base.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.nsys.reader import peek, processes
from stepscope.formats.registry import format_of

A_DAY_IN_2026 = 1_779_782_330_000_000_000


def test_a_kernel_keeps_its_time_launch_and_shape_of_the_grid(nsys):
    nsys.insert(
        "TARGET_INFO_GPU", id=0, name="NVIDIA A100", smCount=40, totalMemory=1 << 30,
        threadsPerWarp=32, maxWarpsPerSm=64, computeMajor=8, computeMinor=0,
    )  # fmt: skip
    tables = nsys.launch(100, 5, "gemm<float>", 150, 190).read()
    (row,) = tables.device_event.to_pylist()
    assert (row["name"], row["start_ns"], row["dur_ns"]) == ("gemm<float>", 50, 40)
    assert (row["stream"], row["context"], row["correlation"], row["graph_node_id"]) == (7, 1, 5, None)
    assert (row["grid_x"], row["grid_y"], row["block_x"], row["registers_per_thread"]) == (80, 2, 128, 32)
    assert (row["blocks_per_sm"], row["warps_per_sm"], row["shared_memory_bytes"]) == (4, 16, 48)
    assert host(tables, "category", "name", "role", "correlation") == [
        ("cuda_runtime", "cudaLaunchKernel", "launch", 5)
    ]
    (known,) = tables.device.to_pylist()
    assert (known["name"], known["used"], known["max_threads_per_sm"]) == ("NVIDIA A100", True, 2048)


def test_names_may_be_texts_where_there_are_no_strings(tmp_path):
    tables = Nsys(tmp_path / "r.sqlite", strings=False).launch(1, 1, "gemm", 5, 6).read()
    assert device(tables, "name") == [("gemm",)]
    assert host(tables, "name") == [("cudaLaunchKernel",)]


def test_an_older_table_of_versions_is_read(tmp_path):
    nsys = Nsys(tmp_path / "r.sqlite").launch(1, 1, "gemm", 5, 6)
    nsys.connection.execute("ALTER TABLE META_DATA_EXPORT RENAME TO EXPORT_META_DATA")
    assert nsys.read().facts.tool_version == "2024.5.1.113"


def test_an_export_of_few_columns_is_read(nsys):
    nsys.insert("CUPTI_ACTIVITY_KIND_KERNEL", start=10, end=30, shortName=nsys.text("gemm"))
    (row,) = nsys.read().device_event.to_pylist()
    assert (row["name"], row["device"], row["stream"], row["dur_ns"]) == ("gemm", 0, -1, 20)
    assert row["grid_x"] is row["correlation"] is row["blocks_per_sm"] is None


def test_copies_and_fills_have_direction_memory_and_bytes(nsys):
    shared = {"deviceId": 0, "streamId": 7, "globalPid": global_pid(), "bytes": 64}
    for number, (kind, source, target) in enumerate([(1, 0, 2), (2, 2, 1), (12, 4, 0), (77, 7, 2)]):
        nsys.insert(
            "CUPTI_ACTIVITY_KIND_MEMCPY", start=number, end=number + 1, copyKind=kind,
            srcKind=source, dstKind=target, **shared,
        )  # fmt: skip
    nsys.insert("CUPTI_ACTIVITY_KIND_MEMSET", start=9, end=10, memKind=2, **shared)
    assert device(nsys.read(), "name", "copy_kind", "memory_kind", "bytes") == [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", "pageable", 64),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", "pinned", 64),
        ("Memcpy DtoH (Managed -> Pageable)", "DtoH", "pageable", 64),
        ("Memcpy unknown (Unknown -> Device)", "unknown", "unknown", 64),
        ("Memset (Device)", None, None, 64),
    ]


def test_enumerations_of_the_file_come_before_our_own(nsys):
    nsys.insert("ENUM_CUDA_MEMCPY_OPER", id=1, name="CUDA_MEMCPY_KIND_PTOP", label="Peer-to-Peer")
    nsys.insert("ENUM_CUDA_MEM_KIND", id=5, name="X", label="Pinned")
    nsys.insert("CUPTI_ACTIVITY_KIND_MEMCPY", start=1, end=2, copyKind=1, srcKind=5, dstKind=2)
    assert device(nsys.read(), "name") == [("Memcpy PtoP (Pinned -> Device)",)]


def test_a_wait_lies_on_the_device_of_its_context(nsys):
    nsys.launch(1, 1, "gemm", 5, 6, device=1).insert(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=7, end=9, deviceId=0, contextId=2,
        streamId=4294967295, correlationId=2, globalPid=global_pid(), syncType=3,
    )  # fmt: skip
    assert device(nsys.read(), "kind", "name", "role", "device", "stream")[1] == (
        "sync", "Stream Sync", "host for stream", 1, -1,
    )  # fmt: skip


def test_a_kernel_that_states_no_device_ran_on_that_of_its_context(nsys):
    nsys.insert("CUPTI_ACTIVITY_KIND_KERNEL", start=1, end=2, contextId=2)
    nsys.insert("CUPTI_ACTIVITY_KIND_KERNEL", start=3, end=4, contextId=9)
    nsys.insert("CUPTI_ACTIVITY_KIND_MEMCPY", start=5, end=6, contextId=2, deviceId=1)
    assert device(nsys.read(), "start_ns", "device") == [(0, 1), (2, 0), (4, 1)]


def test_a_graph_that_was_traced_as_one_is_work_of_its_own_category(nsys):
    nsys.insert(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=10, end=90, deviceId=0, graphId=4, graphExecId=5,
        contextId=1, streamId=7, correlationId=3, globalPid=global_pid(),
    )  # fmt: skip
    columns = ("category", "kind", "name", "graph_id", "dur_ns", "correlation")
    assert device(nsys.read(), *columns) == [("cuda_graph", "computation", "CUDA graph 4", 4, 80, 3)]


def test_nodes_of_graphs_keep_their_numbers(nsys):
    nsys.insert("CUPTI_ACTIVITY_KIND_KERNEL", start=1, end=2, graphNodeId=17, graphId=4)
    assert device(nsys.read(), "graph_id", "graph_node_id") == [(4, 17)]


def test_calls_of_runtime_driver_and_system_are_told_apart(nsys):
    thread = global_tid(150)
    for number, name in enumerate(("cudaMalloc_v3020", "cuLaunchKernelEx", "cudaMemcpy_ptsz_v7000")):
        nsys.insert(
            "CUPTI_ACTIVITY_KIND_RUNTIME", start=number, end=number + 1, globalTid=thread,
            correlationId=number, nameId=nsys.text(name),
        )  # fmt: skip
    nsys.insert("OSRT_API", start=5, end=9, globalTid=thread, nameId=nsys.text("poll"))
    nsys.insert("PROFILER_OVERHEAD", start=6, end=7, globalTid=thread, nameId=nsys.text("Flush"))
    nsys.insert("CUPTI_ACTIVITY_KIND_OVERHEAD", start=7, end=8, globalTid=thread, overheadType=2)
    nsys.insert("ThreadNames", globalTid=thread, nameId=nsys.text("loader"))
    nsys.insert("PROCESSES", globalPid=global_pid(), pid=PROCESS, name="python3")
    tables = nsys.read()
    assert host(tables, "category", "kind", "role", "name") == [
        ("cuda_runtime", "runtime", "allocate", "cudaMalloc"),
        ("cuda_driver", "runtime", "launch", "cuLaunchKernelEx"), ("cuda_runtime", "runtime", "copy", "cudaMemcpy"),
        ("os_runtime", "other", None, "poll"), ("overhead", "overhead", None, "Driver JIT compiler (CUDA)"),
        ("overhead", "overhead", None, "Flush"),
    ]  # fmt: skip
    threads = [tuple(row.values())[1:] for row in tables.thread.to_pylist()]
    assert threads == [("144", "150", "python3", "loader", "thread"), ("", "overhead", None, None, "track")]


def test_the_start_of_the_session_puts_times_on_the_clock(nsys):
    nsys.insert("TARGET_INFO_SESSION_START_TIME", utcEpochNs=A_DAY_IN_2026)
    nsys.insert("TARGET_INFO_SYSTEM_ENV", name="Hostname", value="nid001")
    facts = nsys.launch(100, 1, "gemm", 150, 190).read().facts
    assert (facts.start_epoch_ns, facts.host, facts.pid) == (A_DAY_IN_2026 + 100, "nid001", PROCESS)
    assert (facts.tool, facts.tool_version) == ("Nsight Systems", "2024.5.1.113")
    peeked = peek(next(members(nsys.path)))
    assert (peeked.start_epoch_ns, peeked.end_epoch_ns) == (A_DAY_IN_2026 + 100, A_DAY_IN_2026 + 190)


def test_shifted_and_normalized_times_are_the_same_moments(tmp_path):
    shifted = Nsys(tmp_path / "shifted.sqlite").launch(1100, 1, "gemm", 1150, 1190)
    shifted.insert("META_DATA_EXPORT", name="EXPORT_CONFIG_TIME_SHIFT", value="1000")
    unix = A_DAY_IN_2026 + 100
    normalized = Nsys(tmp_path / "unix.sqlite").launch(unix, 1, "gemm", unix + 50, unix + 90)
    for one in (shifted, normalized):
        one.insert("TARGET_INFO_SESSION_START_TIME", utcEpochNs=A_DAY_IN_2026)
        tables = one.read()
        assert tables.facts.start_epoch_ns == A_DAY_IN_2026 + 100
        assert device(tables, "start_ns", "dur_ns") == [(50, 40)]


def test_devices_are_those_that_the_process_was_given(nsys):
    for number, name in enumerate(("A", "B")):
        nsys.insert("TARGET_INFO_GPU", id=number, name=name)
    nsys.insert("TARGET_INFO_CUDA_DEVICE", gpuId=1, cudaId=0, pid=PROCESS)
    nsys.insert("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=999)
    known = nsys.launch(1, 1, "gemm", 5, 6).read().device.to_pylist()
    assert [(row["device"], row["name"], row["used"]) for row in known] == [(0, "B", True)]


def test_events_without_a_time_are_counted(nsys):
    for start, end in ((5, 9), (None, 3), (7, None), (8, 2), (1 << 62, 1 << 62), ("x", 4)):
        nsys.insert("CUPTI_ACTIVITY_KIND_KERNEL", start=start, end=end)
    tables = nsys.read()
    assert device(tables, "start_ns", "dur_ns") == [(0, 4), (2, 0), (3, 0)]
    assert tables.report.damage == {"no_time": 3, "negative_duration": 2, "wrong_type": 1}
    assert (tables.report.dropped, tables.report.repaired) == (3, 2)


def test_names_of_strings_that_are_missing_are_counted(nsys):
    nsys.insert("CUPTI_ACTIVITY_KIND_KERNEL", start=5, end=9, demangledName=77)
    tables = nsys.read()
    assert device(tables, "name") == [("(kernel without a name)",)]
    assert tables.report.damage == {"missing_string": 1}


# -- several processes -------------------------------------------------------------------------------


def two_processes(nsys: Nsys) -> Nsys:
    nsys.launch(100, 5, "gemm", 150, 190, pid=10144).launch(100, 5, "relu", 150, 160, pid=9145)
    return nsys.insert("OSRT_API", start=1, end=2, globalTid=global_tid(7, 7), nameId=nsys.text("poll"))


def test_each_process_with_device_work_is_a_rank_and_marked_as_guessed(nsys):
    two_processes(nsys)
    with stepscope.open(nsys.path, cache=False) as trace:
        rows = trace.sql("SELECT rank, pid, rank_rule FROM rank ORDER BY rank").rows()
        assert [tuple(row.values()) for row in rows] == [(0, 9145, "order"), (1, 10144, "order")]
        # The same correlation number in both: a launch belongs to its own process.
        rows = trace.sql(
            "SELECT d.rank, d.name, h.start_ns IS NOT NULL AS launched FROM device_event d "
            "LEFT JOIN host_event h ON h.rank = d.rank AND h.id = d.launch_id ORDER BY d.rank"
        ).rows()
        assert [tuple(row.values()) for row in rows] == [(0, "relu", True), (1, "gemm", True)]
        guessed = trace.sql("SELECT explanation FROM data_check WHERE \"check\" = 'ranks_guessed'")
        assert "report.sqlite!pid 9145 is rank 0" in str(guessed.rows()[0])
        (path, *_), left_out = (
            [row["path"] for row in trace.sql("SELECT path FROM source ORDER BY rank").rows()],
            trace.sql("SELECT metadata FROM source").rows()[0]["metadata"],
        )
        assert path.endswith("report.sqlite!pid 9145")
        assert '"processes_left_out": [7]' in left_out


def test_the_name_of_a_file_with_several_processes_is_no_ones_rank(tmp_path):
    two_processes(Nsys(tmp_path / "rank3.sqlite"))
    with stepscope.open(tmp_path / "rank3.sqlite", cache=False) as trace:
        assert [row["rank"] for row in trace.sql("SELECT rank FROM rank ORDER BY 1").rows()] == [0, 1]


def test_processes_of_two_files_are_ranks_in_the_order_of_files(tmp_path):
    for node in (1, 0):
        one = two_processes(Nsys(tmp_path / f"node{node}.sqlite"))
        one.insert("TARGET_INFO_SESSION_START_TIME", utcEpochNs=A_DAY_IN_2026 + node * 1000)
        one.insert("TARGET_INFO_SYSTEM_ENV", name="Hostname", value=f"nid{node}")
    with stepscope.open(tmp_path, cache=False) as trace:
        rows = trace.sql("SELECT rank, host, pid FROM rank ORDER BY rank").rows()
    assert [tuple(row.values()) for row in rows] == [
        (0, "nid0", 9145), (1, "nid0", 10144), (2, "nid1", 9145), (3, "nid1", 10144),
    ]  # fmt: skip


def test_without_device_work_those_that_asked_for_it_are_ranks(nsys):
    nsys.insert("OSRT_API", start=1, end=2, globalTid=global_tid(7, 7), nameId=nsys.text("poll"))
    (member,) = members(nsys.path)
    nsys.insert("OSRT_API", start=1, end=2, globalTid=global_tid(9, 9), nameId=nsys.text("read"))
    assert processes(member) == [""]
    assert {row["pid"] for row in nsys.read().thread.to_pylist()} == {"7", "9"}
    nsys.insert("NVTX_EVENTS", start=1, end=2, globalTid=global_tid(8, 8), text="step")
    assert processes(member) == ["pid 8"]


# -- what cannot be read -----------------------------------------------------------------------------


def test_an_export_without_activity_is_an_error(nsys):
    (member,) = members(nsys.path)
    assert format_of(member).name == "nsys"
    assert peek(member) is None
    with pytest.raises(SourceError, match="holds no activity"):
        nsys.read()


def test_changes_that_lie_beside_the_export_are_named(nsys):
    nsys.launch(1, 1, "gemm", 5, 6)
    nsys.path.with_name("report.sqlite-wal").write_bytes(b"x")
    assert nsys.read().report.damage == {"unmerged_wal": 1}
    nsys.path.with_name("report.sqlite-wal").unlink()
    nsys.path.with_name("report.sqlite-journal").write_bytes(b"x")
    assert nsys.read().report.damage == {"unfinished_database": 1}


def test_more_processes_than_a_node_has_are_damage(nsys):
    nsys.launch(1, 1, "gemm", 5, 6)
    nsys.connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) "
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL(start, end, globalPid) SELECT i, i + 1, i << 24 FROM n"
    )
    with pytest.raises(SourceError, match="5001 processes"):
        processes(next(members(nsys.path)))


def test_views_and_virtual_tables_are_not_read(nsys):
    nsys.launch(1, 1, "gemm", 5, 6)
    nsys.connection.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_MEMSET AS SELECT 1 AS start, 2 AS end")
    assert len(nsys.read().device_event) == 1
