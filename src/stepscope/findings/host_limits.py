"""Thresholds for metrics of the host: one for each metric, with its source."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.findings.declare import Threshold


@dataclass(frozen=True, slots=True)
class HostLimit:
    """The target of a metric.

    Args:
        threshold: the share (1 is 100 %) that it is compared with.
        is_minimum: whether the metric should be at least that; else at most that.
        of_host: whether it means nothing if a device does the work: the host need not be busy then.
    """

    threshold: Threshold
    is_minimum: bool = False
    of_host: bool = False

    def met(self, part: float) -> bool:
        """Whether a value meets the target."""
        return part >= self.threshold.value if self.is_minimum else part <= self.threshold.value


_LIBRARY = "Intel's APS guide: more than 15 % of the time needs a look"

HOST_LIMITS = {
    "cpu_utilization": HostLimit(
        Threshold(
            "use of the processors that the process may use",
            0.80,
            "ratio",
            "ours: APS' threshold of cores, for these processors",
        ),
        is_minimum=True,
        of_host=True,
    ),
    "core_utilization": HostLimit(
        Threshold("use of physical cores", 0.80, "ratio", "APS: below 80 % it says so"), is_minimum=True
    ),
    "run_queue_wait": HostLimit(
        Threshold(
            "time in which threads could run and no processor was free",
            0.10,
            "ratio",
            "ours: beyond it threads are in each other's way",
        )
    ),
    "mpi_time": HostLimit(Threshold("time in MPI, of the elapsed time", 0.15, "ratio", _LIBRARY)),
    "ccl_time": HostLimit(Threshold("time in oneCCL, of the elapsed time", 0.15, "ratio", _LIBRARY)),
}
"""By the kind of the metric (`host_metric.kind`)."""

DEVICE_TIMED = "SELECT EXISTS (SELECT 1 FROM phase WHERE device_mean_ns IS NOT NULL)"
"""Whether work of a device was timed."""
HOST_PARTS = """
    SELECT kind, report, avg(coalesce(share_ratio, CASE unit WHEN '%' THEN value / 100 END)) AS part
    FROM host_metric WHERE subject IS NULL AND kind IS NOT NULL GROUP BY kind, report ORDER BY kind, report
"""
"""Metrics of the complete run as shares, the mean of the ranks."""
