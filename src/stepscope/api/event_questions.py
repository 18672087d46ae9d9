"""One method per question about events. Made by docs/generate.py from the declarations; do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from stepscope.api.asked import Asks

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from stepscope.api.asked import AskedOfEvents
    from stepscope.query.table import Table


class EventQuestions(Asks):
    """The questions about events as typed methods. `Trace` answers them.

    Every method also takes the arguments of `AskedOfEvents`.

    Raises:
        UsageError: a rank, step, column or choice does not exist.
    """

    def gpu_summary(self, *, by: Literal["name", "operation"] = "name", **asked: Unpack[AskedOfEvents]) -> Table:
        """How long did kernels, copies and fills take, in one table as nvprof and nsys stats have it?

        Args:
            by: what a row is: a name, or an operation.

        Columns: name, operation, count, total_ns, share_ratio, mean_ns, median_ns, min_ns, max_ns, std_ns.
        """
        return self.ask("gpu-summary", by=by, **asked)

    def api_summary(self, **asked: Unpack[AskedOfEvents]) -> Table:
        """How long did each call to the device's runtime and driver take on the host?

        Columns: name, api, count, total_ns, share_ratio, mean_ns, median_ns, min_ns, max_ns, std_ns.
        """
        return self.ask("api-summary", **asked)

    def gpu_trace(self, **asked: Unpack[AskedOfEvents]) -> Table:
        """What ran on the devices, one kernel, copy or fill after the other, and with which launch shape?

        Columns: rank, start_ns, dur_ns, name, kind, grid, block, registers_per_thread, shared_memory_bytes,
        static_shared_memory_bytes, dynamic_shared_memory_bytes, bytes, bandwidth_bytes_per_s, source_memory,
        destination_memory, device, device_name, context, stream, correlation, operator, step.
        """
        return self.ask("gpu-trace", **asked)

    def operators(
        self, *, by: Literal["name", "shape", "arguments", "stack"] = "name", **asked: Unpack[AskedOfEvents]
    ) -> Table:
        """Which operators take the time?

        Args:
            by: what to tell apart: name, name and input shapes, name and all that is recorded of the inputs, or name
                and call stack.

        Columns: name, input_dims, input_types, input_strides, input_values, frame, call_stack, calls, device_self_ns,
        device_share_ratio, device_total_ns, device_events, host_self_ns, host_share_ratio, host_total_ns, host_mean_ns,
        first_delay_ns, last_delay_ns, tensor_core_eligible, tensor_core_ratio, library.
        """
        return self.ask("operators", by=by, **asked)

    def kernels(
        self, *, by: Literal["name", "properties", "stack", "source", "graph"] = "name", **asked: Unpack[AskedOfEvents]
    ) -> Table:
        """Which kernels does the device spend its time on?

        Args:
            by: what to tell apart: name; name, launch properties and operator; name, operator and call stack; name and
                generated code; or node of CUDA graph.

        Columns: name, kind, graph_id, graph_node_id, grid, block, registers_per_thread, shared_memory_bytes, priority,
        source_file, backend, launch_options, compiled_graph, program_lines, program_modules, operator, frame,
        call_stack, count, total_ns, share_ratio, mean_ns, median_ns, min_ns, max_ns, std_ns, blocks_per_sm,
        occupancy_ratio, occupancy_limit, tensor_core_eligible_ratio, tensor_core_used, library, fused_operators,
        fused_communication.
        """
        return self.ask("kernels", by=by, **asked)

    def durations(
        self,
        *,
        by: Literal["operator", "annotation", "runtime", "device", "step"] = "operator",
        called: str | None = None,
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """How long do the single calls, kernels or steps of a name take: how many take how long?

        Args:
            by: of what: operators on the host; named ranges; calls to the device's runtime and driver; kernels, copies
                and fills; or steps.
            called: only what is called exactly this.

        Columns: name, from_ns, to_ns, count, count_share_ratio, total_ns, share_ratio, rank, start_ns, dur_ns.
        """
        return self.ask("durations", by=by, called=called, **asked)

    def short_kernels(
        self,
        *,
        by: Literal["kernel", "histogram"] = "kernel",
        below_ns: int = 10000,
        bins: int = 10,
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """Which kernels run for a few microseconds only, how many are there, and how long do they take?

        Args:
            by: a row a `kernel` and operator, or a `histogram` of the durations of all short kernels.
            below_ns: kernels that run for less than this are short (ns).
            bins: bins of the histogram, equally wide.

        Columns: name, operator, from_ns, to_ns, count, count_ratio, total_ns, share_ratio, mean_ns, min_ns, max_ns.
        """
        return self.ask("short-kernels", by=by, below_ns=below_ns, bins=bins, **asked)

    def modules(self, *, depth: int | None = None, **asked: Unpack[AskedOfEvents]) -> Table:
        """Which parts of the model take the time, forward and backward?

        Args:
            depth: deepest level to list: 0 lists only the model.

        Columns: name, path, class, compiled, depth, parent_path, calls, device_total_ns, share_ratio, device_self_ns,
        forward_device_ns, backward_device_ns, host_total_ns, host_self_ns, forward_host_ns, backward_host_ns.
        """
        return self.ask("modules", depth=depth, **asked)

    def call_tree(
        self,
        *,
        by: Literal["top-down", "bottom-up", "thread"] = "top-down",
        most: int = 1000,
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """Which calls does the time go to, and what leads to them?

        Args:
            by: how calls are put together: from the outermost call down (top-down), from each function to its callers
                (bottom-up), or top-down for each thread.
            most: how many rows are listed at most: those with most time.

        Columns: name, kind, depth, id, parent, calls, host_total_ns, host_share_ratio, host_self_ns, device_total_ns,
        device_share_ratio, device_self_ns.
        """
        return self.ask("call-tree", by=by, most=most, **asked)

    def copies(self, *, by: Literal["direction", "size"] = "direction", **asked: Unpack[AskedOfEvents]) -> Table:
        """What is copied and filled on the device, and how fast?

        Args:
            by: what to tell apart: direction and host memory, or these and the size.

        Columns: direction, memory_kind, from_bytes, below_bytes, pageable, count, bytes, total_ns, share_ratio,
        mean_ns, min_ns, max_ns, bandwidth_bytes_per_s, min_bandwidth_bytes_per_s, max_bandwidth_bytes_per_s.
        """
        return self.ask("copies", by=by, **asked)

    def launches(self, *, by: Literal["kernel", "call", "rank"] = "kernel", **asked: Unpack[AskedOfEvents]) -> Table:
        """How long do launch calls, queueing and kernels take, and which launches stand out?

        Args:
            by: a row a `kernel` name, a launch `call` name, or a `rank`.

        Columns: rank, name, call, kernels, launches, api_ns, api_mean_ns, api_median_ns, queued, queue_ns,
        queue_mean_ns, queue_median_ns, kernel_ns, kernel_mean_ns, kernel_median_ns, total_ns, total_mean_ns,
        total_median_ns, short_kernels, slow_calls, late_starts, unlinked.
        """
        return self.ask("launches", by=by, **asked)

    def synchronizations(self, **asked: Unpack[AskedOfEvents]) -> Table:
        """Which streams waited for which, and how often did the host wait for the device?

        Columns: rank, device, kind, waits, stream, on_stream, count, total_ns, mean_ns, max_ns.
        """
        return self.ask("synchronizations", **asked)

    def drift(self, *, of: Literal["kernel", "operator", "step"] = "kernel", **asked: Unpack[AskedOfEvents]) -> Table:
        """Do kernels, operators or steps take longer and longer over the recording?

        Args:
            of: what is looked at.

        Columns: rank, name, trend, change_ratio, low_ratio, high_ratio, median_ns, p95_ns, first_ns, last_ns, events,
        outliers, total_ns, steps.
        """
        return self.ask("drift", of=of, **asked)

    def communication(
        self,
        *,
        by: Literal["operation", "size", "group", "parallelism", "module", "rank", "step"] = "operation",
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """What do the ranks communicate, how long do they wait for it, and how fast is it?

        Args:
            by: what a row is: collectives alike in this.

        Columns: module, rank, step, operation, parallelism, told_by, group, description, ranks, group_size, dtype,
        message_bytes, library, reach, calls, measured, total_ns, mean_ns, exposed_ns, exposed_ratio, wait_ns,
        transfer_ns, moved_bytes, algorithm_bytes_per_s, bus_bytes_per_s, bandwidth_over.
        """
        return self.ask("communication", by=by, **asked)

    def all_to_all(self, *, by: Literal["pair", "rank", "exchange"] = "pair", **asked: Unpack[AskedOfEvents]) -> Table:
        """How much did each rank send to each other in all-to-all exchanges, and how evenly?

        Args:
            by: `pair` for a row a sender and receiver, `rank` for a row a rank, `exchange` for a row an exchange.

        Columns: group, rank, source, destination, calls, bytes, share_ratio, sent_bytes, sent_over_mean,
        received_bytes, received_over_mean, start_ns, ranks, total_bytes, most_over_mean, most_on_rank.
        """
        return self.ask("all-to-all", by=by, **asked)

    def classes(self, *, by: Literal["class", "module"] = "class", **asked: Unpack[AskedOfEvents]) -> Table:
        """Which kinds of work take the device's time?

        Args:
            by: what a row is: a class of work, or a module's work of a class.

        Columns: module, class, count, device_ns, share_ratio, forward_ns, backward_ns, main_kernel.
        """
        return self.ask("classes", by=by, **asked)

    def roofline(
        self,
        *,
        by: Literal["operator", "kernel", "module"] = "operator",
        limits: Literal["datasheet", "measured"] = "datasheet",
        causal: Literal["masked", "full"] = "masked",
        measured: bool = False,
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """How close did each operator and kernel run to what the device can do?

        Args:
            by: what a row is: an operator with its input shapes, a kernel, or a module.
            limits: peaks to compare with: data sheets (and your own file), or what `stepscope calibrate` measured.
            causal: pairs that causal attention is counted for: those that its mask allows, or all of them.
            measured: add what hardware counters counted: operations, and bytes of L1, L2 and device memory.

        Columns: name, input_dims, input_types, dtype, count, device_ns, share_ratio, bound, attainable_ratio,
        attainable_ns, flops, moved_bytes, intensity, flop_per_s, bytes_per_s, peak_flop_per_s, peak_bytes_per_s,
        counted_ratio, device_name, counted_flops, counted_dram_bytes, counted_l2_bytes, counted_l1_bytes,
        measured_ratio, flops_of_model, bytes_of_model, note.
        """
        return self.ask("roofline", by=by, limits=limits, causal=causal, measured=measured, **asked)

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

        Columns: rank, span, device, step, module, time_ns, device_ns, mfu_ratio, attainable_ratio, coverage_ratio,
        finding, flops, matrix_flops, flop_per_s, dtype, peak_flop_per_s, device_name, uncounted.
        """
        return self.ask("efficiency", by=by, limits=limits, causal=causal, **asked)

    def tensor_cores(
        self, *, by: Literal["device", "operator", "kernel"] = "device", **asked: Unpack[AskedOfEvents]
    ) -> Table:
        """Which work could run on tensor cores, which does, and why does the rest not?

        Args:
            by: what a row is: a device, an eligible operator with its shapes, or one of their kernels.

        Columns: rank, device, device_name, operator, input_dims, kernel, kernel_ns, share_ratio, eligible_ns,
        eligible_ratio, used_ns, used_ratio, unknown_ns, generation, dtype, why_not, slowed_by.
        """
        return self.ask("tensor-cores", by=by, **asked)

    def priorities(
        self,
        *,
        limits: Literal["datasheet", "measured"] = "datasheet",
        causal: Literal["masked", "full"] = "masked",
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """Which kernels are most worth making faster?

        Args:
            limits: peaks to compare with: data sheets (and your own file), or what `stepscope calibrate` measured.
            causal: pairs that causal attention is counted for: those that its mask allows, or all of them.

        Columns: priority, kernel, class, operator, count, device_ns, share_ratio, occupancy_ratio, attainable_ratio,
        bound, saving_ns, limiter, limiter_ratio, basis.
        """
        return self.ask("priorities", limits=limits, causal=causal, **asked)

    def prof(self, **asked: Unpack[AskedOfEvents]) -> Table:
        """What launched each kernel, with what shapes, and how much work did it do?

        Columns: rank, idx, seq, altseq, tid, layer, trace, dir, sub, mod, op, kernel, params, sil, tc, device, stream,
        grid, block, flops, bytes.
        """
        return self.ask("prof", **asked)

    def annotations(
        self,
        *,
        by: Literal["name", "path"] = "name",
        all: bool = False,  # noqa: A002
        **asked: Unpack[AskedOfEvents],
    ) -> Table:
        """What do the named ranges cost on host and device?

        Args:
            by: what a row is: a name, or a path through the ranges around it.
            all: also the ranges that mark the steps.

        Columns: name, domain, category, path, depth, calls, host_total_ns, host_exclusive_ns, host_self_ns,
        host_mean_ns, device_busy_ns, device_total_ns, projected_ns, device_events.
        """
        return self.ask("annotations", by=by, all=all, **asked)
