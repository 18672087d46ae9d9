"""One method per question about time. Made by docs/generate.py from the declarations; do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from stepscope.api.asked import Asks

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from stepscope.api.asked import AskedOfTime
    from stepscope.query.table import Table


class TimeQuestions(Asks):
    """The questions about time as typed methods. `Trace` answers them.

    Every method also takes the arguments of `AskedOfTime`.

    Raises:
        UsageError: a rank, step, column or choice does not exist.
    """

    def steps(self, *, by: Literal["step", "mean"] = "step", **asked: Unpack[AskedOfTime]) -> Table:
        """Where did the time of each training step go?

        Args:
            by: `step` for a row a step, `mean` for the mean over the steps of a recording that count.

        Columns: rank, span, step, steps, start_ns, kernel_ns, memcpy_ns, memset_ns, communication_ns, runtime_ns,
        dataloader_ns, cpu_exec_ns, other_ns, total_ns, complete, counted, left_out.
        """
        return self.ask("steps", by=by, **asked)

    def device_time(self, *, by: Literal["device", "step"] = "device", **asked: Unpack[AskedOfTime]) -> Table:
        """How much of each device's time was computation, exposed communication, exposed copies or idle?

        Args:
            by: `device` for a row a device, `step` for a row a device and step.

        Columns: rank, span, device, step, span_ns, computation_ns, communication_ns, exposed_communication_ns, copy_ns,
        exposed_copy_ns, busy_ns, idle_ns, events, unlinked_ns, unlinked_ratio.
        """
        return self.ask("device-time", by=by, **asked)

    def idle(self, *, kernel_wait_ns: int = 30000, **asked: Unpack[AskedOfTime]) -> Table:
        """When was each device and stream idle, and why?

        Args:
            kernel_wait_ns: a gap shorter than this is the device's own delay between two pieces of work (ns).

        Columns: rank, span, device, stream, cause, host, frame, gaps, idle_ns, share_ratio, max_gap_ns.
        """
        return self.ask("idle", kernel_wait_ns=kernel_wait_ns, **asked)

    def queue(
        self, *, by: Literal["stream", "step", "time"] = "stream", limit: int = 1024, **asked: Unpack[AskedOfTime]
    ) -> Table:
        """How much work was queued ahead on each stream, and for how long was the queue empty?

        Args:
            by: `stream` for a row a stream, `step` for one a step, `time` for at most 100 pieces of time.
            limit: launches outstanding on a stream at which a further launch call waits.

        Columns: rank, span, device, stream, step, start_ns, window_ns, started, unlinked, mean_queued, max_queued,
        max_launches, blocked_ns, queued_ns, running_ns, starved_ns, empty_ratio.
        """
        return self.ask("queue", by=by, limit=limit, **asked)

    def utilization(self, *, by: Literal["device", "step", "time"] = "device", **asked: Unpack[AskedOfTime]) -> Table:
        """How much of the time did kernels run, and how much of the device did they fill?

        Args:
            by: `device` for a row a device, `step` for one a step, `time` for at most 100 pieces of time.

        Columns: rank, span, device, step, start_ns, window_ns, kernel_ns, utilization_ratio, sm_efficiency_ratio,
        occupancy_ratio, described_ratio.
        """
        return self.ask("utilization", by=by, **asked)

    def rank_overview(self, **asked: Unpack[AskedOfTime]) -> Table:
        """How do the ranks compare: step time, computation, exposed communication, copies and idle time?

        Columns: rank, steps, step_ns, span_ns, computation_ns, computation_ratio, exposed_communication_ns,
        exposed_communication_ratio, exposed_copy_ns, exposed_copy_ratio, idle_ns, idle_ratio, utilization_ratio,
        waiting_ns, waiting_ratio, stage, bubble_ns, bubble_ratio, differs, host.
        """
        return self.ask("rank-overview", **asked)

    def rank_map(
        self,
        *,
        measure: Literal[
            "step",
            "computation",
            "exposed-communication",
            "communication",
            "exposed-copies",
            "copies",
            "idle",
            "kernels",
            "waiting",
            "bubble",
        ] = "step",
        **asked: Unpack[AskedOfTime],
    ) -> Table:
        """How does one measure differ over ranks and steps?

        Args:
            measure: what is shown of each step: its length, parts of `rank-overview`, communication or copies hidden or
                not, the time in which a kernel ran, that of waiting for other ranks in collectives, or the bubble, in
                which it waited for other stages of its pipeline.

        Columns: rank, span, step, value_ns, share_ratio, counted.
        """
        return self.ask("rank-map", measure=measure, **asked)

    def stragglers(
        self, *, by: Literal["rank", "step", "cause", "collective"] = "rank", **asked: Unpack[AskedOfTime]
    ) -> Table:
        """Which ranks do the others wait for in collectives, and why are these late?

        Args:
            by: a row a rank; a rank and step; a rank and cause; or a collective.

        Columns: rank, step, cause, start_ns, operation, group, message_bytes, late, last, last_ratio,
        waited_by_others_ns, charged_ns, late_ns, step_ratio, share_ratio, longest_ns, longest_rank, waited_ns, why,
        input_ns, computation_ns, copies_ns, communication_ns, garbage_collection_ns, compilation_ns, host_ns,
        profiler_ns, not_recorded_ns, before_ns.
        """
        return self.ask("stragglers", by=by, **asked)

    def overlap(self, *, by: Literal["device", "step", "kernel"] = "device", **asked: Unpack[AskedOfTime]) -> Table:
        """How much communication is hidden under computation, and which kernels does it slow?

        Args:
            by: `device` for a row a device, `step` for a row a device and step, `kernel` for a row a kernel that ran
                both beside communication and without.

        Columns: rank, span, device, step, communication_ns, hidden_ns, exposed_ns, overlap_ratio, computation_ns,
        beside_ratio, name, operator, grid, block, input_dims, beside, alone, alone_mean_ns, beside_mean_ns,
        slower_ratio, slower_low_ratio, slower_high_ratio, longer_ns.
        """
        return self.ask("overlap", by=by, **asked)

    def kernel_types(self, *, by: Literal["all", "device", "step"] = "all", **asked: Unpack[AskedOfTime]) -> Table:
        """How long did computation, communication and copies run alone, and how long at once?

        Args:
            by: `all` for all devices together, `device` for each, `step` for each device and step.

        Columns: rank, span, device, step, types, time_ns, span_ratio, busy_ratio.
        """
        return self.ask("kernel-types", by=by, **asked)

    def device_metrics(
        self, *, by: Literal["metric", "step", "time"] = "metric", **asked: Unpack[AskedOfTime]
    ) -> Table:
        """How busy were multiprocessors, tensor cores, memory and links in samples of the hardware?

        Args:
            by: `metric` for a row a metric, `step` for one a step, too, `time` for at most 100 pieces of time.

        Columns: rank, span, device, step, start_ns, window_ns, metric, unit, samples, mean, min, max.
        """
        return self.ask("device-metrics", by=by, **asked)

    def counters(self, **asked: Unpack[AskedOfTime]) -> Table:
        """What did each counter measure of each kernel, or over time, under its own name?

        Columns: name, pid, counter, samples, total, mean, min, max.
        """
        return self.ask("counters", **asked)

    def memory(
        self,
        *,
        by: Literal["device", "category", "operator", "module", "stack", "step", "pool", "oom"] = "device",
        at_ns: int | None = None,
        **asked: Unpack[AskedOfTime],
    ) -> Table:
        """How much memory was allocated, when was that most, and what was it for?

        Args:
            by: what a row is about: a device; a part of what is alive at the moment, by what it is for, or by what
                allocated it; a step; a pool of the allocator; or a time that the device had too little.
            at_ns: the moment whose memory is shared out (ns since the run's start); by default that of the peak.

        Columns: rank, span, kind, device, source, at_ns, step, category, operator, module, stack, pool, private_pool,
        stream, segments, requested_bytes, device_free_bytes, peak_bytes, bytes, share_ratio, allocations,
        allocated_bytes, pending_bytes, reserved_bytes, device_bytes, free_bytes, largest_free_bytes, rounding_bytes,
        unused_ratio, start_bytes, end_bytes, growth_bytes, made, made_bytes, kept_bytes, peak_reserved_bytes,
        out_of_memory.
        """
        return self.ask("memory", by=by, at_ns=at_ns, **asked)

    def memory_curve(self, *, points: int = 400, **asked: Unpack[AskedOfTime]) -> Table:
        """How did allocated and reserved memory change over time?

        Args:
            points: rows of a device at most; 0 for a row an event.

        Columns: rank, span, kind, device, time_ns, step, allocated_bytes, reserved_bytes, parameters_bytes,
        gradients_bytes, optimizer_state_bytes, activations_bytes, temporaries_bytes, unknown_bytes, events.
        """
        return self.ask("memory-curve", points=points, **asked)

    def allocations(
        self,
        *,
        at_ns: int | None = None,
        at_peak: bool = False,
        operator: str | None = None,
        category: str | None = None,
        **asked: Unpack[AskedOfTime],
    ) -> Table:
        """Which allocations were made, for what, and how long did each live?

        Args:
            at_ns: only what is alive at this moment (ns since the run's start); by default all that is alive at some
                moment of what is asked for.
            at_peak: only what is alive when most is allocated.
            operator: only those that this operator made.
            category: only those that are for this.

        Columns: rank, span, kind, device, bytes, made_ns, released_ns, lifetime_ns, category, operator, module,
        made_step, released_step, stack, address.
        """
        return self.ask("allocations", at_ns=at_ns, at_peak=at_peak, operator=operator, category=category, **asked)
