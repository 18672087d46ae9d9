"""Which recordings that lie together are of one job, each rule on files of one or two events."""

import json
from pathlib import Path

import pytest
from tests.bundled.nvprof.databases import Nvprof
from tests.formats.nsys.exports import Nsys
from tests.small_traces import H100, MI300
from tests.small_traces import write_trace as write

from stepscope.formats.container import Member
from stepscope.formats.file_names import name_of, place_of
from stepscope.formats.jobs import MAX_JOBS
from stepscope.formats.kineto.metadata import device_names
from stepscope.formats.runs import find_run

pytestmark = pytest.mark.filterwarnings("error")


def jobs(*paths: Path) -> dict[str, list[tuple[str, int, int, str]]]:
    """File, rank, span and rule of each job's recordings."""
    return {
        job.name: [(one.member.path.name, one.rank, one.span, one.rule) for one in job.recordings]
        for job in find_run(*paths).jobs
    }


def about(*paths: Path) -> dict[str, str]:
    return {job.name: job.about for job in find_run(*paths).jobs}


def test_single_rank_traces_of_different_devices_are_two_jobs(tmp_path):
    write(tmp_path / "bert_h100.json", device=H100)
    write(tmp_path / "bert_mi300.json", device=MI300)
    assert jobs(tmp_path) == {
        "bert_h100": [("bert_h100.json", 0, 0, "single")],
        "bert_mi300": [("bert_mi300.json", 0, 0, "single")],
    }
    assert about(tmp_path) == {"bert_h100": H100, "bert_mi300": MI300}


def test_a_trace_without_a_device_is_not_of_a_job_with_one(tmp_path):
    write(tmp_path / "cpu.json", device="")
    write(tmp_path / "gpu.json")
    assert about(tmp_path) == {"cpu": "no device", "gpu": H100}


def test_devices_whose_driver_gives_no_name_are_told_apart_by_what_they_can(tmp_path):
    for name, sms in (("a", 304), ("b", 110)):
        listed = [{"id": 0, "name": "", "computeMajor": 9, "computeMinor": 4, "numSms": sms}]
        write(tmp_path / f"{name}.json", device=None, deviceProperties=listed)
    assert about(tmp_path)["a"].endswith("9.4 with 304 multiprocessors")


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({}, "device of unknown model"),
        ({"numSms": 80}, "device of unknown model: 80 multiprocessors"),
        ({"computeMajor": 7}, "device of unknown model: 7.0"),
    ],
)
def test_of_a_device_without_a_name_what_is_known_is_said(stated, words):
    listed = [{"id": 0, **stated}]
    assert device_names({"deviceProperties": listed}) == (words,)


def test_a_member_of_an_archive_lies_in_it_whatever_its_name_would_lead_to(tmp_path):
    path = tmp_path / "run.zip"
    for name in ("../../control.json", "/control.json", "./control.json"):
        member = Member(path, name, name, 1)
        assert (place_of(member), name_of(member)) == (path / "control.json", "control.json")
    assert name_of(Member(path, "..", "..", 1)) == "run.zip"


@pytest.mark.parametrize(("capability", "number"), [("7.5", 2), ("9.0", 1), ("n/a", 1)])
def test_counters_of_a_device_of_another_compute_capability_are_of_another_job(tmp_path, capability, number):
    listed = [{"id": 0, "name": H100, "computeMajor": 9, "computeMinor": 0}]
    write(tmp_path / "trace.json", device=None, deviceProperties=listed)
    (tmp_path / "counted.csv").write_text(
        '"ID","Process ID","Kernel Name","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
        f'"0","1","gemm","0","{capability}","GPU Speed Of Light Throughput","Duration","ns","5"\n'
    )
    found = about(tmp_path)
    assert len(found) == number
    if number == 2:
        assert found == {"counted.csv": "compute capability 7.5", "trace": H100}


