import os
import subprocess
import sys

import pytest

PROFILE = """
from stepscope.record.traces.profiling import quieten_profiler
quieten_profiler()
import os
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU]):
    pass
print(os.environ["KINETO_LOG_LEVEL"])
"""


@pytest.mark.torch
@pytest.mark.parametrize(("set_before", "level"), [({}, "6"), ({"KINETO_LOG_LEVEL": "0"}, "0")])
def test_the_profilers_library_announces_nothing_unless_the_job_has_set_its_level(
    set_before: dict[str, str], level: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "KINETO_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", PROFILE],
        env={**environment, **set_before},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == f"{level}\n"
    assert (done.stderr == "") is (level == "6")
