"""Calls to MPI, cuDNN and cuBLAS, page faults, and the rank that a file says."""

from tests.formats.nsys.exports import PROCESS, device, global_pid, global_tid, host

import stepscope


def call(nsys, table, start, end, name, **arguments):
    key = "textId" if table.startswith("MPI") else "nameId"
    return nsys.insert(
        table, start=start, end=end, globalTid=global_tid(PROCESS), **{key: nsys.text(name)}, **arguments
    )


def test_calls_of_mpi_are_communication_with_what_was_sent(nsys):
    call(nsys, "MPI_COLLECTIVES_EVENTS", 0, 90, "MPI_Bcast", size=4096, rootRank=0, commHandle=1)
    call(nsys, "MPI_P2P_EVENTS", 100, 110, "MPI_Isend", size=8, remoteRank=3, tag=7)
    call(nsys, "MPI_START_WAIT_EVENTS", 120, 160, "MPI_Waitall", requestHandle=5)
    call(nsys, "MPI_OTHER_EVENTS", 170, 180, "MPI_Comm_rank")
    found = host(nsys.read(), "category", "kind", "role", "name", "other_args")
    assert sorted(found, key=lambda row: row[3]) == [
        ("mpi", "annotation", "communication", "MPI_Bcast", '{"bytes": 4096, "root": 0, "communicator": 1}'),
        ("mpi", "annotation", None, "MPI_Comm_rank", None),
        ("mpi", "annotation", "communication", "MPI_Isend", '{"bytes": 8, "remote rank": 3, "tag": 7}'),
        ("mpi", "annotation", "communication", "MPI_Waitall", None),
    ]  # fmt: skip


def test_messages_of_mpi_have_the_size_that_the_call_states(nsys):
    nsys.insert("MPI_RANKS", globalTid=global_tid(PROCESS), rank=2)
    for rank, handle in ((1, 9), (2, 7)):
        nsys.insert("MPI_COMMUNICATORS", rank=rank, commHandle=handle, size=4, groupRoot=0, groupRootUid=1)
    calls = ["MPI_Allreduce", "MPI_Iallgather", "MPI_Allgatherv", "MPI_Alltoall", "MPI_Allreduce"]
    for place, name in enumerate(calls):
        handle = 7 if place < 4 else 9  # of another rank
        call(nsys, "MPI_COLLECTIVES_EVENTS", place * 10, place * 10 + 5, name, size=4096, commHandle=handle)
    call(nsys, "MPI_P2P_EVENTS", 100, 105, "MPI_Send", size=64, commHandle=7)
    call(nsys, "MPI_P2P_EVENTS", 110, 115, "MPI_Recv", size=64, commHandle=7)
    nsys.launch(200, 1, "gemm", 210, 220)
    with stepscope.open(nsys.path, cache=False) as trace:
        found = trace.sql("SELECT operation, bytes, group_size, communicator FROM collective ORDER BY start_ns").rows()
    assert [tuple(row.values()) for row in found] == [
        ("all_reduce", 4096, 4, "MPI 0.1"), ("all_gather", 4 * 4096, 4, "MPI 0.1"),
        ("all_gather", None, 4, "MPI 0.1"), ("all_to_all", None, 4, "MPI 0.1"), ("all_reduce", 4096, None, None),
        ("send", 64, 4, "MPI 0.1"), ("recv", None, 4, "MPI 0.1"),
    ]  # fmt: skip


def test_calls_of_libraries_enclose_the_launches_that_they_make(nsys):
    call(nsys, "CUBLAS_EVENTS", 0, 40, "cublasGemmEx")
    call(nsys, "CUDNN_EVENTS", 50, 60, "cudnnConvolutionForward")
    nsys.launch(10, 1, "gemm", 100, 200)
    with stepscope.open(nsys.path, cache=False) as trace:
        found = trace.sql(
            "SELECT c.name, c.category, p.name AS above FROM host_event c "
            "LEFT JOIN host_event p ON p.id = c.parent_id ORDER BY c.start_ns"
        ).rows()
    assert [tuple(row.values()) for row in found] == [
        ("cublasGemmEx", "cublas", None),
        ("cudaLaunchKernel", "cuda_runtime", "cublasGemmEx"),
        ("cudnnConvolutionForward", "cudnn", None),
    ]


def test_page_faults_of_unified_memory_are_no_work(nsys):
    nsys.launch(0, 1, "gemm", 100, 200)
    nsys.insert(
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS", start=120, end=150, globalPid=global_pid(), deviceId=0,
        address=1, numberOfPageFaults=12, faultAccessType=2,
    )  # fmt: skip
    nsys.insert(
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS", start=130, globalPid=global_pid(), address=1,
        CpuInstruction=nsys.text("load"), module=nsys.text("libtrain.so"),
    )  # fmt: skip
    tables = nsys.read()
    assert device(tables, "category", "kind", "dur_ns", "other_args")[1:] == [
        ("um_page_fault", "other", 30, '{"faults": 12, "access": "write"}')
    ]
    (fault,) = tables.instant.to_pylist()
    assert (fault["name"], fault["time_ns"], fault["pid"]) == ("CPU page fault", 130, "144")
    assert fault["args"] == '{"function": "load", "library": "libtrain.so"}'


def variable(nsys, name, value):
    return nsys.insert("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE", value=f'{name}="{value}"')


def test_a_process_alone_has_the_rank_of_its_launcher(nsys):
    for name, value in (("SLURM_PROCID", 5), ("SLURM_LOCALID", 1), ("SLURM_NTASKS", 8)):
        variable(nsys, name, value)
    facts = nsys.launch(0, 1, "gemm", 10, 20).read().facts
    assert (facts.rank, facts.rank_rule, facts.world_size, facts.local_rank) == (5, "launcher", 8, 1)


def test_the_environment_of_a_launcher_gives_its_processes_no_rank(nsys):
    variable(nsys, "SLURM_PROCID", 0)
    for pid in (144, 145):
        nsys.launch(0, 1, "gemm", 10, 20, pid=pid)
    assert nsys.read("pid 145").facts.rank is None


def test_launchers_that_disagree_give_no_rank(nsys):
    for name, value in (("PMI_RANK", 3), ("PMI_SIZE", 4), ("OMPI_COMM_WORLD_RANK", 1), ("OMPI_COMM_WORLD_SIZE", 4)):
        variable(nsys, name, value)
    assert nsys.launch(0, 1, "gemm", 10, 20).read().facts.rank is None


def test_ranks_of_mpi_come_before_the_environment(nsys):
    variable(nsys, "SLURM_PROCID", 0)
    for pid, rank in ((144, 6), (145, 7)):
        nsys.launch(0, 1, "gemm", 10, 20, pid=pid)
        nsys.insert("MPI_RANKS", globalTid=global_tid(pid, pid), rank=rank)
    found = [nsys.read(f"pid {pid}").facts for pid in (144, 145)]
    assert [(one.rank, one.rank_rule) for one in found] == [(6, "MPI"), (7, "MPI")]


def test_events_of_openacc_and_openmp_are_host_events(nsys):
    for table, name in (
        ("CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH", "acc_enqueue_kernel"),
        ("OPENMP_EVENT_KIND_PARALLEL", "parallel"),
    ):
        nsys.insert(table, start=0, end=5, globalTid=global_tid(PROCESS), nameId=nsys.text(name), eventKind=1)
    assert host(nsys.read(), "category", "kind", "name") == [
        ("openacc", "other", "acc_enqueue_kernel"),
        ("openmp", "other", "parallel"),
    ]
