"""`host-use`: processors of the host that are idle, taken by others, or spent in communication."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.floor.units import ratio_text
from stepscope.judge.declare import Finding, rule
from stepscope.judge.facts import Facts
from stepscope.judge.host_limits import DEVICE_TIMED, HOST_LIMITS, HOST_PARTS

_SAID = {
    "cpu_utilization": (
        "The job used {part} of the processors that it may use",
        "`stepscope hotspots` of a sampled run says where its threads are: one that works while the others wait, input, or locks. "
        "`stepscope snapshot` has the rest of the picture.",
    ),
    "core_utilization": (
        "The job used {part} of the physical cores, by {report}",
        "`stepscope hotspots` of a sampled run says where its threads are; `stepscope snapshot` has the rest of the picture.",
    ),
    "run_queue_wait": (
        "Threads that could run had no processor for {part} of that time",
        "Where the job runs more threads than it has processors, run fewer (OMP_NUM_THREADS, torch.set_num_threads, num_workers "
        "of the DataLoader, ranks of the node). Where it does not, others on the node take them, or a limit of its "
        "container: give it processors of its own.",
    ),
    "mpi_time": (
        "MPI takes {part} of the elapsed time, by {report}",
        "`stepscope stragglers` of a trace of all ranks says who waits for whom; then larger messages, sent less often, beside "
        "computation.",
    ),
    "ccl_time": (
        "oneCCL takes {part} of the elapsed time, by {report}",
        "`stepscope stragglers` of a trace of all ranks says who waits for whom; then larger messages, sent less often, beside "
        "computation.",
    ),
}


@rule(
    "host-use",
    "Processors that are idle or overcommitted, and time in MPI, by reports on the host.",
    *(limit.threshold for limit in HOST_LIMITS.values()),
)
def host_use(facts: Facts) -> Iterator[Finding]:
    """A metric of the complete run that misses its threshold, the mean of the ranks: of the recorder's own figures or of a
    summary of APS. Use of processors is not judged where a device was timed. What of it a step could save no such metric says.
    """
    parts = facts.scope.sql(HOST_PARTS).to_pylist()
    if not parts:
        return
    on_device = facts.scope.value(DEVICE_TIMED)
    for row in parts:
        limit = HOST_LIMITS.get(row["kind"])
        if limit is None or row["part"] is None or limit.met(row["part"]):
            continue
        if limit.of_host and on_device:
            continue
        title, advice = _SAID[row["kind"]]
        yield Finding(
            title=title.format(part=ratio_text(row["part"]), report=row["report"]),
            metric=limit.threshold.name,
            value=row["part"],
            unit="ratio",
            evidence=(row,),
            advice=advice,
            query="stepscope snapshot SRC",
        )
