// Made by docs/generate.py. Change the source it names, then run it again.

/** A row as an answer's JSON has it: null is "not measured", and a form of a question may leave columns out. */
type Row<Columns> = { readonly [Name in keyof Columns]?: Columns[Name] | null };

/** One row of each question's answer; what a column means is in the question's declaration. */
export type Rows = {
  /** Where does the step time go, and what should I look at next? */
  "summary": Row<{
    section: string; item: string; rank: number; time_ns: number; share_ratio: number; count: number;
    severity: string; text: string;
  }>;
  /** What is worth changing, and what would it save? */
  "findings": Row<{
    id: string; severity: string; title: string; saving_high_ns: number; saving_low_ns: number;
    saving_share_ratio: number; saving_job_ns: number; per: string; confidence: string; advice: string;
    trade_off: string; metric: string; value: number; unit: string; rank: number; step: number;
    window_start_ns: number; window_end_ns: number; evidence: string; query: string; failing_checks: string;
  }>;
  /** Where did the time of each training step go? */
  "steps": Row<{
    rank: number; span: number; step: number; steps: number; start_ns: number; kernel_ns: number;
    copy_ns: number; memset_ns: number; communication_ns: number; runtime_ns: number; dataloader_ns: number;
    cpu_exec_ns: number; other_ns: number; total_ns: number; complete: boolean; counted: boolean;
    left_out: string;
  }>;
  /** Which phase of the step takes the time, over the entire run? */
  "phases": Row<{
    kind: string; rank: number; ranks: number; phase: string; step: number; steps: number; mean_ns: number;
    skew_ns: number; share_ratio: number; median_ns: number; p95_ns: number; max_ns: number;
    device_mean_ns: number; over_fastest_ratio: number; total_ns: number; over_median_ratio: number;
    memory_bytes: number; peak_bytes: number; reserved_bytes: number; input_wait_ns: number;
    forward_ns: number; backward_ns: number; optimizer_ns: number; residual_ns: number;
    host_to_device_ns: number; peak_of: string; first_batch_ns: number; verdict: string; evidence: string;
    next_step: string; span: number;
  }>;
  /** How many samples or tokens per second does the job get through? */
  "throughput": Row<{
    name: string; rank: number; ranks: number; steps: number; per_step: number; step_ns: number;
    per_second: number; ci95_low_per_second: number; ci95_high_per_second: number;
  }>;
  /** How long do the measured events of an iteration take, and how sure is that? */
  "inline": Row<{
    label: string; rank: number; ranks: number; n: number; effective_n: number; average_ns: number;
    max_ns: number; slowest_rank: number; mean_ns: number; median_ns: number; std_ns: number;
    relative_std_ratio: number; p5_ns: number; p95_ns: number; ci95_low_ns: number; ci95_high_ns: number;
    stable: boolean; start_offset_ns: number; share_ratio: number; ran_on: string; start_index: number;
    end_index: number; inside: string; exceeds: string; occurrence: number; device: number; stream: number;
    clock: string; overhead_ratio: number; overhead_low_ratio: number; overhead_high_ratio: number;
    armed_every: number; models: number; complete_after: number; iterations: number; kind: string;
    span: number;
  }>;
  /** How much of each device's time was computation, communication, copies or idle? */
  "device-time": Row<{
    rank: number; span: number; device: number; step: number; span_ns: number; computation_ns: number;
    communication_ns: number; exposed_communication_ns: number; hidden_communication_ns: number;
    overlap_ratio: number; overlapped_ratio: number; copy_ns: number; exposed_copy_ns: number;
    busy_ns: number; idle_ns: number; events: number; unlinked_ns: number; unlinked_ratio: number;
  }>;
  /** When was each device and stream idle, and why? */
  "idle": Row<{
    rank: number; span: number; device: number; stream: number; cause: string; host: string; frame: string;
    gaps: number; idle_ns: number; share_ratio: number; max_gap_ns: number;
  }>;
  /** Which chain of work and waits decided how long the steps took? */
  "critical-path": Row<{
    span: number; step: number; rank: number; start_ns: number; kind: string; class: string; name: string;
    operator: string; module: string; pieces: number; path_ns: number; step_ns: number; share_ratio: number;
    max_part: string; max_part_ns: number; host_ns: number; input_ns: number; launch_ns: number;
    computation_ns: number; transfer_ns: number; communication_ns: number; waiting_ns: number;
    copy_ns: number; synchronization_ns: number; idle_ns: number; total_ns: number;
  }>;
  /** How long would a step take if something were faster, or were not there? */
  "what-if": Row<{
    span: number; change: string; step_ns: number; saved_ns: number; saved_ratio: number;
    saved_low_ns: number; saved_high_ns: number;
  }>;
  /** Which operators take the time? */
  "operators": Row<{
    name: string; input_dims: string; input_types: string; input_strides: string; input_values: string;
    frame: string; call_stack: string; calls: number; device_self_ns: number; device_share_ratio: number;
    device_total_ns: number; device_events: number; host_self_ns: number; host_share_ratio: number;
    host_total_ns: number; host_mean_ns: number; first_delay_ns: number; last_delay_ns: number;
    tensor_core_eligible: boolean; tensor_core_ratio: number; library: string;
  }>;
  /** Which kernels does the device spend its time on? */
  "kernels": Row<{
    name: string; kind: string; graph_id: number; graph_node_id: number; grid: string; block: string;
    registers_per_thread: number; shared_memory_bytes: number; priority: number; source_file: string;
    backend: string; launch_options: string; compiled_graph: string; program_lines: string;
    program_modules: string; operator: string; frame: string; call_stack: string; from_ns: number;
    to_ns: number; count: number; total_ns: number; share_ratio: number; mean_ns: number; median_ns: number;
    min_ns: number; max_ns: number; std_ns: number; count_ratio: number; blocks_per_sm: number;
    occupancy_ratio: number; occupancy_limit: string; tensor_core_eligible_ratio: number;
    tensor_core_used: boolean; library: string; fused_operators: string; fused_communication: boolean;
  }>;
  /** Which parts of the model take the time, forward and backward? */
  "modules": Row<{
    name: string; path: string; class: string; compiled: boolean; depth: number; parent_path: string;
    calls: number; device_total_ns: number; share_ratio: number; device_self_ns: number;
    forward_device_ns: number; backward_device_ns: number; host_total_ns: number; host_self_ns: number;
    forward_host_ns: number; backward_host_ns: number;
  }>;
  /** Which calls does the time go to, and what leads to them? */
  "call-tree": Row<{
    name: string; kind: string; depth: number; id: number; parent: number; calls: number;
    host_total_ns: number; host_share_ratio: number; host_self_ns: number; device_total_ns: number;
    device_share_ratio: number; device_self_ns: number;
  }>;
  /** What do the named ranges cost on host and device? */
  "annotations": Row<{
    name: string; domain: string; category: string; path: string; depth: number; calls: number;
    host_total_ns: number; host_exclusive_ns: number; host_self_ns: number; host_mean_ns: number;
    device_busy_ns: number; device_total_ns: number; projected_ns: number; device_events: number;
  }>;
  /** Which kinds of work take the device's time? */
  "classes": Row<{
    module: string; class: string; count: number; device_ns: number; share_ratio: number; forward_ns: number;
    backward_ns: number; main_kernel: string;
  }>;
  /** How are the durations of an operator, kernel, call or step distributed? */
  "durations": Row<{
    name: string; from_ns: number; to_ns: number; count: number; count_share_ratio: number; total_ns: number;
    share_ratio: number; rank: number; start_ns: number; dur_ns: number;
  }>;
  /** How long do launches take, and how far ahead of the device is the host? */
  "launches": Row<{
    rank: number; span: number; device: number; stream: number; step: number; start_ns: number;
    window_ns: number; name: string; call: string; kernels: number; launches: number; api_ns: number;
    api_mean_ns: number; api_median_ns: number; queued: number; queue_ns: number; queue_mean_ns: number;
    queue_median_ns: number; kernel_ns: number; kernel_mean_ns: number; kernel_median_ns: number;
    total_ns: number; total_mean_ns: number; total_median_ns: number; short_kernels: number;
    slow_calls: number; late_starts: number; started: number; unlinked: number; mean_queued: number;
    max_queued: number; max_launches: number; blocked_ns: number; queued_ns: number; running_ns: number;
    starved_ns: number; empty_ratio: number;
  }>;
  /** What is copied and filled on the device, and how fast? */
  "copies": Row<{
    direction: string; memory_kind: string; from_bytes: number; below_bytes: number; pageable: boolean;
    count: number; bytes: number; total_ns: number; share_ratio: number; mean_ns: number; min_ns: number;
    max_ns: number; bandwidth_bytes_per_s: number; min_bandwidth_bytes_per_s: number;
    max_bandwidth_bytes_per_s: number;
  }>;
  /** Which streams waited for which, and how often did the host wait for the device? */
  "synchronizations": Row<{
    rank: number; device: number; kind: string; waits: string; stream: number; on_stream: number;
    count: number; total_ns: number; mean_ns: number; max_ns: number;
  }>;
  /** How long did kernels, copies and fills take, as in nvprof and nsys stats? */
  "gpu-summary": Row<{
    name: string; operation: string; count: number; total_ns: number; share_ratio: number; mean_ns: number;
    median_ns: number; min_ns: number; max_ns: number; std_ns: number;
  }>;
  /** Which kernels, copies and fills ran, one by one, with which launch shape? */
  "gpu-trace": Row<{
    rank: number; start_ns: number; dur_ns: number; name: string; kind: string; grid: string; block: string;
    registers_per_thread: number; shared_memory_bytes: number; static_shared_memory_bytes: number;
    dynamic_shared_memory_bytes: number; bytes: number; bandwidth_bytes_per_s: number; source_memory: string;
    destination_memory: string; device: number; device_name: string; context: number; stream: number;
    correlation: number; operator: string; step: number;
  }>;
  /** How long did each call to the device's runtime and driver take on the host? */
  "api-summary": Row<{
    name: string; api: string; count: number; total_ns: number; share_ratio: number; mean_ns: number;
    median_ns: number; min_ns: number; max_ns: number; std_ns: number;
  }>;
  /** What launched each kernel, with what shapes, and how much work did it do? */
  "prof": Row<{
    rank: number; idx: number; seq: number; altseq: number; tid: string; layer: string; trace: string;
    dir: string; sub: number; mod: string; op: string; kernel: string; params: string; sil: number;
    tc: string; device: number; stream: number; grid: string; block: string; flops: number; bytes: number;
  }>;
  /** How much memory was in use, when was the peak, and what used it? */
  "memory": Row<{
    rank: number; span: number; kind: string; device: number; source: string; at_ns: number; time_ns: number;
    step: number; category: string; operator: string; module: string; stack: string; pool: string;
    private_pool: string; stream: number; segments: number; requested_bytes: number;
    device_free_bytes: number; peak_bytes: number; bytes: number; share_ratio: number; allocations: number;
    alloc_ns: number; free_ns: number; lifetime_ns: number; alloc_step: number; free_step: number;
    address: number; allocated_bytes: number; pending_bytes: number; reserved_bytes: number;
    device_bytes: number; free_bytes: number; max_free_block_bytes: number; rounding_bytes: number;
    unused_ratio: number; start_bytes: number; end_bytes: number; growth_bytes: number; allocs: number;
    alloc_bytes: number; retained_bytes: number; peak_reserved_bytes: number; out_of_memory: number;
    parameters_bytes: number; gradients_bytes: number; optimizer_state_bytes: number;
    activations_bytes: number; temporaries_bytes: number; unknown_bytes: number; events: number;
  }>;
  /** How do the ranks compare, over all steps or step by step? */
  "rank-overview": Row<{
    rank: number; span: number; step: number; steps: number; step_ns: number; span_ns: number;
    computation_ns: number; computation_ratio: number; exposed_communication_ns: number;
    exposed_communication_ratio: number; exposed_copy_ns: number; exposed_copy_ratio: number; idle_ns: number;
    idle_ratio: number; utilization_ratio: number; waiting_ns: number; waiting_ratio: number; stage: number;
    bubble_ns: number; bubble_ratio: number; differs: string; host: string; value_ns: number;
    share_ratio: number; counted: boolean;
  }>;
  /** Which ranks do the others wait for in collectives, and why are these late? */
  "stragglers": Row<{
    rank: number; step: number; cause: string; start_ns: number; operation: string; group: string;
    message_bytes: number; late: boolean; last: number; last_ratio: number; waited_by_others_ns: number;
    charged_ns: number; skew_ns: number; step_ratio: number; share_ratio: number; max_ns: number;
    max_rank: number; waited_ns: number; why: string; input_ns: number; computation_ns: number;
    copies_ns: number; communication_ns: number; garbage_collection_ns: number; compilation_ns: number;
    host_ns: number; profiler_ns: number; not_recorded_ns: number; before_ns: number;
  }>;
  /** What do the ranks communicate, how long do they wait for it, and how fast is it? */
  "communication": Row<{
    module: string; rank: number; step: number; operation: string; parallelism: string; source: string;
    group: string; description: string; ranks: string; group_size: number; dtype: string;
    message_bytes: number; library: string; extent: string; calls: number; measured: number; total_ns: number;
    mean_ns: number; exposed_ns: number; exposed_ratio: number; wait_ns: number; transfer_ns: number;
    moved_bytes: number; algorithm_bytes_per_s: number; bus_bytes_per_s: number; bandwidth_over: string;
    source_rank: number; destination_rank: number; bytes: number; share_ratio: number; sent_bytes: number;
    sent_over_mean: number; received_bytes: number; received_over_mean: number; start_ns: number;
    matched_ranks: number; total_bytes: number; max_over_mean: number; max_rank: number;
  }>;
  /** How long did computation, communication and copies run alone, and at once? */
  "overlap": Row<{
    rank: number; span: number; device: number; step: number; types: string; time_ns: number;
    span_ratio: number; busy_ratio: number; name: string; operator: string; grid: string; block: string;
    input_dims: string; overlapped: number; isolated: number; isolated_mean_ns: number;
    overlapped_mean_ns: number; slower_ratio: number; slower_low_ratio: number; slower_high_ratio: number;
    slowdown_ns: number;
  }>;
  /** In which functions of the host does the time go, and who calls them? */
  "hotspots": Row<{
    function: string; clock: string; library: string; file: string; line: number; rank: number; pid: string;
    tid: string; self_ns: number; self_ratio: number; total_ns: number; total_ratio: number;
    self_samples: number; total_samples: number; instructions: number; cpi: number; depth: number;
    node: number; parent: number;
  }>;
  /** How did the run use processors, threads, memory and files of the host? */
  "host-metrics": Row<{
    rank: number; aspect: string; report: string; of: string; subject: string; metric: string; value: number;
    unit: string; text: string; min: number; max: number; ranks: number; host: string; share_ratio: number;
    share_of: string; target: string; source: string; judged: string; next: string; advice: string;
    confirmed: boolean;
  }>;
  /** Which oneDNN primitives took how long, in which implementation, how fast? */
  "onednn": Row<{
    primitive: string; propagation: string; implementation: string; engine: string; types: string;
    attributes: string; auxiliary: string; shape: string; executions: number; total_ns: number;
    share_ratio: number; mean_ns: number; min_ns: number; max_ns: number; flops: number; flop_per_s: number;
    peak_flop_per_s: number; peak_ratio: number; creations: number; created_ns: number;
  }>;
  /** How close did each operator and kernel run to what the device can do? */
  "roofline": Row<{
    priority: number; name: string; class: string; operator: string; input_dims: string; input_types: string;
    dtype: string; count: number; device_ns: number; share_ratio: number; occupancy_ratio: number;
    bound: string; attainable_ratio: number; attainable_ns: number; saving_ns: number; limiter: string;
    limiter_ratio: number; basis: string; flops: number; moved_bytes: number; intensity: number;
    flop_per_s: number; bytes_per_s: number; peak_flop_per_s: number; peak_bytes_per_s: number;
    counted_ratio: number; device_name: string; counted_flops: number; counted_dram_bytes: number;
    counted_l2_bytes: number; counted_l1_bytes: number; measured_ratio: number; flops_of_model: number;
    bytes_of_model: number; note: string;
  }>;
  /** What fraction of the device's peak did the model's arithmetic reach? */
  "efficiency": Row<{
    rank: number; span: number; device: number; step: number; module: string; time_ns: number;
    device_ns: number; mfu_ratio: number; attainable_ratio: number; coverage_ratio: number; finding: string;
    flops: number; matrix_flops: number; flop_per_s: number; dtype: string; peak_flop_per_s: number;
    device_name: string; uncounted: string;
  }>;
  /** Which work could run on tensor cores, which does, and why does the rest not? */
  "tensor-cores": Row<{
    rank: number; device: number; device_name: string; operator: string; input_dims: string; kernel: string;
    kernel_ns: number; share_ratio: number; eligible_ns: number; eligible_ratio: number; used_ns: number;
    used_ratio: number; unknown_ns: number; generation: string; dtype: string; why_not: string;
    slowed_by: string;
  }>;
  /** How much of the time did kernels run, and how much of the device did they fill? */
  "utilization": Row<{
    rank: number; span: number; device: number; step: number; start_ns: number; window_ns: number;
    kernel_ns: number; utilization_ratio: number; sm_efficiency_ratio: number; occupancy_ratio: number;
    described_ratio: number;
  }>;
  /** What did hardware counters measure of each kernel, and what limits it? */
  "metrics": Row<{
    kernel: string; grid: string; block: string; operator: string; count: number; device_ns: number;
    share_ratio: number; measured: number; limiter: string; limiter_ratio: number; verdict: string;
    compute_ratio: number; memory_ratio: number; l1_ratio: number; l2_ratio: number; dram_ratio: number;
    occupancy_ratio: number; theoretical_ratio: number; occupancy_limit: string; ipc: number;
    tensor_ratio: number; load_ratio: number; store_ratio: number; stall: string; joined_by: string;
    metric: string; value: number; unit: string; meaning: string; measured_as: string; ncu: string;
    nvprof: string;
  }>;
  /** What did counters measure of kernels, devices and network cards? */
  "counters": Row<{
    rank: number; span: number; name: string; pid: string; counter: string; device: string; step: number;
    start_ns: number; window_ns: number; metric: string; unit: string; samples: number; total: number;
    mean: number; min: number; max: number;
  }>;
  /** What got slower or faster, and how sure is that? */
  "diff": Row<{
    name: string; path: string; depth: number; kind: string; matched: string; before_ns: number;
    after_ns: number; change_ns: number; change_ratio: number; ci95_low_ns: number; ci95_high_ns: number;
    verdict: string; share_ratio: number; calls_before: number; calls_after: number; inside: string;
    samples_before: number; samples_after: number;
  }>;
  /** How do the hardware counters of each kernel differ between two recordings? */
  "metrics-diff": Row<{
    kernel: string; grid: string; block: string; device_before_ns: number; device_after_ns: number;
    metric: string; before: number; after: number; unit: string; change_ratio: number;
  }>;
  /** How well does each part of the iteration scale to more processes? */
  "scaling": Row<{
    label: string; run: string; ranks: number; average_ns: number; max_ns: number; slowest_rank: number;
    efficiency_ratio: number; weak_efficiency_ratio: number; strong_efficiency_ratio: number;
    stops_at_ranks: number; over_ideal_ns: number; serial_ratio: number; inside: string; mode: string;
    efficiency_low_ratio: number; efficiency_high_ratio: number; serial_low_ratio: number;
    serial_high_ratio: number; model: string; next_ranks: number; next_ns: number; next_low_ns: number;
    next_high_ns: number;
  }>;
  /** Do kernels, operators or steps take longer and longer over the recording? */
  "drift": Row<{
    rank: number; name: string; trend: string; change_ratio: number; low_ratio: number; high_ratio: number;
    median_ns: number; p95_ns: number; first_ns: number; last_ns: number; events: number; outliers: number;
    total_ns: number; steps: number;
  }>;
  /** Can the recording be trusted? */
  "checks": Row<{
    severity: string; check: string; rank: number; span: number; count: number; explanation: string;
    affects: string; path: string; events_read: number; events_repaired: number; events_dropped: number;
    damage_offset: number; damage: string;
  }>;
  /** Which files were read, what was repaired or dropped, and what was left out? */
  "sources": Row<{
    path: string; left_out: string; rank: number; rank_rule: string; span: number; events_read: number;
    events_repaired: number; events_dropped: number; truncated: boolean; damage_offset: number;
    damage: string; bytes: number; format: string; tool: string; tool_version: string;
    unknown_categories: string; unknown_fields: string; clock_rule: string; clock_offset_ns: number;
    clock_drift_ppb: number; clock_uncertainty_ns: number; clock_matches: number;
  }>;
};
