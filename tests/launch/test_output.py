"""Names of outputs: one process each, and never one that is there."""

from pathlib import Path

import pytest

from stepscope.base.ranks import Process
from stepscope.formats.file_names import rank_in_name
from stepscope.launch.output import job_name, reserve_stem, stem_name

ONE = Process(3, 1, 8, "rank-9.node-2-of-4", 1, "PMI")


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0"}, "4711.0"),
        ({"PBS_JOBID": "12[3].sdb/x"}, "12_3_.sdb_x"),
        ({"LSB_JOBID": "7"}, "7"),
        ({"TORCHELASTIC_RUN_ID": "none"}, ""),
        ({"TORCHELASTIC_RUN_ID": "a b"}, "a_b"),
        ({}, ""),
    ],
)
def test_a_job_has_the_number_of_its_batch_system(environment: dict, name: str) -> None:
    assert job_name(environment) == name


def test_readers_take_the_rank_from_the_name_whatever_the_node_is_called() -> None:
    name = stem_name(ONE, {"PBS_JOBID": "12"})
    assert name == "rank3.rank-9.node-2-of-4.12"
    assert rank_in_name(f"{name}.nsys-rep") == 3


def test_no_earlier_output_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "rank0.a.nsys-rep").touch()
    (tmp_path / "rank0.a-2").mkdir()
    (tmp_path / "rank0.a-3x.log").touch()
    with reserve_stem(tmp_path, "rank0.a") as one, reserve_stem(tmp_path, "rank0.a") as other:
        assert (one.name, other.name) == ("rank0.a-3", "rank0.a-4")
    assert not list(tmp_path.glob(".*"))
