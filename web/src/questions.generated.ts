// Made by docs/generate.py. Change the source it names, then run it again.

/** One row of each question's answer, as its JSON has it: null is "not measured", and a form of a question
 * may leave columns out. */
export type Rows = {
  /** Where does the step time go, and what should I look at next? */
  "summary": {
    /** verdict, recorded, step time, phases, breakdown, device, findings, bounds, operators, kernels, modules or checks */
    readonly section?: string | null;
    /** what the row is about */
    readonly item?: string | null;
    /** rank, where the row is about one */
    readonly rank?: number | null;
    /** time (ns) */
    readonly time_ns?: number | null;
    /** its part: of the step, of the device's span, or of what the section lists (ratio) */
    readonly share_ratio?: number | null;
    /** number of calls, ranks, steps, devices, events (count) */
    readonly count?: number | null;
    /** of a finding, as in `findings`; empty of all else */
    readonly severity?: string | null;
    /** words */
    readonly text?: string | null;
  };
  /** Where did the time of each training step go? */
  "steps": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** number of the step, as the program counts */
    readonly step?: number | null;
    /** steps that the mean is of (count) */
    readonly steps?: number | null;
    /** start, since the run's start (ns) */
    readonly start_ns?: number | null;
    /** at least one kernel that computes was running (ns) */
    readonly kernel_ns?: number | null;
    /** the device copied and no kernel computed (ns) */
    readonly memcpy_ns?: number | null;
    /** the device filled memory and did nothing of the above (ns) */
    readonly memset_ns?: number | null;
    /** ranks communicated, or waited for each other, and nothing of the above went on (exposed) (ns) */
    readonly communication_ns?: number | null;
    /** the host was in runtime calls and the device was idle (ns) */
    readonly runtime_ns?: number | null;
    /** the host waited for a batch of the DataLoader, none of the above (ns) */
    readonly dataloader_ns?: number | null;
    /** the host ran operators, annotated ranges or Python, none of the above (ns) */
    readonly cpu_exec_ns?: number | null;
    /** nothing was recorded (ns) */
    readonly other_ns?: number | null;
    /** wall time of the step: the sum of the parts (ns) */
    readonly total_ns?: number | null;
    /** false for a step that was recorded in part: a last one cut off at the end, say */
    readonly complete?: boolean | null;
    /** false for a step that means leave out: cut off, slow because it was the first, or of a damaged rank */
    readonly counted?: boolean | null;
    /** why means leave it out */
    readonly left_out?: string | null;
  };
  /** How much of each device's time was computation, exposed communication, exposed copies or idle? */
  "device-time": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** index of the device in its process */
    readonly device?: number | null;
    /** number of the step, as the program counts */
    readonly step?: number | null;
    /** the time looked at: from the first start to the last end, or the steps (ns) */
    readonly span_ns?: number | null;
    /** kernels that compute, and fills, ran (ns) */
    readonly computation_ns?: number | null;
    /** communication kernels ran, hidden or not (ns) */
    readonly communication_ns?: number | null;
    /** communication kernels ran and no computation did (ns) */
    readonly exposed_communication_ns?: number | null;
    /** copies ran, hidden or not (ns) */
    readonly copy_ns?: number | null;
    /** copies ran and nothing else did (ns) */
    readonly exposed_copy_ns?: number | null;
    /** any of them ran (ns) */
    readonly busy_ns?: number | null;
    /** nothing ran (ns) */
    readonly idle_ns?: number | null;
    /** kernels, copies and fills (count) */
    readonly events?: number | null;
    /** summed duration of work whose launch is not known (ns) */
    readonly unlinked_ns?: number | null;
    /** the part of the summed duration of all work that this is (ratio) */
    readonly unlinked_ratio?: number | null;
  };
  /** How long did kernels, copies and fills take, in one table as nvprof and nsys stats have it? */
  "gpu-summary": {
    /** name of the kernel; Memcpy with its direction, Memset */
    readonly name?: string | null;
    /** computation, communication, copy with its direction, or fill */
    readonly operation?: string | null;
    /** number of kernels, copies and fills (count) */
    readonly count?: number | null;
    /** summed duration (ns) */
    readonly total_ns?: number | null;
    /** its part of the summed duration of all kernels, copies and fills (ratio) */
    readonly share_ratio?: number | null;
    /** mean duration (ns) */
    readonly mean_ns?: number | null;
    /** median duration (ns) */
    readonly median_ns?: number | null;
    /** shortest duration (ns) */
    readonly min_ns?: number | null;
    /** longest duration (ns) */
    readonly max_ns?: number | null;
    /** sample standard deviation of the duration (ns) */
    readonly std_ns?: number | null;
  };
  /** How long did each call to the device's runtime and driver take on the host? */
  "api-summary": {
    /** name of the call */
    readonly name?: string | null;
    /** cuda_runtime, cuda_driver, ..., as Kineto spells it */
    readonly api?: string | null;
    /** number of calls (count) */
    readonly count?: number | null;
    /** summed duration (ns) */
    readonly total_ns?: number | null;
    /** its part of the summed duration of all calls (ratio) */
    readonly share_ratio?: number | null;
    /** mean duration (ns) */
    readonly mean_ns?: number | null;
    /** median duration (ns) */
    readonly median_ns?: number | null;
    /** shortest duration (ns) */
    readonly min_ns?: number | null;
    /** longest duration (ns) */
    readonly max_ns?: number | null;
    /** sample standard deviation of the duration (ns) */
    readonly std_ns?: number | null;
  };
  /** What ran on the devices, one kernel, copy or fill after the other, and with which launch shape? */
  "gpu-trace": {
    /** rank of the process */
    readonly rank?: number | null;
    /** start, since the start of the run (ns) */
    readonly start_ns?: number | null;
    /** duration (ns) */
    readonly dur_ns?: number | null;
    /** name of the kernel, copy or fill */
    readonly name?: string | null;
    /** computation, communication, copy or fill */
    readonly kind?: string | null;
    /** blocks of the grid: x,y,z */
    readonly grid?: string | null;
    /** threads of a block: x,y,z */
    readonly block?: string | null;
    /** registers of a thread */
    readonly registers_per_thread?: number | null;
    /** shared memory of a block (bytes) */
    readonly shared_memory_bytes?: number | null;
    /** the part that the kernel declares (bytes) */
    readonly static_shared_memory_bytes?: number | null;
    /** the part that the launch asked for (bytes) */
    readonly dynamic_shared_memory_bytes?: number | null;
    /** size of a copy or fill (bytes) */
    readonly bytes?: number | null;
    /** size over duration (bytes/s) */
    readonly bandwidth_bytes_per_s?: number | null;
    /** memory that a copy reads */
    readonly source_memory?: string | null;
    /** memory that a copy or fill writes */
    readonly destination_memory?: string | null;
    /** index of the device in its process */
    readonly device?: number | null;
    /** product name of the device */
    readonly device_name?: string | null;
    /** context id */
    readonly context?: number | null;
    /** stream id; -1 when the recording names none */
    readonly stream?: number | null;
    /** number that its launch call has, too */
    readonly correlation?: number | null;
    /** innermost operator that launched it */
    readonly operator?: string | null;
    /** training step that launched it */
    readonly step?: number | null;
  };
  /** Which operators take the time? */
  "operators": {
    /** name of the operator */
    readonly name?: string | null;
    /** shapes of its inputs, as a JSON list */
    readonly input_dims?: string | null;
    /** types of its inputs, as a JSON list */
    readonly input_types?: string | null;
    /** strides of its inputs in memory, as a JSON list */
    readonly input_strides?: string | null;
    /** values of its inputs that are numbers, as a JSON list */
    readonly input_values?: string | null;
    /** innermost frame of its Python call stack */
    readonly frame?: string | null;
    /** Python call stack, innermost frame first */
    readonly call_stack?: string | null;
    /** number of calls, those inside another call of it included; each replay of a graph counts for what was captured in it (count) */
    readonly calls?: number | null;
    /** summed duration of the kernels, copies and fills that it launched itself (ns) */
    readonly device_self_ns?: number | null;
    /** its part of all device work (ratio) */
    readonly device_share_ratio?: number | null;
    /** the same with what the operators below it launched (ns) */
    readonly device_total_ns?: number | null;
    /** kernels, copies and fills it launched itself (count) */
    readonly device_events?: number | null;
    /** time on the host, less all that ran inside it (ns) */
    readonly host_self_ns?: number | null;
    /** its part of all operators' host self time (ratio) */
    readonly host_share_ratio?: number | null;
    /** time on the host, with all that ran inside it (ns) */
    readonly host_total_ns?: number | null;
    /** mean duration of a call on the host (ns) */
    readonly host_mean_ns?: number | null;
    /** mean time from a call's start to the start of the first device work launched in it (ns) */
    readonly first_delay_ns?: number | null;
    /** mean time from a call's start to the end of the last device work launched in it (ns) */
    readonly last_delay_ns?: number | null;
    /** whether tensor cores could do what the operator does */
    readonly tensor_core_eligible?: boolean | null;
    /** the part of its device self time that ran in kernels which use tensor cores (ratio) */
    readonly tensor_core_ratio?: number | null;
    /** where the kernels that it launched itself come from, by their names, most time first */
    readonly library?: string | null;
  };
  /** Which kernels does the device spend its time on? */
  "kernels": {
    /** name of the kernel */
    readonly name?: string | null;
    /** computation or communication */
    readonly kind?: string | null;
    /** CUDA graph that replayed it */
    readonly graph_id?: number | null;
    /** its node in that graph */
    readonly graph_node_id?: number | null;
    /** blocks of the grid: x,y,z */
    readonly grid?: string | null;
    /** threads of a block: x,y,z */
    readonly block?: string | null;
    /** registers of a thread */
    readonly registers_per_thread?: number | null;
    /** shared memory of a block (bytes) */
    readonly shared_memory_bytes?: number | null;
    /** priority of its stream, the lower the sooner */
    readonly priority?: number | null;
    /** file of the generated code that its operator ran */
    readonly source_file?: string | null;
    /** compiler of that code */
    readonly backend?: string | null;
    /** block sizes, warps and stages it was launched with */
    readonly launch_options?: string | null;
    /** call of a graph of torch.compile that it is part of */
    readonly compiled_graph?: string | null;
    /** lines of the program that it computes, as a JSON list, where Inductor wrote them down */
    readonly program_lines?: string | null;
    /** modules of the program whose parameters it uses, as a JSON list, likewise */
    readonly program_modules?: string | null;
    /** innermost operator that launched it; by name, the one that did most often, of several the first in the alphabet */
    readonly operator?: string | null;
    /** innermost frame of that operator's Python call stack */
    readonly frame?: string | null;
    /** that call stack, innermost frame first */
    readonly call_stack?: string | null;
    /** number of kernels (count) */
    readonly count?: number | null;
    /** summed duration (ns) */
    readonly total_ns?: number | null;
    /** its part of the summed duration of all kernels (ratio) */
    readonly share_ratio?: number | null;
    /** mean duration (ns) */
    readonly mean_ns?: number | null;
    /** median duration (ns) */
    readonly median_ns?: number | null;
    /** shortest duration (ns) */
    readonly min_ns?: number | null;
    /** longest duration (ns) */
    readonly max_ns?: number | null;
    /** sample standard deviation of the duration (ns) */
    readonly std_ns?: number | null;
    /** blocks per multiprocessor, mean weighted by duration */
    readonly blocks_per_sm?: number | null;
    /** estimated achieved occupancy, mean weighted by duration (ratio) */
    readonly occupancy_ratio?: number | null;
    /** what keeps more blocks from a multiprocessor; launches of it that differ are separated by ; */
    readonly occupancy_limit?: string | null;
    /** the part of its time that tensor cores could have done (ratio) */
    readonly tensor_core_eligible_ratio?: number | null;
    /** whether it uses tensor cores; empty where its name does not tell */
    readonly tensor_core_used?: boolean | null;
    /** where it comes from, by its name */
    readonly library?: string | null;
    /** operators that a generated kernel fuses, by its name */
    readonly fused_operators?: string | null;
    /** whether it multiplies matrices and exchanges data with other ranks in one, by its name */
    readonly fused_communication?: boolean | null;
  };
  /** Which kernels run for a few microseconds only, how many are there, and how long do they take? */
  "short-kernels": {
    /** name of the kernel */
    readonly name?: string | null;
    /** innermost operator that launched it */
    readonly operator?: string | null;
    /** shortest duration of the bin (ns) */
    readonly from_ns?: number | null;
    /** the bin's durations are shorter than this (ns) */
    readonly to_ns?: number | null;
    /** short kernels (count) */
    readonly count?: number | null;
    /** their part of the number of all kernels (ratio) */
    readonly count_ratio?: number | null;
    /** their summed duration (ns) */
    readonly total_ns?: number | null;
    /** its part of the summed duration of all kernels (ratio) */
    readonly share_ratio?: number | null;
    /** mean duration (ns) */
    readonly mean_ns?: number | null;
    /** shortest duration (ns) */
    readonly min_ns?: number | null;
    /** longest duration (ns) */
    readonly max_ns?: number | null;
  };
  /** Which parts of the model take the time, forward and backward? */
  "modules": {
    /** last part of the module's path */
    readonly name?: string | null;
    /** path of the module from the root of the model */
    readonly path?: string | null;
    /** class of the module */
    readonly class?: string | null;
    /** whether it is a piece of code that torch.compile made, and no layer of the model */
    readonly compiled?: boolean | null;
    /** number of modules above it */
    readonly depth?: number | null;
    /** module it is part of */
    readonly parent_path?: string | null;
    /** forward calls (count) */
    readonly calls?: number | null;
    /** device work of the module and of all below it (ns) */
    readonly device_total_ns?: number | null;
    /** its part of all device work (ratio) */
    readonly share_ratio?: number | null;
    /** device work of the module itself (ns) */
    readonly device_self_ns?: number | null;
    /** the forward's part of the total (ns) */
    readonly forward_device_ns?: number | null;
    /** the backward's part of the total (ns) */
    readonly backward_device_ns?: number | null;
    /** host time of the module and of all below it (ns) */
    readonly host_total_ns?: number | null;
    /** host time of the module itself (ns) */
    readonly host_self_ns?: number | null;
    /** the forward's part of the host total (ns) */
    readonly forward_host_ns?: number | null;
    /** the backward's part of the host total (ns) */
    readonly backward_host_ns?: number | null;
  };
  /** Which calls does the time go to, and what leads to them? */
  "call-tree": {
    /** what is called: an operator, a range, a Python function, a runtime call */
    readonly name?: string | null;
    /** operator, annotation, runtime, python, overhead, other, or thread */
    readonly kind?: string | null;
    /** number of rows above it */
    readonly depth?: number | null;
    /** number of the row */
    readonly id?: number | null;
    /** number of the row that it is part of */
    readonly parent?: number | null;
    /** number of calls (count) */
    readonly calls?: number | null;
    /** time on the host, that of all rows below it included (ns) */
    readonly host_total_ns?: number | null;
    /** its part of all threads' time (ratio) */
    readonly host_share_ratio?: number | null;
    /** time on the host that no row below it accounts for (ns) */
    readonly host_self_ns?: number | null;
    /** summed duration of the kernels, copies and fills that were launched in it and below it (ns) */
    readonly device_total_ns?: number | null;
    /** its part of all such work (ratio) */
    readonly device_share_ratio?: number | null;
    /** the part of it that no row below it accounts for (ns) */
    readonly device_self_ns?: number | null;
  };
  /** What is copied and filled on the device, and how fast? */
  "copies": {
    /** HtoD, DtoH, DtoD, HtoH, PtoP or unknown; fill for a memset */
    readonly direction?: string | null;
    /** host memory of the copy: pinned, pageable, device or unknown */
    readonly memory_kind?: string | null;
    /** smallest size of the bucket (bytes) */
    readonly from_bytes?: number | null;
    /** size at which the bucket ends (bytes) */
    readonly below_bytes?: number | null;
    /** the host memory was pageable: the copy goes through a buffer and holds the host up */
    readonly pageable?: boolean | null;
    /** number of copies or fills (count) */
    readonly count?: number | null;
    /** summed size (bytes) */
    readonly bytes?: number | null;
    /** summed duration (ns) */
    readonly total_ns?: number | null;
    /** its part of the duration of all copies and fills (ratio) */
    readonly share_ratio?: number | null;
    /** mean duration (ns) */
    readonly mean_ns?: number | null;
    /** shortest duration (ns) */
    readonly min_ns?: number | null;
    /** longest duration (ns) */
    readonly max_ns?: number | null;
    /** summed size over summed duration (bytes/s) */
    readonly bandwidth_bytes_per_s?: number | null;
    /** bandwidth of the slowest (bytes/s) */
    readonly min_bandwidth_bytes_per_s?: number | null;
    /** bandwidth of the fastest (bytes/s) */
    readonly max_bandwidth_bytes_per_s?: number | null;
  };
  /** How long do launch calls, queueing and kernels take, and which launches stand out? */
  "launches": {
    /** rank of the process */
    readonly rank?: number | null;
    /** name of the kernel; of a launch of several, the one that started first */
    readonly name?: string | null;
    /** name of the runtime or driver call that launched */
    readonly call?: string | null;
    /** kernels whose launch is known (count) */
    readonly kernels?: number | null;
    /** calls that launched them (count) */
    readonly launches?: number | null;
    /** A: summed duration of the launch calls (ns) */
    readonly api_ns?: number | null;
    /** A: mean (ns) */
    readonly api_mean_ns?: number | null;
    /** A: median (ns) */
    readonly api_median_ns?: number | null;
    /** launches whose first kernel started after the call had ended (count) */
    readonly queued?: number | null;
    /** Q: summed time from the end of those calls to the first kernel (ns) */
    readonly queue_ns?: number | null;
    /** Q: mean over those launches (ns) */
    readonly queue_mean_ns?: number | null;
    /** Q: median over those launches (ns) */
    readonly queue_median_ns?: number | null;
    /** K: summed duration of the kernels (ns) */
    readonly kernel_ns?: number | null;
    /** K: mean (ns) */
    readonly kernel_mean_ns?: number | null;
    /** K: median (ns) */
    readonly kernel_median_ns?: number | null;
    /** T: summed time from the call's start to the end of call and kernels (ns) */
    readonly total_ns?: number | null;
    /** T: mean (ns) */
    readonly total_mean_ns?: number | null;
    /** T: median (ns) */
    readonly total_median_ns?: number | null;
    /** launches of at most 50 µs that took the host longer than their kernels took the device (count) */
    readonly short_kernels?: number | null;
    /** launch calls longer than 50 µs (count) */
    readonly slow_calls?: number | null;
    /** launches whose kernel started more than 100 µs after the call (count) */
    readonly late_starts?: number | null;
    /** kernels whose launch is not known; they are in no other figure (count) */
    readonly unlinked?: number | null;
  };
  /** When was each device and stream idle, and why? */
  "idle": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** index of the device in its process */
    readonly device?: number | null;
    /** stream; empty for the device itself */
    readonly stream?: number | null;
    /** host wait, kernel wait, other, unlinked, or no work follows */
    readonly cause?: string | null;
    /** what the host did for the largest part of these gaps; only in the row of the device itself */
    readonly host?: string | null;
    /** innermost frame of the program that covers at least half of the longest of these gaps; only in the row of the device itself */
    readonly frame?: string | null;
    /** times in which nothing ran (count) */
    readonly gaps?: number | null;
    /** their summed length (ns) */
    readonly idle_ns?: number | null;
    /** the part of the device's, or stream's, idle time (ratio) */
    readonly share_ratio?: number | null;
    /** the longest of them (ns) */
    readonly max_gap_ns?: number | null;
  };
  /** How much work was queued ahead on each stream, and for how long was the queue empty? */
  "queue": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** index of the device in its process */
    readonly device?: number | null;
    /** stream; empty for all streams of the device together */
    readonly stream?: number | null;
    /** number of the step, as the program counts */
    readonly step?: number | null;
    /** start of the window, since the run's start (ns) */
    readonly start_ns?: number | null;
    /** length of the window (ns) */
    readonly window_ns?: number | null;
    /** kernels, copies and fills that started in the window (count) */
    readonly started?: number | null;
    /** those whose launch is not known (count) */
    readonly unlinked?: number | null;
    /** mean number of pieces of work in the queue (count) */
    readonly mean_queued?: number | null;
    /** most pieces of work in the queue at one time (count) */
    readonly max_queued?: number | null;
    /** most launches outstanding on a stream at one time, a graph's kernels as one (count) */
    readonly max_launches?: number | null;
    /** launches outstanding on a stream had reached the limit (ns) */
    readonly blocked_ns?: number | null;
    /** at least one piece of work was in the queue (ns) */
    readonly queued_ns?: number | null;
    /** the queue was empty, and work was running (ns) */
    readonly running_ns?: number | null;
    /** the queue was empty, and nothing was running (ns) */
    readonly starved_ns?: number | null;
    /** the part of the window in which the queue was empty (ratio) */
    readonly empty_ratio?: number | null;
  };
  /** Which chain of work and waits decided how long the steps took? */
  "critical-path": {
    /** which of the ranks' recordings, from 0 */
    readonly span?: number | null;
    /** number of the step, as the program counts; empty between steps */
    readonly step?: number | null;
    /** rank on which the path ran; empty where none is known */
    readonly rank?: number | null;
    /** start, since the run's start (ns) */
    readonly start_ns?: number | null;
    /** kind of work or of waiting */
    readonly kind?: string | null;
    /** class of work of what computes */
    readonly class?: string | null;
    /** operator, call, range, kernel or copy */
    readonly name?: string | null;
    /** operator that it is, or that launched it */
    readonly operator?: string | null;
    /** module that it belongs to */
    readonly module?: string | null;
    /** pieces of the path (count) */
    readonly pieces?: number | null;
    /** time on the path (ns) */
    readonly path_ns?: number | null;
    /** the same in a step (ns) */
    readonly step_ns?: number | null;
    /** the part of the steps' time (ratio) */
    readonly share_ratio?: number | null;
    /** what has the most time in it */
    readonly largest?: string | null;
    /** and how much of it (ns) */
    readonly largest_part_ns?: number | null;
    /** time on the path: operator, between operators, runtime call, profiler (ns) */
    readonly host_ns?: number | null;
    /** time on the path: input wait (ns) */
    readonly input_ns?: number | null;
    /** time on the path: launch, launch delay (ns) */
    readonly launch_ns?: number | null;
    /** time on the path: computation (ns) */
    readonly computation_ns?: number | null;
    /** time on the path: transfer, communication (ns) */
    readonly transfer_ns?: number | null;
    /** time on the path: waiting for a rank (ns) */
    readonly waiting_ns?: number | null;
    /** time on the path: copy (ns) */
    readonly copy_ns?: number | null;
    /** time on the path: synchronization (ns) */
    readonly synchronization_ns?: number | null;
    /** time on the path: kernel gap, unexplained (ns) */
    readonly idle_ns?: number | null;
    /** time of the step: the sum of the parts (ns) */
    readonly total_ns?: number | null;
  };
  /** How long would a step take if something were faster, or were not there? */
  "what-if": {
    /** which of the ranks' recordings, from 0 */
    readonly span?: number | null;
    /** what would be otherwise */
    readonly change?: string | null;
    /** mean time of a rank's step that would follow (ns) */
    readonly step_ns?: number | null;
    /** how much less that is than recorded (ns) */
    readonly saved_ns?: number | null;
    /** the part of the recorded step (ratio) */
    readonly saved_ratio?: number | null;
    /** what it saves a step even where unexplained waits stay (ns) */
    readonly at_least_ns?: number | null;
    /** what it saves a step at most (ns) */
    readonly at_most_ns?: number | null;
  };
  /** Which streams waited for which, and how often did the host wait for the device? */
  "synchronizations": {
    /** rank of the process */
    readonly rank?: number | null;
    /** index of the device in its process */
    readonly device?: number | null;
    /** Stream Wait Event, Event Sync, Stream Sync, Context Sync, ... */
    readonly kind?: string | null;
    /** who waits for what: host for device (all its streams), host for stream, host for event, stream for event */
    readonly waits?: string | null;
    /** stream that waited, or was waited for; empty where it is all or none */
    readonly stream?: number | null;
    /** stream that recorded the event which was waited for */
    readonly on_stream?: number | null;
    /** how often (count) */
    readonly count?: number | null;
    /** summed duration (ns) */
    readonly total_ns?: number | null;
    /** mean duration (ns) */
    readonly mean_ns?: number | null;
    /** longest duration (ns) */
    readonly max_ns?: number | null;
  };
  /** How much of the time did kernels run, and how much of the device did they fill? */
  "utilization": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** index of the device in its process */
    readonly device?: number | null;
    /** number of the step, as the program counts */
    readonly step?: number | null;
    /** start of the window, since the run's start (ns) */
    readonly start_ns?: number | null;
    /** length of the window (ns) */
    readonly window_ns?: number | null;
    /** at least one kernel was running (ns) */
    readonly kernel_ns?: number | null;
    /** the part of the window that this is (GPU utilisation) (ratio) */
    readonly utilization_ratio?: number | null;
    /** mean part of the multiprocessors that had a block, estimated (ratio) */
    readonly sm_efficiency_ratio?: number | null;
    /** mean achieved occupancy of the kernels, estimated (ratio) */
    readonly occupancy_ratio?: number | null;
    /** the part of the kernels' summed duration whose blocks per multiprocessor were recorded (ratio) */
    readonly described_ratio?: number | null;
  };
  /** How do the ranks compare: step time, computation, exposed communication, copies and idle time? */
  "rank-overview": {
    /** rank of the process */
    readonly rank?: number | null;
    /** steps that count (count) */
    readonly steps?: number | null;
    /** mean length of a step (ns) */
    readonly step_ns?: number | null;
    /** these steps together, once for each device of the rank (ns) */
    readonly span_ns?: number | null;
    /** kernels that compute, and fills, ran (ns) */
    readonly computation_ns?: number | null;
    /** the part of the span that this is (ratio) */
    readonly computation_ratio?: number | null;
    /** communication kernels ran and no computation did (ns) */
    readonly exposed_communication_ns?: number | null;
    /** the part of the span that this is (ratio) */
    readonly exposed_communication_ratio?: number | null;
    /** copies ran and nothing else did (ns) */
    readonly exposed_copy_ns?: number | null;
    /** the part of the span that this is (ratio) */
    readonly exposed_copy_ratio?: number | null;
    /** nothing ran (ns) */
    readonly idle_ns?: number | null;
    /** the part of the span that this is (ratio) */
    readonly idle_ratio?: number | null;
    /** the part of the span in which a kernel ran, communication among them (ratio) */
    readonly utilization_ratio?: number | null;
    /** waited for other ranks in collectives, beside computation or not (ns) */
    readonly waiting_ns?: number | null;
    /** the part of its steps that this is (ratio) */
    readonly waiting_ratio?: number | null;
    /** which stage of a pipeline it is, from 0 */
    readonly stage?: number | null;
    /** waited for other stages of its pipeline while its devices computed and copied nothing (ns) */
    readonly bubble_ns?: number | null;
    /** the part of its steps that this is (ratio) */
    readonly bubble_ratio?: number | null;
    /** measures in which the rank differs from the others, and how far; of a damaged rank, that it is */
    readonly differs?: string | null;
    /** name of the node, where the recording says so */
    readonly host?: string | null;
  };
  /** How does one measure differ over ranks and steps? */
  "rank-map": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** number of the step, as the program counts */
    readonly step?: number | null;
    /** the measure, summed over the rank's devices (ns) */
    readonly value_ns?: number | null;
    /** the part of the step that this is; of several devices, of theirs (ratio) */
    readonly share_ratio?: number | null;
    /** whether means are made of the step; of no step of a damaged rank */
    readonly counted?: boolean | null;
  };
  /** Which ranks do the others wait for in collectives, and why are these late? */
  "stragglers": {
    /** rank that others waited for */
    readonly rank?: number | null;
    /** number of the step, as the program counts */
    readonly step?: number | null;
    /** what it did longer than those that waited for it */
    readonly cause?: string | null;
    /** when the late rank arrived, since the run's start (ns) */
    readonly start_ns?: number | null;
    /** all_reduce, all_gather, reduce_scatter, all_to_all, ... */
    readonly operation?: string | null;
    /** name of the process group */
    readonly group?: string | null;
    /** size of its message, as nccl-tests counts it (bytes) */
    readonly message_bytes?: number | null;
    /** whether it is a straggler, as `findings` has it */
    readonly late?: boolean | null;
    /** collectives at which it arrived last (count) */
    readonly last?: number | null;
    /** the part of those it took part in whose last rank is known (ratio) */
    readonly last_ratio?: number | null;
    /** what others waited for it, of all ranks together (ns) */
    readonly waited_by_others_ns?: number | null;
    /** what these waits cost the others, by origin: with waits for ranks that had waited for it, without what it passed on (ns) */
    readonly charged_ns?: number | null;
    /** what one of the others loses by it in a mean step (ns) */
    readonly late_ns?: number | null;
    /** the part of the mean step that this is (ratio) */
    readonly step_ratio?: number | null;
    /** the part of all that the rank did longer (ratio) */
    readonly share_ratio?: number | null;
    /** what the rank waited that waited longest (ns) */
    readonly longest_ns?: number | null;
    /** which rank that was */
    readonly longest_rank?: number | null;
    /** what it waited itself, for all others (ns) */
    readonly waited_ns?: number | null;
    /** what it did longer than those that waited for it */
    readonly why?: string | null;
    /** of what is charged: it waited longer for its DataLoader (ns) */
    readonly input_ns?: number | null;
    /** of what is charged: its kernels computed longer (ns) */
    readonly computation_ns?: number | null;
    /** of what is charged: its copies took longer (ns) */
    readonly copies_ns?: number | null;
    /** of what is charged: its other collectives took longer, beside waiting (ns) */
    readonly communication_ns?: number | null;
    /** of what is charged: Python collected garbage longer (ns) */
    readonly garbage_collection_ns?: number | null;
    /** of what is charged: it compiled longer (ns) */
    readonly compilation_ns?: number | null;
    /** of what is charged: operators, Python and runtime calls took longer while its device had nothing to do (ns) */
    readonly host_ns?: number | null;
    /** of what is charged: its profiler worked longer (ns) */
    readonly profiler_ns?: number | null;
    /** of what is charged: nothing was recorded for longer (ns) */
    readonly not_recorded_ns?: number | null;
    /** of what is charged: it lies before its recording starts (ns) */
    readonly before_ns?: number | null;
  };
  /** Do kernels, operators or steps take longer and longer over the recording? */
  "drift": {
    /** rank of the process */
    readonly rank?: number | null;
    /** name of the kernel or operator; `all kernels` for all that compute */
    readonly name?: string | null;
    /** durations from here on (ns) */
    readonly from_ns?: number | null;
    /** and below (ns) */
    readonly to_ns?: number | null;
    /** slower, faster, or steady */
    readonly trend?: string | null;
    /** how much longer at the end than at the start (ratio) */
    readonly change_ratio?: number | null;
    /** lower end of its 95 % interval (ratio) */
    readonly low_ratio?: number | null;
    /** upper end of its 95 % interval (ratio) */
    readonly high_ratio?: number | null;
    /** median duration (ns) */
    readonly median_ns?: number | null;
    /** 95th percentile of the durations (ns) */
    readonly p95_ns?: number | null;
    /** what the median takes in the first fifth of the steps (ns) */
    readonly first_ns?: number | null;
    /** and in the last fifth (ns) */
    readonly last_ns?: number | null;
    /** kernels, calls or steps (count) */
    readonly events?: number | null;
    /** events more than twice as long as the median of those alike (count) */
    readonly outliers?: number | null;
    /** summed duration (ns) */
    readonly total_ns?: number | null;
    /** steps that the trend is drawn through (count) */
    readonly steps?: number | null;
    /** the part of the events of the name (ratio) */
    readonly share_ratio?: number | null;
    /** the same as a bar */
    readonly bar?: string | null;
  };
  /** What do the ranks communicate, how long do they wait for it, and how fast is it? */
  "communication": {
    /** innermost module that it was launched in; of a gradient, none */
    readonly module?: string | null;
    /** rank of the process */
    readonly rank?: number | null;
    /** number of the step that launched it, as the program counts */
    readonly step?: number | null;
    /** all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, ... */
    readonly operation?: string | null;
    /** data, tensor, pipeline, expert or context; empty where nothing tells */
    readonly parallelism?: string | null;
    /** what tells: description, gradients, FSDP, DDP, module class or neighbours */
    readonly told_by?: string | null;
    /** name of the process group */
    readonly group?: string | null;
    /** its description */
    readonly description?: string | null;
    /** its ranks */
    readonly ranks?: string | null;
    /** ranks in the group (count) */
    readonly group_size?: number | null;
    /** element type */
    readonly dtype?: string | null;
    /** size of one, as nccl-tests counts it (bytes) */
    readonly message_bytes?: number | null;
    /** nccl, rccl, gloo, mpi, symmetric_memory, custom, ... */
    readonly library?: string | null;
    /** intra_node or inter_node, where the nodes of its ranks are known */
    readonly reach?: string | null;
    /** collectives, each counted on every rank (count) */
    readonly calls?: number | null;
    /** of how many it was measured how long they waited (count) */
    readonly measured?: number | null;
    /** their summed duration, waiting included (ns) */
    readonly total_ns?: number | null;
    /** their mean duration (ns) */
    readonly mean_ns?: number | null;
    /** the part in which the device computed nothing (ns) */
    readonly exposed_ns?: number | null;
    /** the part of the duration that this is (ratio) */
    readonly exposed_ratio?: number | null;
    /** the part until the last rank arrived, of the measured ones (ns) */
    readonly wait_ns?: number | null;
    /** the rest of the duration of the measured ones (ns) */
    readonly transfer_ns?: number | null;
    /** their messages together (bytes) */
    readonly moved_bytes?: number | null;
    /** size over time (bytes/s) */
    readonly algorithm_bytes_per_s?: number | null;
    /** what the busiest link carried over time (bytes/s) */
    readonly bus_bytes_per_s?: number | null;
    /** the time that bandwidths are over: transfer, or duration */
    readonly bandwidth_over?: string | null;
  };
  /** How much communication is hidden under computation, and which kernels does it slow? */
  "overlap": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** index of the device in its process */
    readonly device?: number | null;
    /** number of the step, as the program counts */
    readonly step?: number | null;
    /** communication kernels ran (ns) */
    readonly communication_ns?: number | null;
    /** the part of it in which the device computed (ns) */
    readonly hidden_ns?: number | null;
    /** the part in which it did not (ns) */
    readonly exposed_ns?: number | null;
    /** hidden as a part of communication (ratio) */
    readonly overlap_ratio?: number | null;
    /** kernels that compute, and fills, ran (ns) */
    readonly computation_ns?: number | null;
    /** hidden as a part of computation (ratio) */
    readonly beside_ratio?: number | null;
    /** name of the kernel */
    readonly name?: string | null;
    /** innermost operator that launched it */
    readonly operator?: string | null;
    /** blocks of the grid: x,y,z */
    readonly grid?: string | null;
    /** threads of a block: x,y,z */
    readonly block?: string | null;
    /** shapes of the operator's inputs, as a JSON list */
    readonly input_dims?: string | null;
    /** runs beside communication (count) */
    readonly beside?: number | null;
    /** runs without (count) */
    readonly alone?: number | null;
    /** mean duration of those without (ns) */
    readonly alone_mean_ns?: number | null;
    /** mean duration of those beside communication (ns) */
    readonly beside_mean_ns?: number | null;
    /** by how much a run beside it takes longer (ratio) */
    readonly slower_ratio?: number | null;
    /** lower end of the 95 % interval of that (ratio) */
    readonly slower_low_ratio?: number | null;
    /** upper end (ratio) */
    readonly slower_high_ratio?: number | null;
    /** by how much the runs beside it took longer together (ns) */
    readonly longer_ns?: number | null;
  };
  /** How long did computation, communication and copies run alone, and how long at once? */
  "kernel-types": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** index of the device in its process */
    readonly device?: number | null;
    /** number of the step, as the program counts */
    readonly step?: number | null;
    /** what ran at once, and nothing else: computation, communication, copy, or idle */
    readonly types?: string | null;
    /** how long just these ran (ns) */
    readonly time_ns?: number | null;
    /** the part of the time looked at that this is (ratio) */
    readonly span_ratio?: number | null;
    /** the part of the time in which anything ran that this is (ratio) */
    readonly busy_ratio?: number | null;
  };
  /** How much did each rank send to each other in all-to-all exchanges, and how evenly? */
  "all-to-all": {
    /** name of the process group */
    readonly group?: string | null;
    /** rank of the process */
    readonly rank?: number | null;
    /** rank that sent */
    readonly source?: number | null;
    /** rank that received */
    readonly destination?: number | null;
    /** exchanges (count) */
    readonly calls?: number | null;
    /** what it sent to it (bytes) */
    readonly bytes?: number | null;
    /** its part of all that is listed of the group (ratio) */
    readonly share_ratio?: number | null;
    /** what it sent, to itself too (bytes) */
    readonly sent_bytes?: number | null;
    /** that over the mean of the group's ranks */
    readonly sent_over_mean?: number | null;
    /** what it received, from itself too (bytes) */
    readonly received_bytes?: number | null;
    /** that over the mean of the group's ranks */
    readonly received_over_mean?: number | null;
    /** when its first rank started, since the run's start (ns) */
    readonly start_ns?: number | null;
    /** ranks that took part (count) */
    readonly ranks?: number | null;
    /** what they received together (bytes) */
    readonly total_bytes?: number | null;
    /** what the rank received that received most, over their mean */
    readonly most_over_mean?: number | null;
    /** that rank; empty where all received alike */
    readonly most_on_rank?: number | null;
  };
  /** Which kinds of work take the device's time? */
  "classes": {
    /** innermost module that the work belongs to */
    readonly module?: string | null;
    /** class of work */
    readonly class?: string | null;
    /** kernels, copies and fills (count) */
    readonly count?: number | null;
    /** their summed duration (ns) */
    readonly device_ns?: number | null;
    /** part of all device work (ratio) */
    readonly share_ratio?: number | null;
    /** the forward's part (ns) */
    readonly forward_ns?: number | null;
    /** the backward's part (ns) */
    readonly backward_ns?: number | null;
    /** kernel with the most time in it */
    readonly main_kernel?: string | null;
  };
  /** How close did each operator and kernel run to what the device can do? */
  "roofline": {
    /** operator, kernel or module */
    readonly name?: string | null;
    /** shapes of the operator's inputs, as a JSON list */
    readonly input_dims?: string | null;
    /** types of the operator's inputs, as a JSON list */
    readonly input_types?: string | null;
    /** element type whose peak bounds the arithmetic */
    readonly dtype?: string | null;
    /** calls of the operator; runs of the kernel (count) */
    readonly count?: number | null;
    /** summed duration of its kernels, copies and fills (ns) */
    readonly device_ns?: number | null;
    /** its part of all device work (ratio) */
    readonly share_ratio?: number | null;
    /** what limits it: compute, memory, link or host link; or that no peak is known */
    readonly bound?: string | null;
    /** attainable time as a part of device time (ratio) */
    readonly attainable_ratio?: number | null;
    /** time that the same work takes at the limit (ns) */
    readonly attainable_ns?: number | null;
    /** operations (a multiply-add is 2) (flop) */
    readonly flops?: number | null;
    /** least bytes to read and write (bytes) */
    readonly moved_bytes?: number | null;
    /** operations a byte */
    readonly intensity?: number | null;
    /** operations a second of device time (flop/s) */
    readonly flop_per_s?: number | null;
    /** bytes a second of device time (bytes/s) */
    readonly bytes_per_s?: number | null;
    /** the device's peak for the type (flop/s) */
    readonly peak_flop_per_s?: number | null;
    /** bandwidth of what bounds its bytes (bytes/s) */
    readonly peak_bytes_per_s?: number | null;
    /** part of its time whose work is counted (ratio) */
    readonly counted_ratio?: number | null;
    /** device that it ran on */
    readonly device_name?: string | null;
    /** operations that hardware counters counted in its kernels (flop) */
    readonly counted_flops?: number | null;
    /** bytes of device memory that they counted (bytes) */
    readonly counted_dram_bytes?: number | null;
    /** bytes of L2 that they counted (bytes) */
    readonly counted_l2_bytes?: number | null;
    /** bytes of L1 that they counted (bytes) */
    readonly counted_l1_bytes?: number | null;
    /** part of its time whose kernels were measured; the figures are of that part (ratio) */
    readonly measured_ratio?: number | null;
    /** counted operations over those of the formula, where all its time was measured */
    readonly flops_of_model?: number | null;
    /** counted bytes of device memory over the formula's least, likewise */
    readonly bytes_of_model?: number | null;
    /** what to know about these numbers */
    readonly note?: string | null;
  };
  /** What fraction of the device's peak did the model's arithmetic reach? */
  "efficiency": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** index of the device in its process */
    readonly device?: number | null;
    /** number of the step, as the program counts */
    readonly step?: number | null;
    /** module, with all modules below it */
    readonly module?: string | null;
    /** duration of the step; device time of the module (ns) */
    readonly time_ns?: number | null;
    /** summed duration of its device work (ns) */
    readonly device_ns?: number | null;
    /** model FLOPs utilisation: products' ideal time over time (ratio) */
    readonly mfu_ratio?: number | null;
    /** attainable time as a part of device time (ratio) */
    readonly attainable_ratio?: number | null;
    /** FLOP coverage: part of device time counted (ratio) */
    readonly coverage_ratio?: number | null;
    /** what is wrong with this row, where something is */
    readonly finding?: string | null;
    /** operations of all that is counted (flop) */
    readonly flops?: number | null;
    /** operations of products only (flop) */
    readonly matrix_flops?: number | null;
    /** operations a second of time (flop/s) */
    readonly flop_per_s?: number | null;
    /** element type of most of the products' operations */
    readonly dtype?: string | null;
    /** the device's peak for that type (flop/s) */
    readonly peak_flop_per_s?: number | null;
    /** device that it ran on */
    readonly device_name?: string | null;
    /** what is not counted, with its part of device time */
    readonly uncounted?: string | null;
  };
  /** Which work could run on tensor cores, which does, and why does the rest not? */
  "tensor-cores": {
    /** rank of the process */
    readonly rank?: number | null;
    /** index of the device in its process */
    readonly device?: number | null;
    /** device that it ran on */
    readonly device_name?: string | null;
    /** operator that launched the kernels */
    readonly operator?: string | null;
    /** shapes of its inputs, as a JSON list */
    readonly input_dims?: string | null;
    /** name of the kernel */
    readonly kernel?: string | null;
    /** summed duration of kernels (ns) */
    readonly kernel_ns?: number | null;
    /** its part of all kernels' time, that of damaged ranks left out; NULL for one of these (ratio) */
    readonly share_ratio?: number | null;
    /** time of kernels that could use tensor cores (ns) */
    readonly eligible_ns?: number | null;
    /** their part of kernel time (ratio) */
    readonly eligible_ratio?: number | null;
    /** time of kernels that do use them (ns) */
    readonly used_ns?: number | null;
    /** their part of kernel time (ratio) */
    readonly used_ratio?: number | null;
    /** eligible time whose kernels' names do not tell (ns) */
    readonly unknown_ns?: number | null;
    /** whose instructions the kernel uses */
    readonly generation?: string | null;
    /** element type of the operator's inputs */
    readonly dtype?: string | null;
    /** why eligible time is not on tensor cores, the longest first */
    readonly why_not?: string | null;
    /** what keeps used tensor cores from their speed */
    readonly slowed_by?: string | null;
  };
  /** Which kernels are most worth making faster? */
  "priorities": {
    /** 0 to 100: 100 is the kernel most worth making faster */
    readonly priority?: number | null;
    /** name of the kernel */
    readonly kernel?: string | null;
    /** class of its work */
    readonly class?: string | null;
    /** operator that spends most time in it */
    readonly operator?: string | null;
    /** how often it ran (count) */
    readonly count?: number | null;
    /** summed duration (ns) */
    readonly device_ns?: number | null;
    /** part of all device work (ratio) */
    readonly share_ratio?: number | null;
    /** achieved occupancy, by duration: as counters measured it, else as the recorder estimates it (ratio) */
    readonly occupancy_ratio?: number | null;
    /** attainable time as a part of its time (ratio) */
    readonly attainable_ratio?: number | null;
    /** what limits it: compute, memory, link or host link */
    readonly bound?: string | null;
    /** time that would go if it ran at the limit (ns) */
    readonly saving_ns?: number | null;
    /** part of the device that counters show closest to its peak */
    readonly limiter?: string | null;
    /** how close, of its peak (ratio) */
    readonly limiter_ratio?: number | null;
    /** what the priority is judged by: limit, counters, occupancy or only time */
    readonly basis?: string | null;
  };
  /** What launched each kernel, with what shapes, and how much work did it do? */
  "prof": {
    /** rank of the process */
    readonly rank?: number | null;
    /** number of the kernel, from 1, in the order they start */
    readonly idx?: number | null;
    /** autograd's number of the nearest operator that has one */
    readonly seq?: number | null;
    /** that of the outermost operator around it, where another */
    readonly altseq?: number | null;
    /** host thread that launched it */
    readonly tid?: string | null;
    /** module, or else the program's own ranges, outermost first */
    readonly layer?: string | null;
    /** call stack of the operator, outermost first */
    readonly trace?: string | null;
    /** fprop, bprop or optim; empty where it is not known */
    readonly dir?: string | null;
    /** which kernel of its number and direction it is, from 0 */
    readonly sub?: number | null;
    /** where the operation comes from */
    readonly mod?: string | null;
    /** operation as the program called it; in backward, that of the forward */
    readonly op?: string | null;
    /** name of the kernel, without namespaces and parameters */
    readonly kernel?: string | null;
    /** shapes, types and values that the innermost operator was given */
    readonly params?: string | null;
    /** duration of the kernel (ns) */
    readonly sil?: number | null;
    /** tensor cores: 1 used, 0 not used, - not eligible, na not known */
    readonly tc?: string | null;
    /** index of the device */
    readonly device?: number | null;
    /** stream id */
    readonly stream?: number | null;
    /** blocks of the grid: x,y,z */
    readonly grid?: string | null;
    /** threads of a block: x,y,z */
    readonly block?: string | null;
    /** floating-point operations; 0 where other kernels did them (flop) */
    readonly flops?: number | null;
    /** least bytes to read and write; 0 where other kernels did (bytes) */
    readonly bytes?: number | null;
  };
  /** What do the named ranges cost on host and device? */
  "annotations": {
    /** name of the range */
    readonly name?: string | null;
    /** NVTX domain that it belongs to */
    readonly domain?: string | null;
    /** NVTX category that it was given */
    readonly category?: string | null;
    /** names of the ranges around it and its own, outermost first */
    readonly path?: string | null;
    /** number of ranges around it */
    readonly depth?: number | null;
    /** number of ranges, those inside another of the name included (count) */
    readonly calls?: number | null;
    /** time on the host, with all that ran inside it (ns) */
    readonly host_total_ns?: number | null;
    /** time on the host, less the ranges inside it (ns) */
    readonly host_exclusive_ns?: number | null;
    /** time on the host, less all that ran inside it (ns) */
    readonly host_self_ns?: number | null;
    /** mean duration of a range on the host (ns) */
    readonly host_mean_ns?: number | null;
    /** time during which a device ran work that was launched inside it (ns) */
    readonly device_busy_ns?: number | null;
    /** summed duration of that work; work that overlaps counts as often as it does (ns) */
    readonly device_total_ns?: number | null;
    /** first start to last end of that work, summed over the ranges, gaps included (ns) */
    readonly projected_ns?: number | null;
    /** kernels, copies and fills launched inside it (count) */
    readonly device_events?: number | null;
  };
  /** In which functions of the host does the time go, and who calls them? */
  "hotspots": {
    /** function; of --by library the binary, or the file of Python code; of --by thread the thread */
    readonly function?: string | null;
    /** what the figures are of: cpu (threads on a processor), running (threads that did not wait, as the sampler judged), wall (samples by the clock, waiting included), traced (calls, from begin to end), waiting (traced threads that only waited), unknown */
    readonly clock?: string | null;
    /** binary that it is in */
    readonly library?: string | null;
    /** source file */
    readonly file?: string | null;
    /** line of the source file that ran */
    readonly line?: number | null;
    /** rank of the thread */
    readonly rank?: number | null;
    /** process of the thread, as the recorder calls it */
    readonly pid?: string | null;
    /** the thread, as the recorder calls it */
    readonly tid?: string | null;
    /** time spent in it, less what it calls (ns) */
    readonly self_ns?: number | null;
    /** its part of everything of that clock (ratio) */
    readonly self_ratio?: number | null;
    /** time spent in it and in what it calls (ns) */
    readonly total_ns?: number | null;
    /** its part of everything of that clock (ratio) */
    readonly total_ratio?: number | null;
    /** samples taken in it (count) */
    readonly self_samples?: number | null;
    /** samples taken in it and in what it calls (count) */
    readonly total_samples?: number | null;
    /** instructions retired in it, less what it calls (count) */
    readonly instructions?: number | null;
    /** clock cycles of the core an instruction, in it */
    readonly cpi?: number | null;
    /** number of rows of the tree around it */
    readonly depth?: number | null;
    /** number of the row in the tree, from 0 */
    readonly node?: number | null;
    /** node around it: what called it or, bottom-up, what it called */
    readonly parent?: number | null;
  };
  /** Which primitives of oneDNN took how long, in which implementation, and how fast were they? */
  "onednn": {
    /** convolution, matmul, reorder, ... */
    readonly primitive?: string | null;
    /** forward_training, backward_data, ...; empty where it has none */
    readonly propagation?: string | null;
    /** code that ran: jit:avx512_core, brgemm, ref:any, ... */
    readonly implementation?: string | null;
    /** cpu or gpu, where the log says so */
    readonly engine?: string | null;
    /** element types of its tensors */
    readonly types?: string | null;
    /** attributes: post-operations, scales, ... */
    readonly attributes?: string | null;
    /** algorithm and the like */
    readonly auxiliary?: string | null;
    /** the problem in benchdnn's words, or the sizes of its tensors */
    readonly shape?: string | null;
    /** how often it ran (count) */
    readonly executions?: number | null;
    /** time of all executions (ns) */
    readonly total_ns?: number | null;
    /** part of the time of all executions (ratio) */
    readonly share_ratio?: number | null;
    /** mean time of an execution (ns) */
    readonly mean_ns?: number | null;
    /** shortest execution (ns) */
    readonly min_ns?: number | null;
    /** longest execution (ns) */
    readonly max_ns?: number | null;
    /** operations of all executions (a multiply-add is 2), where a formula is known (flop) */
    readonly flops?: number | null;
    /** operations a second of their time (flop/s) */
    readonly flop_per_s?: number | null;
    /** the processor's peak for the type (flop/s) */
    readonly peak_flop_per_s?: number | null;
    /** part of that peak that was reached (ratio) */
    readonly peak_ratio?: number | null;
    /** how often it was created, where the log says so (count) */
    readonly creations?: number | null;
    /** time of all creations (ns) */
    readonly created_ns?: number | null;
  };
  /** What did the run do with the host, on one page: processors, threads, memory, files, arithmetic? */
  "snapshot": {
    /** what the metric is about */
    readonly aspect?: string | null;
    /** name of the metric */
    readonly metric?: string | null;
    /** value, the mean of the ranks */
    readonly value?: number | null;
    /** unit, as the tool spells it */
    readonly unit?: string | null;
    /** what stands in place of a number or behind it */
    readonly text?: string | null;
    /** of several ranks the smallest value */
    readonly least?: number | null;
    /** of several ranks the largest value */
    readonly most?: number | null;
    /** ranks that the value is of (count) */
    readonly ranks?: number | null;
    /** part that it is of something else (ratio) */
    readonly share_ratio?: number | null;
    /** what it is a part of */
    readonly share_of?: string | null;
    /** what it should be, where there is a known threshold */
    readonly target?: string | null;
    /** where the threshold comes from */
    readonly source?: string | null;
    /** met, missed, or flagged where its tool says that it needs a look */
    readonly judged?: string | null;
    /** what to look at next, where it is missed or flagged */
    readonly next?: string | null;
    /** what the tool itself says on it */
    readonly advice?: string | null;
    /** report that states it */
    readonly report?: string | null;
  };
  /** What does each metric of VTune, APS, perf stat and the recorder say of the host, under its own name? */
  "host-metrics": {
    /** rank that the report is of, or is kept with */
    readonly rank?: number | null;
    /** report that states it */
    readonly report?: string | null;
    /** what the subject is: Function, Module, Thread, ... */
    readonly of?: string | null;
    /** what the metric is of; empty for the complete run */
    readonly subject?: string | null;
    /** name of the metric, as the tool spells it, with those above it */
    readonly metric?: string | null;
    /** value */
    readonly value?: number | null;
    /** unit, as the tool spells it */
    readonly unit?: string | null;
    /** what the report has in place of a number, or behind it */
    readonly text?: string | null;
    /** node that the value is of, where the report names one */
    readonly host?: string | null;
    /** part that it is of something else (ratio) */
    readonly share_ratio?: number | null;
    /** what it is a part of */
    readonly share_of?: string | null;
    /** what the tool itself says on it */
    readonly advice?: string | null;
    /** false where the layout of this kind of report is known from documentation alone */
    readonly confirmed?: boolean | null;
  };
  /** How busy were multiprocessors, tensor cores, memory and links in samples of the hardware? */
  "device-metrics": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** index of the device in its process; of a network card name and port */
    readonly device?: string | null;
    /** number of the step, as the program counts */
    readonly step?: number | null;
    /** start of the window, since the run's start (ns) */
    readonly start_ns?: number | null;
    /** length of the window (ns) */
    readonly window_ns?: number | null;
    /** sm_active, tensor_active, dram_read, pcie_send, nvlink_send, ... */
    readonly metric?: string | null;
    /** unit of the values: % of what is possible, Hz, bytes/ms, ... */
    readonly unit?: string | null;
    /** moments at which it was sampled (count) */
    readonly samples?: number | null;
    /** mean value */
    readonly mean?: number | null;
    /** smallest value */
    readonly min?: number | null;
    /** largest value */
    readonly max?: number | null;
  };
  /** What did each counter measure of each kernel, or over time, under its own name? */
  "counters": {
    /** kernel that was measured, or track of a sampled counter */
    readonly name?: string | null;
    /** of a sampled counter: index of its device, or process */
    readonly pid?: string | null;
    /** name of the counter, as the recorder spells it */
    readonly counter?: string | null;
    /** values that were measured (count) */
    readonly samples?: number | null;
    /** sum of the values */
    readonly total?: number | null;
    /** mean value */
    readonly mean?: number | null;
    /** smallest value */
    readonly min?: number | null;
    /** largest value */
    readonly max?: number | null;
  };
  /** What do hardware counters say of each kernel, and what limits it? */
  "metrics": {
    /** name of the kernel */
    readonly kernel?: string | null;
    /** blocks of the grid, x,y,z */
    readonly grid?: string | null;
    /** threads of a block, x,y,z */
    readonly block?: string | null;
    /** operator of the recording that spends most time in it */
    readonly operator?: string | null;
    /** kernels of the recording that it was joined to; empty where that has none (count) */
    readonly count?: number | null;
    /** summed duration of these; where there are none, of the measured launches, which ran alone with the tool's clocks (ns) */
    readonly device_ns?: number | null;
    /** part of the time of all computing kernels of the recording (ratio) */
    readonly share_ratio?: number | null;
    /** launches that were measured (count) */
    readonly measured?: number | null;
    /** part of the device that is closest to its peak: compute, L1, L2 or DRAM */
    readonly limiter?: string | null;
    /** how close, of its peak (ratio) */
    readonly limiter_ratio?: number | null;
    /** by Nsight Compute's rule: above 80 % of compute or memory well used, below 60 % of both latency (or a small grid), else what is used more, or balanced */
    readonly verdict?: string | null;
    /** speed of light of compute: of the peak of the busiest pipe (ratio) */
    readonly compute_ratio?: number | null;
    /** speed of light of memory: of the peak of the busiest level (ratio) */
    readonly memory_ratio?: number | null;
    /** of the peak of the L1 and texture cache (ratio) */
    readonly l1_ratio?: number | null;
    /** of the peak of the L2 cache (ratio) */
    readonly l2_ratio?: number | null;
    /** of the peak of device memory (ratio) */
    readonly dram_ratio?: number | null;
    /** achieved occupancy (ratio) */
    readonly occupancy_ratio?: number | null;
    /** occupancy that the launch allows (ratio) */
    readonly theoretical_ratio?: number | null;
    /** what limits that */
    readonly occupancy_limit?: string | null;
    /** instructions a cycle of an active multiprocessor */
    readonly ipc?: number | null;
    /** cycles in which the tensor pipe was busy (ratio) */
    readonly tensor_ratio?: number | null;
    /** bytes that global loads asked for, of those moved (ratio) */
    readonly load_ratio?: number | null;
    /** bytes that global stores wrote, of those moved (ratio) */
    readonly store_ratio?: number | null;
    /** what its warps wait for longest, of the stalls that were measured */
    readonly stall?: string | null;
    /** how its launches were told among the recording's: order, place in the step, or name and shape */
    readonly joined_by?: string | null;
    /** what was measured, under one name for all tools */
    readonly metric?: string | null;
    /** mean over the kernels of the recording, or over the measured launches */
    readonly value?: number | null;
    /** unit of the value */
    readonly unit?: string | null;
    /** what it means */
    readonly meaning?: string | null;
    /** name of the metric in the tool that measured it; what follows from others has none */
    readonly measured_as?: string | null;
    /** Nsight Compute's names for it */
    readonly ncu?: string | null;
    /** nvprof's names for it */
    readonly nvprof?: string | null;
  };
  /** How much memory was allocated, when was that most, and what was it for? */
  "memory": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** cuda, rocm, ...; cpu for memory of the host */
    readonly kind?: string | null;
    /** index of the device in its process; empty for the host */
    readonly device?: number | null;
    /** format of the file that tells it */
    readonly source?: string | null;
    /** the moment: of the peak, or the one asked for (ns) */
    readonly at_ns?: number | null;
    /** training step */
    readonly step?: number | null;
    /** parameters, gradients, optimizer state, activations, temporaries, or unknown */
    readonly category?: string | null;
    /** operator that allocated it */
    readonly operator?: string | null;
    /** module in which it was allocated */
    readonly module?: string | null;
    /** call stack that allocated it, innermost frame first */
    readonly stack?: string | null;
    /** small (blocks below 1 MiB) or large */
    readonly pool?: string | null;
    /** pool of CUDA graphs; empty for the common one */
    readonly private_pool?: string | null;
    /** stream that the segments are for */
    readonly stream?: number | null;
    /** pieces of device memory that the allocator holds (count) */
    readonly segments?: number | null;
    /** what the allocation that failed asked for (bytes) */
    readonly requested_bytes?: number | null;
    /** what the device had free (bytes) */
    readonly device_free_bytes?: number | null;
    /** most that was allocated at once (bytes) */
    readonly peak_bytes?: number | null;
    /** bytes alive at the moment (bytes) */
    readonly bytes?: number | null;
    /** its part of all that is alive (ratio) */
    readonly share_ratio?: number | null;
    /** allocations that are alive at the moment (count) */
    readonly allocations?: number | null;
    /** bytes in use (bytes) */
    readonly allocated_bytes?: number | null;
    /** given back, and another stream may still use it (bytes) */
    readonly pending_bytes?: number | null;
    /** bytes that the allocator holds of the device (bytes) */
    readonly reserved_bytes?: number | null;
    /** memory of the device (bytes) */
    readonly device_bytes?: number | null;
    /** bytes that it holds and nobody uses (bytes) */
    readonly free_bytes?: number | null;
    /** largest of these in one piece (bytes) */
    readonly largest_free_bytes?: number | null;
    /** bytes of used blocks beyond what was asked for (bytes) */
    readonly rounding_bytes?: number | null;
    /** free_bytes of reserved_bytes (ratio) */
    readonly unused_ratio?: number | null;
    /** allocated when it starts (bytes) */
    readonly start_bytes?: number | null;
    /** allocated when it ends (bytes) */
    readonly end_bytes?: number | null;
    /** end_bytes less those of the step before (bytes) */
    readonly growth_bytes?: number | null;
    /** allocations that were made (count) */
    readonly made?: number | null;
    /** their bytes (bytes) */
    readonly made_bytes?: number | null;
    /** bytes of these that are alive at its end (bytes) */
    readonly kept_bytes?: number | null;
    /** most that was reserved (bytes) */
    readonly peak_reserved_bytes?: number | null;
    /** times that the device had too little (count) */
    readonly out_of_memory?: number | null;
  };
  /** How did allocated and reserved memory change over time? */
  "memory-curve": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** cuda, rocm, ...; cpu for memory of the host */
    readonly kind?: string | null;
    /** index of the device in its process; empty for the host */
    readonly device?: number | null;
    /** when, since the run's start (ns) */
    readonly time_ns?: number | null;
    /** training step */
    readonly step?: number | null;
    /** bytes in use from then on (bytes) */
    readonly allocated_bytes?: number | null;
    /** bytes that the allocator holds from then on (bytes) */
    readonly reserved_bytes?: number | null;
    /** parameters in allocated_bytes (bytes) */
    readonly parameters_bytes?: number | null;
    /** gradients in allocated_bytes (bytes) */
    readonly gradients_bytes?: number | null;
    /** optimizer state in allocated_bytes (bytes) */
    readonly optimizer_state_bytes?: number | null;
    /** activations in allocated_bytes (bytes) */
    readonly activations_bytes?: number | null;
    /** temporaries in allocated_bytes (bytes) */
    readonly temporaries_bytes?: number | null;
    /** rest of allocated_bytes (bytes) */
    readonly unknown_bytes?: number | null;
    /** allocations and releases that the row stands for (count) */
    readonly events?: number | null;
  };
  /** Which allocations were made, for what, and how long did each live? */
  "allocations": {
    /** rank of the process */
    readonly rank?: number | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
    /** cuda, rocm, ...; cpu for memory of the host */
    readonly kind?: string | null;
    /** index of the device in its process; empty for the host */
    readonly device?: number | null;
    /** size (bytes) */
    readonly bytes?: number | null;
    /** when it was made; empty for before the recording (ns) */
    readonly made_ns?: number | null;
    /** when it was given back; empty for never (ns) */
    readonly released_ns?: number | null;
    /** time between the two (ns) */
    readonly lifetime_ns?: number | null;
    /** what it is for */
    readonly category?: string | null;
    /** operator that made it */
    readonly operator?: string | null;
    /** module in which it was made */
    readonly module?: string | null;
    /** training step in which it was made */
    readonly made_step?: number | null;
    /** training step in which it was given back */
    readonly released_step?: number | null;
    /** call stack that made it, innermost frame first */
    readonly stack?: string | null;
    /** address */
    readonly address?: number | null;
  };
  /** How long do the measured events of an iteration take, and how sure is that? */
  "inline": {
    /** what was measured, with `#` and the occurrence where an iteration has several; `iteration` for the complete iteration */
    readonly label?: string | null;
    /** rank it was measured on */
    readonly rank?: number | null;
    /** ranks it was measured on (count) */
    readonly ranks?: number | null;
    /** measurements; NULL where the file has only an average (count) */
    readonly n?: number | null;
    /** measurements that stand for equally many iterations and tell as much; n where these do */
    readonly alike?: number | null;
    /** average over ranks of their means (ns) */
    readonly average_ns?: number | null;
    /** largest of the ranks' means (ns) */
    readonly max_ns?: number | null;
    /** rank with that mean */
    readonly slowest_rank?: number | null;
    /** mean duration (ns) */
    readonly mean_ns?: number | null;
    /** median duration (ns) */
    readonly median_ns?: number | null;
    /** standard deviation of the durations (ns) */
    readonly std_ns?: number | null;
    /** standard deviation over mean (ratio) */
    readonly relative_std_ratio?: number | null;
    /** 5th percentile (ns) */
    readonly p5_ns?: number | null;
    /** 95th percentile (ns) */
    readonly p95_ns?: number | null;
    /** 95 % interval of the mean, low end (ns) */
    readonly ci95_low_ns?: number | null;
    /** 95 % interval of the mean, high end (ns) */
    readonly ci95_high_ns?: number | null;
    /** the relative standard deviation is below 2 % */
    readonly stable?: boolean | null;
    /** median of its own starts, from the iteration's start, so that of few measurements neighbours may seem out of order; the earliest where the median lies beyond the median iteration (ns) */
    readonly start_offset_ns?: number | null;
    /** mean divided by the mean of complete iterations (ratio) */
    readonly share_ratio?: number | null;
    /** device and stream, where there are several */
    readonly ran_on?: string | null;
    /** place of its start among all starts and ends */
    readonly start_index?: number | null;
    /** place of its end among them */
    readonly end_index?: number | null;
    /** measured event around it on its stream */
    readonly inside?: string | null;
    /** event around it above whose 95 % interval its own lies: they were measured in iterations that did different work */
    readonly longer_than?: string | null;
    /** which of the label's events in an iteration */
    readonly occurrence?: number | null;
    /** index of the device */
    readonly device?: number | null;
    /** stream; -1 for the host of a job with a device */
    readonly stream?: number | null;
    /** host, or the kind of the device */
    readonly clock?: string | null;
    /** for iterations: what measuring an event adds to one, median over its time (ratio) */
    readonly overhead_ratio?: number | null;
    /** 95 % interval of that, low end (ratio) */
    readonly overhead_low_ratio?: number | null;
    /** 95 % interval of that, high end (ratio) */
    readonly overhead_high_ratio?: number | null;
    /** for iterations: the event that costs most to measure was measured in one of so many at the end (count) */
    readonly armed_every?: number | null;
    /** for iterations: models that were measured, one after the other; NULL where that was not recorded (count) */
    readonly models?: number | null;
    /** event or iteration */
    readonly kind?: string | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
  };
  /** Which phase of the step takes the time, over the entire run? */
  "phases": {
    /** what holds the run back */
    readonly kind?: string | null;
    /** rank it was measured on; the worst, of a finding */
    readonly rank?: number | null;
    /** ranks on which it was found (count) */
    readonly ranks?: number | null;
    /** phase, or `step` for the complete step */
    readonly phase?: string | null;
    /** number of the step, or of the first of a window */
    readonly step?: number | null;
    /** steps that were counted (count) */
    readonly steps?: number | null;
    /** mean time on the host per step (ns) */
    readonly mean_ns?: number | null;
    /** what the others wait for the rank, per step (ns) */
    readonly late_ns?: number | null;
    /** its part of the mean step (ratio) */
    readonly share_ratio?: number | null;
    /** median over the kept steps (ns) */
    readonly median_ns?: number | null;
    /** 95th percentile over the kept steps (ns) */
    readonly p95_ns?: number | null;
    /** longest of any step (ns) */
    readonly largest_ns?: number | null;
    /** mean time on the device per step (ns) */
    readonly device_mean_ns?: number | null;
    /** its mean over that of the rank with the least */
    readonly over_fastest_ratio?: number | null;
    /** the complete step (ns) */
    readonly total_ns?: number | null;
    /** the same over the rank's median of kept steps (ratio) */
    readonly over_median_ratio?: number | null;
    /** memory in use after it, where it was read (bytes) */
    readonly memory_bytes?: number | null;
    /** most memory in use, until then (bytes) */
    readonly peak_bytes?: number | null;
    /** what a device's allocator held, in use or not (bytes) */
    readonly reserved_bytes?: number | null;
    /** waiting for the batch (ns) */
    readonly input_wait_ns?: number | null;
    /** forward (ns) */
    readonly forward_ns?: number | null;
    /** backward (ns) */
    readonly backward_ns?: number | null;
    /** optimizer (ns) */
    readonly optimizer_ns?: number | null;
    /** none of the phases (ns) */
    readonly residual_ns?: number | null;
    /** copying the batch to the device (ns) */
    readonly host_to_device_ns?: number | null;
    /** whose memory that is */
    readonly peak_of?: string | null;
    /** mean wait for an epoch's first batch, which is in no step (ns) */
    readonly first_batch_ns?: number | null;
    /** what holds the run back, with its evidence */
    readonly verdict?: string | null;
    /** what was measured */
    readonly evidence?: string | null;
    /** what to try next */
    readonly next_step?: string | null;
    /** which of the rank's recordings, from 0 */
    readonly span?: number | null;
  };
  /** How many samples or tokens per second does the job get through? */
  "throughput": {
    /** what was counted: samples, tokens, or a name that the script chose */
    readonly name?: string | null;
    /** rank that counted it */
    readonly rank?: number | null;
    /** ranks that counted it (count) */
    readonly ranks?: number | null;
    /** steps that it is known of, on all of them (count) */
    readonly steps?: number | null;
    /** mean of a step; of several ranks, of all together (count) */
    readonly per_step?: number | null;
    /** mean time of these steps (ns) */
    readonly step_ns?: number | null;
    /** by the time that these steps took; the ranks' sum (count) */
    readonly per_second?: number | null;
    /** 95 % interval of it, low end (count) */
    readonly ci95_low_per_second?: number | null;
    /** 95 % interval of it, high end (count) */
    readonly ci95_high_per_second?: number | null;
  };
  /** What is worth changing, and what would it save? */
  "findings": {
    /** rule that found it */
    readonly id?: string | null;
    /** high, medium, low by what ranks lose themselves; or note */
    readonly severity?: string | null;
    /** what was found */
    readonly title?: string | null;
    /** what a step could save, at most (ns) */
    readonly saving_high_ns?: number | null;
    /** what a step saves at least; 0 unless the evidence shows more, and of a single step always (ns) */
    readonly saving_low_ns?: number | null;
    /** the most it could save, of the step (ratio) */
    readonly saving_share_ratio?: number | null;
    /** what savings are per: step, step that is not traced (by the phases of a run beside a trace), or recording where none is marked */
    readonly per?: string | null;
    /** how sure the cause is, whatever it costs: high, medium or low */
    readonly confidence?: string | null;
    /** what to do, in PyTorch's terms */
    readonly advice?: string | null;
    /** what the cure moves elsewhere or asks for in exchange, which no saving counts */
    readonly trade_off?: string | null;
    /** what the value is */
    readonly metric?: string | null;
    /** the number that the finding rests on */
    readonly value?: number | null;
    /** its unit: ns, ratio, count or bytes */
    readonly unit?: string | null;
    /** rank it is about; empty for all */
    readonly rank?: number | null;
    /** step it was seen in; empty for all */
    readonly step?: number | null;
    /** start of where it was seen (ns) */
    readonly window_start_ns?: number | null;
    /** end of where it was seen (ns) */
    readonly window_end_ns?: number | null;
    /** rows that show it, as a JSON list of objects */
    readonly evidence?: string | null;
    /** what reproduces the number: a stepscope command, or SQL for `stepscope sql SRC` */
    readonly query?: string | null;
    /** failing checks that bear on it */
    readonly failing_checks?: string | null;
  };
  /** What got slower or faster, and how sure is that? */
  "diff": {
    /** what is compared; the total is in the first row */
    readonly name?: string | null;
    /** names from below the step down to it, with ` / ` between them */
    readonly path?: string | null;
    /** number of rows that it is part of */
    readonly depth?: number | null;
    /** step, direction, module, operator, range, kernel or idle */
    readonly kind?: string | null;
    /** for a module: the other name that it had before, or where the one like it is that was moved */
    readonly matched?: string | null;
    /** mean time per step before, averaged over ranks (ns) */
    readonly before_ns?: number | null;
    /** the same after (ns) */
    readonly after_ns?: number | null;
    /** after minus before; what only one side has counts in full (ns) */
    readonly change_ns?: number | null;
    /** change divided by before (ratio) */
    readonly change_ratio?: number | null;
    /** 95 % interval of the change, low end (ns) */
    readonly ci95_low_ns?: number | null;
    /** 95 % interval of the change, high end (ns) */
    readonly ci95_high_ns?: number | null;
    /** slower, faster, unclear (the interval contains 0), untested (there is no interval), same, added, removed; only before or only after where the other side did not measure it */
    readonly verdict?: string | null;
    /** its part of the total change; empty where that is unclear (ratio) */
    readonly share_ratio?: number | null;
    /** how often it ran per step before (count) */
    readonly calls_before?: number | null;
    /** how often it ran per step after (count) */
    readonly calls_after?: number | null;
    /** measured event around it on its stream */
    readonly inside?: string | null;
    /** steps of all ranks behind the mean before (count) */
    readonly samples_before?: number | null;
    /** steps of all ranks behind the mean after (count) */
    readonly samples_after?: number | null;
  };
  /** How do the hardware counters of each kernel differ between two recordings? */
  "metrics-diff": {
    /** name of the kernel, as the first recording that has it spells it */
    readonly kernel?: string | null;
    /** blocks of the grid, x,y,z; NULL where the two differ */
    readonly grid?: string | null;
    /** threads of a block, x,y,z; NULL where the two differ */
    readonly block?: string | null;
    /** summed duration before; NULL for a kernel that was not measured there (ns) */
    readonly device_before_ns?: number | null;
    /** summed duration after, likewise (ns) */
    readonly device_after_ns?: number | null;
    /** what was measured, under one name for all tools */
    readonly metric?: string | null;
    /** mean value before */
    readonly before?: number | null;
    /** mean value after */
    readonly after?: number | null;
    /** unit of the values */
    readonly unit?: string | null;
    /** change, as a part of the value before (ratio) */
    readonly change_ratio?: number | null;
  };
  /** How well does each part of the iteration scale to more processes? */
  "scaling": {
    /** what was measured; `iteration` for the complete iteration */
    readonly label?: string | null;
    /** which run */
    readonly run?: string | null;
    /** ranks of the run (count) */
    readonly ranks?: number | null;
    /** average over ranks of their means (ns) */
    readonly average_ns?: number | null;
    /** largest of the ranks' means (ns) */
    readonly max_ns?: number | null;
    /** rank with that mean */
    readonly slowest_rank?: number | null;
    /** weak- or strong-scaling efficiency, by the mode (ratio) */
    readonly efficiency_ratio?: number | null;
    /** average with the fewest ranks over this one: 1 if the same work per rank takes as long (ratio) */
    readonly weak_efficiency_ratio?: number | null;
    /** the same times the ratio of ranks: 1 if twice the ranks take half the time (ratio) */
    readonly strong_efficiency_ratio?: number | null;
    /** ranks from which on it scales no longer (count) */
    readonly stops_at_ranks?: number | null;
    /** what it takes beyond ideal scaling of the smallest run; parts of a step add up to the iteration's (ns) */
    readonly over_ideal_ns?: number | null;
    /** serial part of the work that explains it: Karp-Flatt's fraction, Gustafson's for weak scaling (ratio) */
    readonly serial_ratio?: number | null;
    /** measured event around it on its stream */
    readonly inside?: string | null;
    /** weak or strong: which efficiency the rest is about */
    readonly mode?: string | null;
    /** 95 % interval of that efficiency, low end (ratio) */
    readonly efficiency_low_ratio?: number | null;
    /** 95 % interval of it, high end (ratio) */
    readonly efficiency_high_ratio?: number | null;
    /** 95 % interval of the serial part, low end (ratio) */
    readonly serial_low_ratio?: number | null;
    /** 95 % interval of the serial part, high end (ratio) */
    readonly serial_high_ratio?: number | null;
    /** model that continues it to twice the ranks */
    readonly model?: string | null;
    /** twice the ranks of the largest run (count) */
    readonly next_ranks?: number | null;
    /** what the model gives for them (ns) */
    readonly next_ns?: number | null;
    /** 95 % interval of that, low end (ns) */
    readonly next_low_ns?: number | null;
    /** 95 % interval of that, high end (ns) */
    readonly next_high_ns?: number | null;
  };
  /** Can the recording be trusted? */
  "checks": {
    /** error, warning, note or ok */
    readonly severity?: string | null;
    /** name of the check; `source` is the report of reading a file */
    readonly check?: string | null;
    /** rank that was checked; empty where a row stands for all */
    readonly rank?: number | null;
    /** recording that was checked */
    readonly span?: number | null;
    /** how many rows it found (count) */
    readonly count?: number | null;
    /** what was found and what it means */
    readonly explanation?: string | null;
    /** questions whose answers it makes unreliable; `all` for all */
    readonly affects?: string | null;
    /** file that was read */
    readonly path?: string | null;
    /** events read, the repaired ones among them (count) */
    readonly events_kept?: number | null;
    /** events repaired to be read (count) */
    readonly events_repaired?: number | null;
    /** events that could not be read (count) */
    readonly events_dropped?: number | null;
    /** byte of the uncompressed file where damage starts */
    readonly damage_offset?: number | null;
    /** JSON object: class of damage to number */
    readonly damage?: string | null;
  };
  /** Which files were read, how many events were kept, repaired or dropped, and which files were left out? */
  "sources": {
    /** where the file was */
    readonly path?: string | null;
    /** why the file is in no answer; empty for one that is */
    readonly left_out?: string | null;
    /** rank whose recording it is */
    readonly rank?: number | null;
    /** how the rank was found */
    readonly rank_rule?: string | null;
    /** which of the rank's recordings it is, from 0 */
    readonly span?: number | null;
    /** events that were read, the repaired ones among them (count) */
    readonly events_kept?: number | null;
    /** events that had to be repaired to be read (count) */
    readonly events_repaired?: number | null;
    /** events that could not be read (count) */
    readonly events_dropped?: number | null;
    /** the file ends before its JSON does */
    readonly truncated?: boolean | null;
    /** byte of the uncompressed file where damage starts */
    readonly damage_offset?: number | null;
    /** classes of damage and how often each was met (JSON) */
    readonly damage?: string | null;
    /** size on disk (bytes) */
    readonly bytes?: number | null;
    /** format that read it */
    readonly format?: string | null;
    /** program that wrote it */
    readonly tool?: string | null;
    /** that program's version */
    readonly tool_version?: string | null;
    /** categories unknown here (JSON) */
    readonly unknown_categories?: string | null;
    /** arguments unknown here (JSON) */
    readonly unknown_fields?: string | null;
    /** what aligns its rank's clock with the others': same host, epoch, collectives or none */
    readonly clock_rule?: string | null;
    /** what is added to its times to align them with the run's (ns) */
    readonly clock_offset_ns?: number | null;
    /** how much faster its rank's clock runs, in parts per billion */
    readonly clock_drift_ppb?: number | null;
    /** how far its times may be off after that (ns) */
    readonly clock_uncertainty_ns?: number | null;
    /** collectives that told its rank's clock (count) */
    readonly clock_matches?: number | null;
  };
};