def test_world_sizes_tell_jobs_apart(tmp_path):
    for world in (2, 8):
        for rank in range(world):
            write(tmp_path / f"of{world}" / f"rank{rank}.json", rank=rank, world=world)
    found = jobs(tmp_path)
    assert {name: [rank for _, rank, _, _ in files] for name, files in found.items()} == {
        "of2": [0, 1],
        "of8": list(range(8)),
    }
    assert about(tmp_path) == {"of2": "world size 2", "of8": "world size 8"}


@pytest.mark.parametrize(("rank", "world"), [(3, 8), (5, None)])
def test_rank_of_another_world_or_beyond_it_is_not_of_the_job_of_rank_0_of_2(tmp_path, rank, world):
    write(tmp_path / "a.json", rank=0, world=2)
    write(tmp_path / "b.json", rank=rank, world=world)
    assert len(jobs(tmp_path)) == 2


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"cuda_runtime_version": 12040}, {"cuda_runtime_version": 12080}),
        ({"pytorch_version": "2.4.0"}, {"pytorch_version": "2.8.0"}),
    ],
)
def test_versions_tell_jobs_apart(tmp_path, mine, theirs):
    write(tmp_path / "a.json", rank=0, world=2, **mine)
    write(tmp_path / "b.json", rank=1, world=2, **theirs)
    (words, _) = about(tmp_path).values()
    assert words == " ".join(map(str, *mine.items()))


def test_ranks_on_several_nodes_that_start_together_are_one_job(tmp_path):
    for rank in range(8):
        write(tmp_path / f"rank{rank}.json", rank=rank, world=8, minute=rank / 10, hostname=f"node{rank // 4}")
    (files,) = jobs(tmp_path).values()
    assert [rank for _, rank, _, _ in files] == list(range(8))


def test_ranks_recorded_hours_apart_are_not_of_one_job(tmp_path):
    write(tmp_path / "monday" / "a.json", rank=0, world=2)
    write(tmp_path / "tuesday" / "a.json", rank=1, world=2, minute=1440)
    assert about(tmp_path) == {"monday": "2023-11-14 22:13:20 UTC", "tuesday": "2023-11-15 22:13:20 UTC"}


@pytest.mark.parametrize("minute", [1, 1440])
def test_one_rank_at_different_times_is_cycles_of_one_recording(tmp_path, minute):
    write(tmp_path / "b.json", rank=0, world=1)
    write(tmp_path / "a.json", rank=0, world=1, minute=minute)
    (files,) = jobs(tmp_path).values()
    assert files == [("b.json", 0, 0, "distributedInfo"), ("a.json", 0, 1, "distributedInfo")]


def test_one_rank_twice_at_the_same_time_is_of_two_jobs(tmp_path):
    for name in ("a", "b"):
        for rank in (0, 1):
            write(tmp_path / f"{name}_{rank}.json", rank=rank, world=2, lasts_minutes=1)
    write(tmp_path / "b_0.json", rank=0, world=2, minute=0.5)
    assert jobs(tmp_path) == {
        "a": [("a_0.json", 0, 0, "distributedInfo"), ("a_1.json", 1, 0, "distributedInfo")],
        "b": [("b_0.json", 0, 0, "distributedInfo"), ("b_1.json", 1, 0, "distributedInfo")],
    }


def test_ranks_go_with_those_that_the_same_request_recorded(tmp_path):
    for pid, (rank, request) in enumerate([(0, "x"), (0, "y"), (1, "y"), (1, "x")]):
        write(
            tmp_path / f"libkineto_activities_{pid + 70}.json", rank=rank, world=2, lasts_minutes=1,
            group_trace_id=request,
        )  # fmt: skip
    assert [[name[-7:-5] for name, *_ in files] for files in jobs(tmp_path).values()] == [["70", "73"], ["71", "72"]]


def test_one_rank_on_two_hosts_is_of_two_jobs(tmp_path):
    write(tmp_path / "a.json", rank=0, world=1, hostname="node1")
    write(tmp_path / "b.json", rank=0, world=1, hostname="node2", minute=30)
    assert about(tmp_path) == {"a": "node1", "b": "node2"}


