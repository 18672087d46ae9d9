"""One method per question. Made by docs/generate.py from the declarations; do not edit."""

from typing import Any, Literal

from typing_extensions import Unpack

from stepscope.api.asked import AskedOfEvents, AskedOfRecording, AskedOfTime
from stepscope.query.table import Table

class QuestionMethods:
    """The questions about one recording as typed methods.

    Raises:
        UsageError: a rank, step, column or choice does not exist.
    """

    def ask(self, question: str, **asked: Any) -> Table:
        """Asks a question by its name."""

    def summary(self, **asked: Unpack[AskedOfRecording]) -> Table:
        """Where does the step time go, and what should I look at next?

        Columns: section, item, rank, time_ns, share_ratio, count, severity, text.
        """

    def findings(self, *, id: str | None = None, **asked: Unpack[AskedOfRecording]) -> Table:
        """What is worth changing, and what would it save?

        Args:
            id: only the findings of one rule.

        Columns: id, severity, title, saving_high_ns, saving_low_ns, saving_share_ratio, saving_job_ns, per, confidence,
        advice, trade_off, metric, value, unit, rank, step, window_start_ns, window_end_ns, evidence, query, failing_checks.
        """

    def steps(self, *, by: Literal["step", "mean"] = "step", **asked: Unpack[AskedOfTime]) -> Table:
        """Where did the time of each training step go?

        Args:
            by: a row a step, or the mean over the steps of a recording that count.

        Columns: rank, span, step, steps, start_ns, kernel_ns, copy_ns, memset_ns, communication_ns, runtime_ns,
        dataloader_ns, cpu_exec_ns, other_ns, total_ns, complete, counted, left_out.
        """

    def phases(
        self,
        *,
        by: Literal["phase", "step", "window", "verdict"] = "phase",
        **asked: Unpack[AskedOfRecording],
    ) -> Table:
        """Which phase of the step takes the time, over the entire run?

        Args:
            by: a row for each phase, stored step, or 20th of the run; or what limits the run.

        Columns: kind, rank, ranks, phase, step, steps, mean_ns, skew_ns, share_ratio, median_ns, p95_ns, max_ns,
        device_mean_ns, over_fastest_ratio, total_ns, over_median_ratio, memory_bytes, peak_bytes, reserved_bytes,
        input_wait_ns, forward_ns, backward_ns, optimizer_ns, residual_ns, host_to_device_ns, peak_of, first_batch_ns,
        verdict, evidence, next_step, span.
        """

    def throughput(self, *, by: Literal["run", "rank"] = "run", **asked: Unpack[AskedOfRecording]) -> Table:
        """How many samples or tokens per second does the job get through?

        Args:
            by: all ranks together, or each by itself.

        Columns: name, rank, ranks, steps, per_step, step_ns, per_second, ci95_low_per_second, ci95_high_per_second.
        """

    def inline(self, *, by: Literal["rank", "label"] = "rank", **asked: Unpack[AskedOfRecording]) -> Table:
        """How long do the measured events of an iteration take, and how sure is that?

        Args:
            by: each rank by itself, or the average and the maximum over ranks.

        Columns: label, rank, ranks, n, effective_n, average_ns, max_ns, slowest_rank, mean_ns, median_ns, std_ns,
        relative_std_ratio, p5_ns, p95_ns, ci95_low_ns, ci95_high_ns, stable, start_offset_ns, share_ratio, ran_on,
        start_index, end_index, inside, exceeds, occurrence, device, stream, clock, overhead_ratio, overhead_low_ratio,
        overhead_high_ratio, armed_every, models, complete_after, iterations, kind, span.
        """

    def device_time(self, *, by: Literal["device", "step"] = "device", **asked: Unpack[AskedOfTime]) -> Table:
        """How much of each device's time was computation, communication, copies or idle?

        Args:
            by: `device` for a row a device, `step` for a row a device and step.

        Columns: rank, span, device, step, span_ns, computation_ns, communication_ns, exposed_communication_ns,
        hidden_communication_ns, overlap_ratio, overlapped_ratio, copy_ns, exposed_copy_ns, busy_ns, idle_ns, events,
        unlinked_ns, unlinked_ratio.
        """

    def idle(self, *, kernel_wait_ns: int = 30000, **asked: Unpack[AskedOfTime]) -> Table:
        """When was each device and stream idle, and why?

        Args:
            kernel_wait_ns: a shorter gap is the device's delay between launches (ns).

        Columns: rank, span, device, stream, cause, host, frame, gaps, idle_ns, share_ratio, max_gap_ns.
        """

    def critical_path(
        self,
        *,
        by: Literal["kind", "name", "operator", "module", "rank", "step", "piece"] = "kind",
        **asked: Unpack[AskedOfRecording],
    ) -> Table:
        """Which chain of work and waits decided how long the steps took?

        Args:
            by: what a row is: a kind of work, ..., or a piece of the path.

        Columns: span, step, rank, start_ns, kind, class, name, operator, module, pieces, path_ns, step_ns, share_ratio,
        max_part, max_part_ns, host_ns, input_ns, launch_ns, computation_ns, transfer_ns, communication_ns, waiting_ns,
        copy_ns, synchronization_ns, idle_ns, total_ns.
        """

    def what_if(self, *, faster: str = "", without: str = "", **asked: Unpack[AskedOfRecording]) -> Table:
        """How long would a step take if something were faster, or were not there?

        Args:
            faster: classes or name patterns of kernels and how many times as fast they would be: GEMM=2,*softmax*=1.5; by
                default each class is tried.
            without: communication, input, launch or straggler, separated by commas; by default each is tried.

        Columns: span, change, step_ns, saved_ns, saved_ratio, saved_low_ns, saved_high_ns.
        """

    def operators(
        self,
        *,
        by: Literal["name", "shape", "arguments", "stack"] = "name",
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """Which operators take the time?

        Args:
            by: what to tell apart beside names: input shapes, all that is known of the inputs, or call stacks.

        Columns: name, input_dims, input_types, input_strides, input_values, frame, call_stack, calls, device_self_ns,
        device_share_ratio, device_total_ns, device_events, host_self_ns, host_share_ratio, host_total_ns, host_mean_ns,
        first_delay_ns, last_delay_ns, tensor_core_eligible, tensor_core_ratio, library.
        """

    def kernels(
        self,
        *,
        by: Literal["name", "properties", "stack", "source", "graph", "short", "histogram"] = "name",
        below_ns: int = 10000,
        bins: int = 10,
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """Which kernels does the device spend its time on?

        Args:
            by: what to tell apart; or only short kernels, or a histogram of these.
            below_ns: kernels shorter than this are short (ns).
            bins: bins of the histogram, equally wide.

        Columns: name, kind, graph_id, graph_node_id, grid, block, registers_per_thread, shared_memory_bytes, priority,
        source_file, backend, launch_options, compiled_graph, program_lines, program_modules, operator, frame, call_stack,
        from_ns, to_ns, count, total_ns, share_ratio, mean_ns, median_ns, min_ns, max_ns, std_ns, count_ratio,
        blocks_per_sm, occupancy_ratio, occupancy_limit, tensor_core_eligible_ratio, tensor_core_used, library,
        fused_operators, fused_communication.
        """

    def modules(self, *, depth: int | None = None, **asked: Unpack[AskedOfEvents]) -> Table:
        """Which parts of the model take the time, forward and backward?

        Args:
            depth: deepest level to list: 0 lists only the model.

        Columns: name, path, class, compiled, depth, parent_path, calls, device_total_ns, share_ratio, device_self_ns,
        forward_device_ns, backward_device_ns, host_total_ns, host_self_ns, forward_host_ns, backward_host_ns.
        """

    def call_tree(
        self,
        *,
        by: Literal["top-down", "bottom-up", "thread"] = "top-down",
        max_nodes: int = 1000,
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """Which calls does the time go to, and what leads to them?

        Args:
            by: from the outermost call down, from each function to its callers, or top-down for each thread.
            max_nodes: rows to list at most: those with most time.

        Columns: name, kind, depth, id, parent, calls, host_total_ns, host_share_ratio, host_self_ns, device_total_ns,
        device_share_ratio, device_self_ns.
        """

    def annotations(
        self,
        *,
        by: Literal["name", "path"] = "name",
        all: bool = False,
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """What do the named ranges cost on host and device?

        Args:
            by: what a row is: a name, or a path through the ranges around it.
            all: also the ranges that mark the steps.

        Columns: name, domain, category, path, depth, calls, host_total_ns, host_exclusive_ns, host_self_ns, host_mean_ns,
        device_busy_ns, device_total_ns, projected_ns, device_events.
        """

    def classes(self, *, by: Literal["class", "module"] = "class", **asked: Unpack[AskedOfEvents]) -> Table:
        """Which kinds of work take the device's time?

        Args:
            by: what a row is: a class of work, or a module's work of a class.

        Columns: module, class, count, device_ns, share_ratio, forward_ns, backward_ns, main_kernel.
        """

    def durations(
        self,
        *,
        by: Literal["operator", "annotation", "runtime", "device", "step"] = "operator",
        event: str | None = None,
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """How are the durations of an operator, kernel, call or step distributed?

        Args:
            by: of which events; `runtime`: calls to it and the driver; `device`: its work.
            event: only events of exactly this name.

        Columns: name, from_ns, to_ns, count, count_share_ratio, total_ns, share_ratio, rank, start_ns, dur_ns.
        """

    def launches(
        self,
        *,
        by: Literal["kernel", "call", "rank", "stream", "step", "time"] = "kernel",
        limit: int = 1024,
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """How long do launches take, and how far ahead of the device is the host?

        Args:
            by: group launches by this; `stream`, `step` and `time`: the queue of launched work.
            limit: launches outstanding on a stream at which a further launch call waits.

        Columns: rank, span, device, stream, step, start_ns, window_ns, name, call, kernels, launches, api_ns, api_mean_ns,
        api_median_ns, queued, queue_ns, queue_mean_ns, queue_median_ns, kernel_ns, kernel_mean_ns, kernel_median_ns,
        total_ns, total_mean_ns, total_median_ns, short_kernels, slow_calls, late_starts, started, unlinked, mean_queued,
        max_queued, max_launches, blocked_ns, queued_ns, running_ns, starved_ns, empty_ratio.
        """

    def copies(self, *, by: Literal["direction", "size"] = "direction", **asked: Unpack[AskedOfEvents]) -> Table:
        """What is copied and filled on the device, and how fast?

        Args:
            by: what to tell apart: direction and host memory, or these and the size.

        Columns: direction, memory_kind, from_bytes, below_bytes, pageable, count, bytes, total_ns, share_ratio, mean_ns,
        min_ns, max_ns, bandwidth_bytes_per_s, min_bandwidth_bytes_per_s, max_bandwidth_bytes_per_s.
        """

    def synchronizations(self, **asked: Unpack[AskedOfEvents]) -> Table:
        """Which streams waited for which, and how often did the host wait for the device?

        Columns: rank, device, kind, waits, stream, on_stream, count, total_ns, mean_ns, max_ns.
        """

    def gpu_summary(self, *, by: Literal["name", "operation"] = "name", **asked: Unpack[AskedOfEvents]) -> Table:
        """How long did kernels, copies and fills take, as in nvprof and nsys stats?

        Args:
            by: what a row is: a name, or an operation.

        Columns: name, operation, count, total_ns, share_ratio, mean_ns, median_ns, min_ns, max_ns, std_ns.
        """

    def gpu_trace(self, **asked: Unpack[AskedOfEvents]) -> Table:
        """Which kernels, copies and fills ran, one by one, with which launch shape?

        Columns: rank, start_ns, dur_ns, name, kind, grid, block, registers_per_thread, shared_memory_bytes,
        static_shared_memory_bytes, dynamic_shared_memory_bytes, bytes, bandwidth_bytes_per_s, source_memory,
        destination_memory, device, device_name, context, stream, correlation, operator, step.
        """

    def api_summary(self, **asked: Unpack[AskedOfEvents]) -> Table:
        """How long did each call to the device's runtime and driver take on the host?

        Columns: name, api, count, total_ns, share_ratio, mean_ns, median_ns, min_ns, max_ns, std_ns.
        """

    def prof(self, **asked: Unpack[AskedOfEvents]) -> Table:
        """What launched each kernel, with what shapes, and how much work did it do?

        Columns: rank, idx, seq, altseq, tid, layer, trace, dir, sub, mod, op, kernel, params, sil, tc, device, stream,
        grid, block, flops, bytes.
        """

    def memory(
        self,
        *,
        by: Literal["device", "category", "operator", "module", "stack", "step", "pool", "oom", "time", "allocation"] = "device",
        at_ns: int | None = None,
        points: int = 400,
        at_peak: bool = False,
        operator: str | None = None,
        category: str | None = None,
        **asked: Unpack[AskedOfTime],
    ) -> Table:
        """How much memory was in use, when was the peak, and what used it?

        Args:
            by: what a row is; `oom`: a failed allocation; `time`: a moment of the curve.
            at_ns: moment (ns since the run's start); by default the peak's.
            points: by time: rows of a device at most; 0 for a row an event.
            at_peak: by allocation: only what is alive when most is allocated.
            operator: by allocation: only those that this operator made.
            category: by allocation: only those of this category.

        Columns: rank, span, kind, device, source, at_ns, time_ns, step, category, operator, module, stack, pool,
        private_pool, stream, segments, requested_bytes, device_free_bytes, peak_bytes, bytes, share_ratio, allocations,
        alloc_ns, free_ns, lifetime_ns, alloc_step, free_step, address, allocated_bytes, pending_bytes, reserved_bytes,
        device_bytes, free_bytes, max_free_block_bytes, rounding_bytes, unused_ratio, start_bytes, end_bytes, growth_bytes,
        allocs, alloc_bytes, retained_bytes, peak_reserved_bytes, out_of_memory, parameters_bytes, gradients_bytes,
        optimizer_state_bytes, activations_bytes, temporaries_bytes, unknown_bytes, events.
        """

    def rank_overview(
        self,
        *,
        measure: Literal["step", "computation", "exposed-communication", "communication", "exposed-copies", "copies", "idle", "kernels", "waiting", "bubble"] | None = None,
        **asked: Unpack[AskedOfTime],
    ) -> Table:
        """How do the ranks compare, over all steps or step by step?

        Args:
            measure: a row a rank and step with this measure, drawn as a map; `kernels`: the time in which one ran.

        Columns: rank, span, step, steps, step_ns, span_ns, computation_ns, computation_ratio, exposed_communication_ns,
        exposed_communication_ratio, exposed_copy_ns, exposed_copy_ratio, idle_ns, idle_ratio, utilization_ratio,
        waiting_ns, waiting_ratio, stage, bubble_ns, bubble_ratio, differs, host, value_ns, share_ratio, counted.
        """

    def stragglers(
        self,
        *,
        by: Literal["rank", "step", "cause", "collective"] = "rank",
        **asked: Unpack[AskedOfTime],
    ) -> Table:
        """Which ranks do the others wait for in collectives, and why are these late?

        Args:
            by: a row a rank; a rank and step; a rank and cause; or a collective.

        Columns: rank, step, cause, start_ns, operation, group, message_bytes, late, last, last_ratio, waited_by_others_ns,
        charged_ns, skew_ns, step_ratio, share_ratio, max_ns, max_rank, waited_ns, why, input_ns, computation_ns, copies_ns,
        communication_ns, garbage_collection_ns, compilation_ns, host_ns, profiler_ns, not_recorded_ns, before_ns.
        """

    def communication(
        self,
        *,
        by: Literal["operation", "size", "group", "parallelism", "module", "rank", "step", "pair", "load", "exchange"] = "operation",
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """What do the ranks communicate, how long do they wait for it, and how fast is it?

        Args:
            by: group collectives by this; `pair`, `load` and `exchange`: all-to-all exchanges.

        Columns: module, rank, step, operation, parallelism, source, group, description, ranks, group_size, dtype,
        message_bytes, library, extent, calls, measured, total_ns, mean_ns, exposed_ns, exposed_ratio, wait_ns, transfer_ns,
        moved_bytes, algorithm_bytes_per_s, bus_bytes_per_s, bandwidth_over, source_rank, destination_rank, bytes,
        share_ratio, sent_bytes, sent_over_mean, received_bytes, received_over_mean, start_ns, matched_ranks, total_bytes,
        max_over_mean, max_rank.
        """

    def overlap(self, *, by: Literal["all", "device", "step", "kernel"] = "all", **asked: Unpack[AskedOfTime]) -> Table:
        """How long did computation, communication and copies run alone, and at once?

        Args:
            by: of what; `kernel`: a row a kernel that ran both with communication and without.

        Columns: rank, span, device, step, types, time_ns, span_ratio, busy_ratio, name, operator, grid, block, input_dims,
        overlapped, isolated, isolated_mean_ns, overlapped_mean_ns, slower_ratio, slower_low_ratio, slower_high_ratio,
        slowdown_ns.
        """

    def hotspots(
        self,
        *,
        by: Literal["function", "library", "line", "thread", "top-down", "bottom-up"] = "function",
        min_ratio: float = 0.001,
        **asked: Unpack[AskedOfRecording],
    ) -> Table:
        """In which functions of the host does the time go, and who calls them?

        Args:
            by: what a row is; `top-down` below what called it, `bottom-up` below what it called.
            min_ratio: leave out rows below this fraction of all time, with their subtree.

        Columns: function, clock, library, file, line, rank, pid, tid, self_ns, self_ratio, total_ns, total_ratio,
        self_samples, total_samples, instructions, cpi, depth, node, parent.
        """

    def host_metrics(
        self,
        *,
        by: Literal["aspect", "metric"] = "aspect",
        metric: str | None = None,
        subject: str | None = None,
        **asked: Unpack[AskedOfRecording],
    ) -> Table:
        """How did the run use processors, threads, memory and files of the host?

        Args:
            by: the complete run by `aspect`, or every `metric` under the name its tool gives it.
            metric: every metric with this in its name, whatever the case.
            subject: every metric of a subject with this in its name, whatever the case.

        Columns: rank, aspect, report, of, subject, metric, value, unit, text, min, max, ranks, host, share_ratio, share_of,
        target, source, judged, next, advice, confirmed.
        """

    def onednn(
        self,
        *,
        by: Literal["primitive", "implementation", "shape"] = "primitive",
        limits: Literal["datasheet", "measured"] = "datasheet",
        processor: str | None = None,
        **asked: Unpack[AskedOfRecording],
    ) -> Table:
        """Which oneDNN primitives took how long, in which implementation, how fast?

        Args:
            by: what a row is: a `primitive` and direction, its `implementation`, or each `shape` that ran.
            limits: peaks to compare with: data sheets (and your own file), or what `stepscope calibrate` measured.
            processor: name of the processor, whose peak is compared with; the log does not say it.

        Columns: primitive, propagation, implementation, engine, types, attributes, auxiliary, shape, executions, total_ns,
        share_ratio, mean_ns, min_ns, max_ns, flops, flop_per_s, peak_flop_per_s, peak_ratio, creations, created_ns.
        """

    def roofline(
        self,
        *,
        by: Literal["operator", "kernel", "module", "priority"] = "operator",
        limits: Literal["datasheet", "measured"] = "datasheet",
        causal: Literal["masked", "full"] = "masked",
        measured: bool = False,
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """How close did each operator and kernel run to what the device can do?

        Args:
            by: what a row is; `priority`: the kernels most worth making faster.
            limits: peaks to compare with: data sheets (and your own file), or what `stepscope calibrate` measured.
            causal: pairs that causal attention is counted for: those that its mask allows, or all of them.
            measured: add the operations and bytes that hardware counters counted.

        Columns: priority, name, class, operator, input_dims, input_types, dtype, count, device_ns, share_ratio,
        occupancy_ratio, bound, attainable_ratio, attainable_ns, saving_ns, limiter, limiter_ratio, basis, flops,
        moved_bytes, intensity, flop_per_s, bytes_per_s, peak_flop_per_s, peak_bytes_per_s, counted_ratio, device_name,
        counted_flops, counted_dram_bytes, counted_l2_bytes, counted_l1_bytes, measured_ratio, flops_of_model,
        bytes_of_model, note.
        """

    def efficiency(
        self,
        *,
        by: Literal["step", "module"] = "step",
        limits: Literal["datasheet", "measured"] = "datasheet",
        causal: Literal["masked", "full"] = "masked",
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """What fraction of the device's peak did the model's arithmetic reach?

        Args:
            by: what a row is: a step, or a module with all below it.
            limits: peaks to compare with: data sheets (and your own file), or what `stepscope calibrate` measured.
            causal: pairs that causal attention is counted for: those that its mask allows, or all of them.

        Columns: rank, span, device, step, module, time_ns, device_ns, mfu_ratio, attainable_ratio, coverage_ratio, finding,
        flops, matrix_flops, flop_per_s, dtype, peak_flop_per_s, device_name, uncounted.
        """

    def tensor_cores(
        self,
        *,
        by: Literal["device", "operator", "kernel"] = "device",
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """Which work could run on tensor cores, which does, and why does the rest not?

        Args:
            by: what a row is: a device, an eligible operator with its shapes, or one of their kernels.

        Columns: rank, device, device_name, operator, input_dims, kernel, kernel_ns, share_ratio, eligible_ns,
        eligible_ratio, used_ns, used_ratio, unknown_ns, generation, dtype, why_not, slowed_by.
        """

    def utilization(self, *, by: Literal["device", "step", "time"] = "device", **asked: Unpack[AskedOfTime]) -> Table:
        """How much of the time did kernels run, and how much of the device did they fill?

        Args:
            by: a row a device, a step, or one of at most 100 pieces of time.

        Columns: rank, span, device, step, start_ns, window_ns, kernel_ns, utilization_ratio, sm_efficiency_ratio,
        occupancy_ratio, described_ratio.
        """

    def metrics(self, *, by: Literal["kernel", "metric"] = "kernel", **asked: Unpack[AskedOfRecording]) -> Table:
        """What did hardware counters measure of each kernel, and what limits it?

        Args:
            by: what a row is: a kernel with what limits it, or one metric of a kernel.

        Columns: kernel, grid, block, operator, count, device_ns, share_ratio, measured, limiter, limiter_ratio, verdict,
        compute_ratio, memory_ratio, l1_ratio, l2_ratio, dram_ratio, occupancy_ratio, theoretical_ratio, occupancy_limit,
        ipc, tensor_ratio, load_ratio, store_ratio, stall, joined_by, metric, value, unit, meaning, measured_as, ncu,
        nvprof.
        """

    def counters(
        self,
        *,
        by: Literal["counter", "metric", "step", "time"] = "counter",
        **asked: Unpack[AskedOfTime],
    ) -> Table:
        """What did counters measure of kernels, devices and network cards?

        Args:
            by: a row a counter; or sampled metrics of devices, also by step or in 100 pieces of time.

        Columns: rank, span, name, pid, counter, device, step, start_ns, window_ns, metric, unit, samples, total, mean, min,
        max.
        """

    def drift(self, *, of: Literal["kernel", "operator", "step"] = "kernel", **asked: Unpack[AskedOfEvents]) -> Table:
        """Do kernels, operators or steps take longer and longer over the recording?

        Args:
            of: events to examine.

        Columns: rank, name, trend, change_ratio, low_ratio, high_ratio, median_ns, p95_ns, first_ns, last_ns, events,
        outliers, total_ns, steps.
        """

    def checks(self, *, all: bool = False, **asked: Unpack[AskedOfRecording]) -> Table:
        """Can the recording be trusted?

        Args:
            all: also what is in order, each check and file for itself.

        Columns: severity, check, rank, span, count, explanation, affects, path, events_read, events_repaired,
        events_dropped, damage_offset, damage.
        """

    def sources(self, **asked: Unpack[AskedOfRecording]) -> Table:
        """Which files were read, what was repaired or dropped, and what was left out?

        Columns: path, left_out, rank, rank_rule, span, events_read, events_repaired, events_dropped, truncated,
        damage_offset, damage, bytes, format, tool, tool_version, unknown_categories, unknown_fields, clock_rule,
        clock_offset_ns, clock_drift_ppb, clock_uncertainty_ns, clock_matches.
        """
