"""A real training on four processes over gloo: the one that is late is the one that the others waited for."""

from pathlib import Path

import pytest
from tests.processes import python

from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.store.build import import_source
from stepscope.store.open import Store

LATE_NS = 200_000_000
RANKS = 4

# Torch is imported once, and the ranks are forked.
JOB = """
import os, sys, time, torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile, schedule

folder, ranks = sys.argv[1], int(sys.argv[2])
rank = next((one for one in range(1, ranks) if os.fork() == 0), 0)
torch.set_num_threads(1)
distributed.init_process_group("gloo", init_method=f"file://{folder}/met", rank=rank, world_size=ranks)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
model[1].register_full_backward_hook(lambda *_: time.sleep(late))
wrapped = DistributedDataParallel(model)
write = lambda one: one.export_chrome_trace(f"{folder}/rank{rank}.json")
with profile(schedule=schedule(wait=1, warmup=1, active=4), on_trace_ready=write) as recorded:
    for step in range(6):
        late = 0.2 if rank == 2 and step > 2 else 0
        wrapped(torch.randn(8, 64)).sum().backward()
        recorded.step()
distributed.barrier()
distributed.destroy_process_group()
sys.stdout.flush()
os._exit(0) if rank else [os.wait() for _ in range(1, ranks)]
"""


@pytest.mark.torch
def test_the_rank_that_is_late_in_backward_is_the_one_the_others_wait_for(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    folder = tmp_path / "traces"
    folder.mkdir()
    done = python(str(script), str(folder), str(RANKS))  # fmt: skip
    traces = sorted(folder.glob("rank*.json"))
    assert len(traces) == RANKS, done.stderr[-2000:]
    with Store.open(import_source(traces, tmp_path / "store")) as store:
        rules = store.sql("SELECT DISTINCT clock_rule, clock_offset_ns FROM rank").to_pylist()
        found = store.sql(
            "SELECT match_id, min(matched_ranks) AS ranks, min(last_rank) AS last, "
            "max(wait_ns) FILTER (WHERE rank = 2) AS own_ns, min(wait_ns) FILTER (WHERE rank <> 2) AS ns "
            "FROM collective WHERE operation = 'all_reduce' AND library = 'gloo' "
            "GROUP BY match_id ORDER BY match_id"
        ).to_pylist()
        path = ask(find("critical-path"), store, by="rank").rows()
        (row,) = (row for row in ask(find("what-if"), store, without="straggler").rows() if row["saved_ns"])
    assert path[0]["rank"] == 2
    assert row["change"] == "without a straggler (rank 2)"
    assert row["saved_ns"] > LATE_NS / 2  # of three steps of four, beside what others are late
    assert rules == [{"clock_rule": "same host", "clock_offset_ns": 0}]
    assert {row["ranks"] for row in found} == {RANKS}
    late = [row for row in found if row["last"] == 2 and row["ns"] > LATE_NS / 2]
    assert len(late) == 3  # of four steps the last three
    assert {row["own_ns"] for row in late} == {0}
