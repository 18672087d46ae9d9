"""One method per question about recording. Made by docs/generate.py from the declarations; do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from stepscope.api.asked import Asks

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from stepscope.api.asked import AskedOfRecording
    from stepscope.query.table import Table


class RecordingQuestions(Asks):
    """The questions about recording as typed methods. `Trace` answers them.

    Every method also takes the arguments of `AskedOfRecording`.

    Raises:
        UsageError: a rank, step, column or choice does not exist.
    """

    def summary(self, **asked: Unpack[AskedOfRecording]) -> Table:
        """Where does the step time go, and what should I look at next?

        Columns: section, item, rank, time_ns, share_ratio, count, severity, text.
        """
        return self.ask("summary", **asked)

    def critical_path(
        self,
        *,
        by: Literal["kind", "name", "operator", "module", "rank", "step", "piece"] = "kind",
        **asked: Unpack[AskedOfRecording],
    ) -> Table:
        """Which chain of work and waits decided how long the steps took?

        Args:
            by: what a row is: a kind of work, a name, an operator, a module, a rank, a step, or a piece of the path.

        Columns: span, step, rank, start_ns, kind, class, name, operator, module, pieces, path_ns, step_ns, share_ratio,
        largest, largest_part_ns, host_ns, input_ns, launch_ns, computation_ns, transfer_ns, communication_ns,
        waiting_ns, copy_ns, synchronization_ns, idle_ns, total_ns.
        """
        return self.ask("critical-path", by=by, **asked)

    def what_if(self, *, faster: str = "", without: str = "", **asked: Unpack[AskedOfRecording]) -> Table:
        """How long would a step take if something were faster, or were not there?

        Args:
            faster: classes or name patterns of kernels and how many times as fast they would be: GEMM=2,*softmax*=1.5;
                by default each class is tried.
            without: communication, input, launch or straggler, separated by commas; by default each is tried.

        Columns: span, change, step_ns, saved_ns, saved_ratio, at_least_ns, at_most_ns.
        """
        return self.ask("what-if", faster=faster, without=without, **asked)

    def hotspots(
        self,
        *,
        by: Literal["function", "library", "line", "thread", "top-down", "bottom-up"] = "function",
        least_ratio: float = 0.001,
        **asked: Unpack[AskedOfRecording],
    ) -> Table:
        """In which functions of the host does the time go, and who calls them?

        Args:
            by: what a row is: a `function`, a `library`, a source `line`, a `thread`, or a place in a tree: `top-down`
                below what called it, `bottom-up` below what it called.
            least_ratio: leave out what has less than this part of everything, with all that is below it in a tree.

        Columns: function, clock, library, file, line, rank, pid, tid, self_ns, self_ratio, total_ns, total_ratio,
        self_samples, total_samples, instructions, cpi, depth, node, parent.
        """
        return self.ask("hotspots", by=by, least_ratio=least_ratio, **asked)

    def onednn(
        self,
        *,
        by: Literal["primitive", "implementation", "shape"] = "primitive",
        limits: Literal["datasheet", "measured"] = "datasheet",
        processor: str | None = None,
        **asked: Unpack[AskedOfRecording],
    ) -> Table:
        """Which primitives of oneDNN took how long, in which implementation, and how fast were they?

        Args:
            by: what a row is: a `primitive` and direction, its `implementation`, or each `shape` that ran.
            limits: peaks to compare with: data sheets (and your own file), or what `stepscope calibrate` measured.
            processor: name of the processor, whose peak is compared with; the log does not say it.

        Columns: primitive, propagation, implementation, engine, types, attributes, auxiliary, shape, executions,
        total_ns, share_ratio, mean_ns, min_ns, max_ns, flops, flop_per_s, peak_flop_per_s, peak_ratio, creations,
        created_ns.
        """
        return self.ask("onednn", by=by, limits=limits, processor=processor, **asked)

    def snapshot(self, **asked: Unpack[AskedOfRecording]) -> Table:
        """What did the run do with the host, on one page: processors, threads, memory, files, arithmetic?

        Columns: aspect, metric, value, unit, text, least, most, ranks, share_ratio, share_of, target, source, judged,
        next, advice, report.
        """
        return self.ask("snapshot", **asked)

    def host_metrics(
        self, *, metric: str | None = None, subject: str | None = None, **asked: Unpack[AskedOfRecording]
    ) -> Table:
        """What does each metric of VTune, APS, perf stat and the recorder say of the host, under its own name?

        Args:
            metric: only metrics with this in their names, whatever the case.
            subject: only what has this in its name, whatever the case.

        Columns: rank, report, of, subject, metric, value, unit, text, host, share_ratio, share_of, advice, confirmed.
        """
        return self.ask("host-metrics", metric=metric, subject=subject, **asked)

    def metrics(self, *, by: Literal["kernel", "metric"] = "kernel", **asked: Unpack[AskedOfRecording]) -> Table:
        """What do hardware counters say of each kernel, and what limits it?

        Args:
            by: what a row is: a kernel with what limits it, or one metric of a kernel.

        Columns: kernel, grid, block, operator, count, device_ns, share_ratio, measured, limiter, limiter_ratio,
        verdict, compute_ratio, memory_ratio, l1_ratio, l2_ratio, dram_ratio, occupancy_ratio, theoretical_ratio,
        occupancy_limit, ipc, tensor_ratio, load_ratio, store_ratio, stall, joined_by, metric, value, unit, meaning,
        measured_as, ncu, nvprof.
        """
        return self.ask("metrics", by=by, **asked)

    def inline(self, *, by: Literal["rank", "label"] = "rank", **asked: Unpack[AskedOfRecording]) -> Table:
        """How long do the measured events of an iteration take, and how sure is that?

        Args:
            by: each rank by itself, or the average and the maximum over ranks.

        Columns: label, rank, ranks, n, alike, average_ns, max_ns, slowest_rank, mean_ns, median_ns, std_ns,
        relative_std_ratio, p5_ns, p95_ns, ci95_low_ns, ci95_high_ns, stable, start_offset_ns, share_ratio, ran_on,
        start_index, end_index, inside, longer_than, occurrence, device, stream, clock, overhead_ratio,
        overhead_low_ratio, overhead_high_ratio, armed_every, models, complete_after, iterations, kind, span.
        """
        return self.ask("inline", by=by, **asked)

    def phases(
        self, *, by: Literal["phase", "step", "window", "verdict"] = "phase", **asked: Unpack[AskedOfRecording]
    ) -> Table:
        """Which phase of the step takes the time, over the entire run?

        Args:
            by: a row for each phase, kept step, or window of 20 in the run; or what holds the run back.

        Columns: kind, rank, ranks, phase, step, steps, mean_ns, late_ns, share_ratio, median_ns, p95_ns, largest_ns,
        device_mean_ns, over_fastest_ratio, total_ns, over_median_ratio, memory_bytes, peak_bytes, reserved_bytes,
        input_wait_ns, forward_ns, backward_ns, optimizer_ns, residual_ns, host_to_device_ns, peak_of, first_batch_ns,
        verdict, evidence, next_step, span.
        """
        return self.ask("phases", by=by, **asked)

    def throughput(self, *, by: Literal["run", "rank"] = "run", **asked: Unpack[AskedOfRecording]) -> Table:
        """How many samples or tokens per second does the job get through?

        Args:
            by: all ranks together, or each by itself.

        Columns: name, rank, ranks, steps, per_step, step_ns, per_second, ci95_low_per_second, ci95_high_per_second.
        """
        return self.ask("throughput", by=by, **asked)

    def findings(
        self,
        *,
        id: str | None = None,  # noqa: A002
        **asked: Unpack[AskedOfRecording],
    ) -> Table:
        """What is worth changing, and what would it save?

        Args:
            id: only the findings of one rule.

        Columns: id, severity, title, saving_high_ns, saving_low_ns, saving_share_ratio, saving_job_ns, per, confidence,
        advice, trade_off, metric, value, unit, rank, step, window_start_ns, window_end_ns, evidence, query,
        failing_checks.
        """
        return self.ask("findings", id=id, **asked)

    def checks(
        self,
        *,
        all: bool = False,  # noqa: A002
        **asked: Unpack[AskedOfRecording],
    ) -> Table:
        """Can the recording be trusted?

        Args:
            all: also what is in order, each check and file for itself.

        Columns: severity, check, rank, span, count, explanation, affects, path, events_kept, events_repaired,
        events_dropped, damage_offset, damage.
        """
        return self.ask("checks", all=all, **asked)

    def sources(self, **asked: Unpack[AskedOfRecording]) -> Table:
        """Which files were read, how many events were kept, repaired or dropped, and which files were left out?

        Columns: path, left_out, rank, rank_rule, span, events_kept, events_repaired, events_dropped, truncated,
        damage_offset, damage, bytes, format, tool, tool_version, unknown_categories, unknown_fields, clock_rule,
        clock_offset_ns, clock_drift_ppb, clock_uncertainty_ns, clock_matches.
        """
        return self.ask("sources", **asked)
