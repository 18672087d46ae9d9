import gzip
import json
import os
import sys
from pathlib import Path

import pytest
from tests.processes import python
from tests.record.small_job import batches, make_model, train, untouched

from stepscope.record.traces.tracing import trace

PROFILE = """
from stepscope.record.traces.profiling import quieten_profiler
quieten_profiler()
import os
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU]):
    pass
print(os.environ["KINETO_LOG_LEVEL"])
"""


@pytest.mark.sweep(2)
@pytest.mark.torch
@pytest.mark.parametrize(("set_before", "level"), [({}, "6"), ({"KINETO_LOG_LEVEL": "0"}, "0")])
def test_the_profilers_library_announces_nothing_unless_the_job_has_set_its_level(
    set_before: dict[str, str], level: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "KINETO_LOG_LEVEL"}
    done = python("-c", PROFILE, env={**environment, **set_before}, check=True)
    assert done.stdout == f"{level}\n"
    assert (done.stderr == "") is (level == "6")


@pytest.mark.torch
def test_a_job_that_leaves_past_its_exit_handlers_has_the_trace_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[tuple[int, bool]] = []

    def leave(status: int) -> None:
        left.append((status, (tmp_path / "job-0-of-1.json.gz").exists()))

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr("stepscope.record.job.exit_reason._reason", {})
    model = make_model()
    with trace(tmp_path, name="job", model=model) as tracer:

        def inside(number: int) -> None:
            if number == 4:
                os._exit(3)

        train(model, tracer.iterate(batches(5)), inside=inside)
    assert left == [(3, True)]
    assert untouched(model)
    with gzip.open(tmp_path / "job-0-of-1.json.gz", "rt") as file:
        content = json.load(file)
    names = {event.get("name") for event in content["traceEvents"]}
    assert {"ProfilerStep#2", "ProfilerStep#3"} <= names
    assert content["stepscope"]["ended"] == {"exit_code": 3}


@pytest.mark.torch
def test_a_profile_function_of_the_jobs_is_there_again_after_a_trace_with_stacks(tmp_path: Path) -> None:
    there: list[bool] = []

    def profiles(*_: object) -> None: ...

    before = sys.getprofile()
    sys.setprofile(profiles)
    try:
        with trace(tmp_path, name="job", model=(model := make_model()), active=1, stack=True) as tracer:
            train(model, tracer.iterate(batches(6)), inside=lambda _: there.append(sys.getprofile() is profiles))
    finally:
        sys.setprofile(before)
    assert there == [True, True, False, True, True, True]