def test_runs_of_a_script_into_one_log_folder_are_told_apart_by_their_process(tmp_path):
    write(tmp_path / "node_77.1700000000000.pt.trace.json")
    write(tmp_path / "node_99.1700009000000.pt.trace.json", minute=150)
    assert sorted(jobs(tmp_path)) == ["node_77", "node_99"]


def test_files_that_say_no_rank_and_overlap_are_ranks_in_the_order_of_their_names(tmp_path):
    write(tmp_path / "b.json", lasts_minutes=1)
    write(tmp_path / "a.json", lasts_minutes=1, minute=0.5)
    (files,) = jobs(tmp_path).values()
    assert files == [("a.json", 0, 0, "order"), ("b.json", 1, 0, "order")]


def test_files_that_say_no_rank_are_ranks_only_of_what_the_same_tool_recorded(tmp_path):
    write(tmp_path / "a.json")
    Nsys(tmp_path / "b.sqlite").launch(1, 1, "k", 2, 3)
    Nvprof(tmp_path / "c.sql").launch(1, 1, "k", 2, 3).written()
    found = about(tmp_path)
    assert [*found] == ["a", "b", "c"]
    assert {name: words.rsplit(", ", 1)[-1] for name, words in found.items() if name != "a"} == {
        "b": "Nsight Systems",
        "c": "nvprof",
    }


def test_tools_whose_files_state_ranks_recorded_one_job(tmp_path):
    write(tmp_path / "rank0.json", rank=0, world=2)
    Nsys(tmp_path / "rank1.sqlite").launch(1, 1, "k", 2, 3)
    assert list(jobs(tmp_path).values()) == [
        [("rank0.json", 0, 0, "distributedInfo"), ("rank1.sqlite", 1, 0, "file name")]
    ]


def test_a_file_that_says_no_rank_is_none_of_a_world_whose_ranks_are_all_there(tmp_path):
    for rank in range(2):
        write(tmp_path / f"of2_{rank}.json", rank=rank, world=2)
    write(tmp_path / "another.json")
    assert [len(files) for files in jobs(tmp_path).values()] == [1, 2]
    (tmp_path / "of2_1.json").unlink()
    assert [len(files) for files in jobs(tmp_path).values()] == [2]


def test_files_that_say_no_rank_and_follow_one_another_are_cycles(tmp_path):
    write(tmp_path / "step_100.json", minute=0)
    write(tmp_path / "step_200.json", minute=2)
    (files,) = jobs(tmp_path).values()
    assert files == [("step_100.json", 0, 0, "single"), ("step_200.json", 0, 1, "single")]


def test_workers_of_one_name_in_several_folders_are_ranks_where_they_overlap(tmp_path):
    for folder in ("node2", "node10"):
        write(tmp_path / folder / "trace.json", lasts_minutes=1)
    (job,) = find_run(tmp_path).jobs
    assert [(one.member.path.parent.name, one.rank) for one in job.recordings] == [("node2", 0), ("node10", 1)]


def test_a_later_file_links_what_was_found_apart(tmp_path):
    write(tmp_path / "a" / "first.json", rank=0, world=2)
    write(tmp_path / "b" / "second.json", rank=1, world=2, minute=60)
    write(tmp_path / "b" / "third.json", rank=0, world=2, minute=60)
    (files,) = jobs(tmp_path).values()
    assert [(name, rank, span) for name, rank, span, _ in files] == [
        ("first.json", 0, 0), ("third.json", 0, 1), ("second.json", 1, 0),
    ]  # fmt: skip


def test_what_a_job_measured_of_itself_joins_the_traces_beside_it(tmp_path):
    for name, world in (("a", 1), ("b", 2)):
        write(tmp_path / name / "trace.json", rank=0, world=world)
        profile = {"format": "stepscope.inline", "rank": 0, "world_size": world, "timeline": {}}
        (tmp_path / name / "x.prof.json").write_text(json.dumps(profile))
    assert {name: len(files) for name, files in jobs(tmp_path).items()} == {"a": 2, "b": 2}


