"""`stepscope launch` with stand-ins for tools that cannot be installed here."""

import json
import os
from pathlib import Path

import pytest
from tests.launch.other_stand_ins import APS, ROCPROFV3, VTUNE, stand_in


@pytest.fixture(autouse=True)
def _stand_ins_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)


@pytest.mark.parametrize(
    ("name", "body", "environment", "ending"),
    [
        ("vtune", VTUNE, {}, ".vtune"),
        ("amplxe-cl", VTUNE, {}, ".vtune"),
        ("aps", APS, {}, ".aps"),
        ("rocprofv3", ROCPROFV3, {}, "_results.db"),
        ("rocprofv3", ROCPROFV3, {"OLD": "error"}, "_results.pftrace"),
    ],
)
def test_a_run_writes_what_is_expected(
    spawn, tmp_path: Path, name: str, body: str, environment: dict, ending: str
) -> None:
    stand_in(tmp_path / "bin", name, body)
    tool = "vtune" if name == "amplxe-cl" else name
    ran = spawn(
        *("launch", "--tool", tool, "-o", str(tmp_path / "out"), "--"),
        *("sh", "-c", "echo ran; exit 7"),
        **environment,
    )
    assert (ran.code, ran.out) == (7, "ran\n")
    (path,) = (tmp_path / "out").iterdir()
    found = path.name
    assert ran.err == f"stepscope launch: wrote {path}\n"
    assert found.startswith("rank0.")
    assert found.endswith(ending)


def test_a_result_in_which_nothing_was_collected_is_reported(spawn, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "vtune", VTUNE)
    ran = spawn(
        *("launch", "--tool", "vtune", "-o", str(tmp_path / "out"), "--", "true"),
        NOTHING="1",
    )
    assert ran.code == 0
    assert "is incomplete: nothing was collected" in ran.err


def test_raw_results_are_finished_on_another_node(spawn, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "vtune", VTUNE)
    out = tmp_path / "out"
    for _ in range(2):
        spawn("launch", "--tool", "vtune", "-o", str(out), "--", "true")
    results = sorted(out.iterdir())
    ran = spawn("launch", "--finalize", str(out))
    assert ran.code == 0
    assert ran.err.splitlines() == [
        f"{tmp_path}/bin/vtune -finalize -result-dir={result} -search-dir=/" for result in results
    ]
    assert all((result / "sqlite-db").is_dir() for result in results)
    again = spawn("launch", "--finalize", str(out))
    assert again.code == 1
    assert "[nothing-to-finalize]" in again.err


def test_a_result_that_its_tool_cannot_finish_is_an_error(spawn, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "vtune", "sys.exit(4)")
    (tmp_path / "out/rank0.here.vtune/data.0").mkdir(parents=True)
    ran = spawn("launch", "--finalize", str(tmp_path / "out"))
    assert (ran.code, "vtune ended with exit code 4 [not-finalized]" in ran.err) == (1, True)


def test_metrics_are_listed_by_the_tool_that_records_them(spawn, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", "ncu", "print(*words)")
    stand_in(tmp_path / "bin", "nvprof", "print(*words)")
    ran = spawn("launch", "--tool", "ncu", "--query-metrics", "--", "--chips", "ga100")
    assert (ran.code, ran.out) == (0, "--query-metrics --chips ga100\n")
    ran = spawn("launch", "--tool", "nvprof", "--query-metrics")
    assert (ran.code, ran.out) == (0, "--query-metrics --query-events\n")
    ran = spawn("launch", "--tool", "nsys", "--query-metrics")
    assert (ran.code, "nsys lists no metrics" in ran.err) == (2, True)


def recording(path: Path, *kernels: tuple[str, int]) -> str:
    """A trace of torch.profiler with these kernels, each with its time in µs."""
    one = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    events = [{**one, "name": name, "ts": 1000 * at, "dur": dur} for at, (name, dur) in enumerate(kernels)]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return str(path)


def test_the_heaviest_kernels_of_a_recording_are_recorded(run, tmp_path: Path) -> None:
    earlier = recording(
        tmp_path / "t.json",
        ("sgemm_nn", 5),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 9),
        ("void f<4, a::Mul<float> >(int)", 7),
        ("void vllm::cross_device_reduce_1stage<float, 2>(float*)", 8),
        ("add", 1),
        ("sgemm_nn", 5),
    )
    words = ("launch", "--tool", "ncu", "--dry-run", "--kernels-from", earlier, "--top", "2")
    out = run(*words, "--set", "roofline", "--metrics", "ipc", "--", "./app").out
    assert r"--kernel-name=regex:(^|[ :])(sgemm_nn(\(|$)|f<.*Mul.*float)" in out
    assert "--metrics=smsp__inst_executed.avg.per_cycle_active --set=roofline" in out


def test_a_process_that_is_not_chosen_reads_no_recording(run, tmp_path: Path) -> None:
    words = ("launch", "--tool", "ncu", "--dry-run", "--kernels-from", str(tmp_path / "none"))
    assert run(*words, "--ranks", "1", "--", "./app").out == "./app\n"


def test_where_the_recording_cannot_be_read_the_command_runs_alone(
    spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = recording(tmp_path / "t.json", ("ncclDevKernel_AllReduce", 9))
    for source, why in (
        (earlier, "has no kernel that can be run again alone"),
        (str(tmp_path / "none"), "none: no such file or folder"),
    ):
        # What reading the recording wants of this process (one thread of linear algebra) is not the command's.
        command = ("--", "sh", "-c", "echo ran ${OPENBLAS_NUM_THREADS-}; exit 7")
        monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
        ran = spawn("launch", "--tool", "ncu", "--kernels-from", source, *command)
        assert (ran.code, ran.out) == (7, "ran\n")
        assert "stepscope launch: the command runs unprofiled" in ran.err
        assert why in ran.err


def test_every_process_refuses_what_a_tool_cannot_do(run) -> None:
    words = ("launch", "--tool", "nsys", "--ranks", "1", "--kernels-from", "none", "--", "./app")
    ran = run(*words)
    assert (ran.code, "nsys has no --kernels-from" in ran.err) == (2, True)