@pytest.mark.parametrize(("of_traces", "jobs_there"), [((41,), 2), ((42,), 1), ((41, 42), 1)])
def test_what_a_run_measured_of_itself_does_not_join_the_trace_of_another_run(tmp_path, of_traces, jobs_there):
    """`record --trace` and `record --phases` into one folder: neither is about the steps of the other."""
    for number, pid in enumerate(of_traces):
        write(tmp_path / f"train.step{number}-0-of-1.json", device=None, minute=number, stepscope={"pid": pid})
    timed = {"format": "stepscope.phases", "version": 1, "counted_steps": 9, "step": {"mean_ns": 5.0}}
    timed |= {"rank": 0, "world_size": 1, "host_name": "vm", "pid": 42}
    (tmp_path / "vm.0.phases.json").write_text(json.dumps(timed))
    assert len(jobs(tmp_path)) == jobs_there


def test_files_named_one_by_one_are_joined_where_they_are_of_one_job(tmp_path):
    for rank in (0, 1):
        write(tmp_path / f"rank{rank}.json", rank=rank, world=2)
    write(tmp_path / "sub" / "other.json", device=MI300)
    found = jobs(tmp_path / "rank1.json", tmp_path / "rank0.json", tmp_path / "sub")
    assert [[rank for _, rank, _, _ in files] for files in found.values()] == [[0, 1], [0]]
    assert list(found) == ["rank", "sub"]


def test_jobs_that_share_a_folder_and_a_name_have_names_of_their_own(tmp_path):
    write(tmp_path / "trace.json", device=H100)
    write(tmp_path / "trace.pt.trace.json", device=MI300)
    assert sorted(jobs(tmp_path)) == ["trace (1)", "trace (2)"]


def test_a_folder_of_many_jobs_is_told_apart_without_comparing_each_with_all(tmp_path):
    for number in range(MAX_JOBS + 20):
        write(tmp_path / f"{number}.json", rank=0, world=1, lasts_minutes=1)
    assert len(jobs(tmp_path)) == MAX_JOBS + 20


def test_a_file_that_several_paths_lead_to_is_read_once(tmp_path, monkeypatch):
    write(tmp_path / "a.json")
    (tmp_path / "latest.json").symlink_to("a.json")
    monkeypatch.chdir(tmp_path)
    found = jobs(Path("a.json"), tmp_path / "a.json", tmp_path)
    assert found == {"a": [("a.json", -1, 0, "single")]}


def test_phases_and_inline_events_of_one_process_are_of_one_job(tmp_path):
    process = {"host_name": "node1", "pid": 7, "rank": 0, "world_size": 1, "start_epoch_ns": 10**18}
    for kind, more in (("inline", {"timeline": {}}), ("phases", {"counted_steps": 9, "step": {"mean_ns": 5.0}})):
        document = {"format": f"stepscope.{kind}", "version": 1, **process, **more}
        ending = "prof" if kind == "inline" else kind
        (tmp_path / f"node1.0.{ending}.json").write_text(json.dumps(document))
    (files,) = jobs(tmp_path).values()
    assert [(rank, span) for _, rank, span, _ in files] == [(0, 0), (0, 1)]


@pytest.mark.traces
def test_shared_traces_are_told_apart_as_they_were_recorded(tmp_path, shared_traces):
    kineto = shared_traces / "kineto"
    for name in ("bert_small_h100", "bert_small_mi300"):
        (tmp_path / f"{name}.json.gz").symlink_to(kineto / name / "trace.json.gz")
    assert about(tmp_path) == {"bert_small_h100": "NVIDIA H100 80GB HBM3", "bert_small_mi300": "AMD Instinct MI300X VF"}
    (files,) = jobs(kineto / "dlrm_8rank_v100").values()
    assert [rank for _, rank, _, _ in files] == list(range(8))
    (files,) = jobs(kineto / "resnet50_v100").values()
    assert [(rank, span) for _, rank, span, _ in files] == [(0, 0), (0, 1)]
