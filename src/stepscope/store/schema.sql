-- The tables of a StepScope store. This file is the only place where they are declared: the Parquet
-- files are written with these names and types, the views of an open store carry these comments, and
-- the schema page of the documentation is made from them.
--
-- Times are integer nanoseconds since the run's start; `rank.start_epoch_ns` says when that was.
-- Sizes are bytes. NULL means "not measured", never 0. `rank` is the process's rank in the job and
-- never the index of a device. `span` counts the recordings of one rank (a profiler that runs several
-- cycles writes several files). An event's `id` is unique within its rank, over all spans and over
-- both event tables.

CREATE TABLE source (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL,
    path VARCHAR NOT NULL, format VARCHAR NOT NULL, tool VARCHAR, tool_version VARCHAR,
    bytes BIGINT NOT NULL CHECK (bytes >= 0),
    events_kept BIGINT NOT NULL, events_repaired BIGINT NOT NULL, events_dropped BIGINT NOT NULL,
    damage_offset BIGINT, damage VARCHAR, truncated BOOLEAN NOT NULL,
    unknown_categories VARCHAR, unknown_fields VARCHAR, metadata VARCHAR
);
COMMENT ON TABLE source IS 'One row is a file that was read.';
COMMENT ON COLUMN source.rank IS 'rank whose recording the file is';
COMMENT ON COLUMN source.span IS 'which of the rank''s recordings it is, from 0';
COMMENT ON COLUMN source.path IS 'where the file was; a member of an archive is written archive!member';
COMMENT ON COLUMN source.format IS 'name of the format that read it';
COMMENT ON COLUMN source.tool IS 'program that wrote it, where the file says so';
COMMENT ON COLUMN source.tool_version IS 'that program''s version, where the file says so';
COMMENT ON COLUMN source.bytes IS 'size on disk (bytes)';
COMMENT ON COLUMN source.events_kept IS 'events that were read, the repaired ones among them';
COMMENT ON COLUMN source.events_repaired IS 'events that had to be mended to be read';
COMMENT ON COLUMN source.events_dropped IS 'events that could not be read';
COMMENT ON COLUMN source.damage_offset IS 'byte of the uncompressed file at which the first damage begins; NULL when there is none';
COMMENT ON COLUMN source.damage IS 'JSON object: class of damage to the number of its occurrences';
COMMENT ON COLUMN source.truncated IS 'the file ends before its JSON does';
COMMENT ON COLUMN source.unknown_categories IS 'JSON object: category this version does not know to the number of its events';
COMMENT ON COLUMN source.unknown_fields IS 'JSON object: argument this version does not know to the number of its events';
COMMENT ON COLUMN source.metadata IS 'JSON object: the file''s own description of itself, without its events';

CREATE TABLE rank (
    rank INTEGER NOT NULL, world_size INTEGER, local_rank INTEGER, host VARCHAR, pid BIGINT,
    backend VARCHAR, start_epoch_ns BIGINT, clock_offset_ns BIGINT, clock_uncertainty_ns BIGINT,
    resolution_ns BIGINT NOT NULL, rank_rule VARCHAR NOT NULL
);
COMMENT ON TABLE rank IS 'One row is a process of the job.';
COMMENT ON COLUMN rank.rank IS 'rank of the process, from 0';
COMMENT ON COLUMN rank.world_size IS 'number of processes in the job, where the recording says so';
COMMENT ON COLUMN rank.local_rank IS 'rank among the processes of its node';
COMMENT ON COLUMN rank.host IS 'name of the node';
COMMENT ON COLUMN rank.pid IS 'process id on the node';
COMMENT ON COLUMN rank.backend IS 'communication library (nccl, gloo, ...)';
COMMENT ON COLUMN rank.start_epoch_ns IS 'Unix time of this rank''s first event by its own clock (ns); NULL when times have no known epoch';
COMMENT ON COLUMN rank.clock_offset_ns IS 'what is added to this rank''s times to align them with the run''s (ns)';
COMMENT ON COLUMN rank.clock_uncertainty_ns IS 'how far the alignment may be off (ns); NULL when it was not estimated';
COMMENT ON COLUMN rank.resolution_ns IS 'smallest step of the recorded times (ns): 1000 for files in whole microseconds';
COMMENT ON COLUMN rank.rank_rule IS 'how the rank was found: flag, distributedInfo, nccl, recorder, file name, order or single';

CREATE TABLE device (
    rank INTEGER NOT NULL, device INTEGER NOT NULL, kind VARCHAR NOT NULL, name VARCHAR, used BOOLEAN NOT NULL,
    sm_count INTEGER, memory_bytes BIGINT, compute_major INTEGER, compute_minor INTEGER,
    max_threads_per_sm INTEGER, max_threads_per_block INTEGER, registers_per_sm INTEGER,
    shared_memory_per_sm_bytes BIGINT, warp_size INTEGER
);
COMMENT ON TABLE device IS 'One row is an accelerator that a rank could see.';
COMMENT ON COLUMN device.rank IS 'rank that saw it';
COMMENT ON COLUMN device.device IS 'index of the device in its process';
COMMENT ON COLUMN device.kind IS 'cuda, rocm, xpu, mtia, hpu, npu, privateuse1 or unknown';
COMMENT ON COLUMN device.name IS 'product name';
COMMENT ON COLUMN device.used IS 'the recording has work of this device';
COMMENT ON COLUMN device.sm_count IS 'streaming multiprocessors (compute units on AMD)';
COMMENT ON COLUMN device.memory_bytes IS 'device memory (bytes)';
COMMENT ON COLUMN device.compute_major IS 'compute capability, major';
COMMENT ON COLUMN device.compute_minor IS 'compute capability, minor';
COMMENT ON COLUMN device.max_threads_per_sm IS 'resident threads per multiprocessor, at most';
COMMENT ON COLUMN device.max_threads_per_block IS 'threads per block, at most';
COMMENT ON COLUMN device.registers_per_sm IS 'registers per multiprocessor';
COMMENT ON COLUMN device.shared_memory_per_sm_bytes IS 'shared memory per multiprocessor (bytes)';
COMMENT ON COLUMN device.warp_size IS 'threads per warp (wavefront on AMD)';

CREATE TABLE thread (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, thread INTEGER NOT NULL, pid VARCHAR NOT NULL, tid VARCHAR NOT NULL,
    process_name VARCHAR, thread_name VARCHAR, kind VARCHAR NOT NULL
);
COMMENT ON TABLE thread IS 'One row is a host thread, or a track that the recording lays out like one.';
COMMENT ON COLUMN thread.rank IS 'rank it belongs to';
COMMENT ON COLUMN thread.span IS 'recording it was seen in';
COMMENT ON COLUMN thread.thread IS 'number of the thread within rank and span, from 0 in order of appearance';
COMMENT ON COLUMN thread.pid IS 'process id as the file spells it';
COMMENT ON COLUMN thread.tid IS 'thread id as the file spells it';
COMMENT ON COLUMN thread.process_name IS 'name of the process, where the file says so';
COMMENT ON COLUMN thread.thread_name IS 'name of the thread, where the file says so';
COMMENT ON COLUMN thread.kind IS 'thread, or track for rows that are no thread (Spans, Traces, overhead)';

CREATE TABLE stream (
    rank INTEGER NOT NULL, device INTEGER NOT NULL, stream BIGINT NOT NULL, name VARCHAR
);
COMMENT ON TABLE stream IS 'One row is a stream of a device that has work in the recording.';
COMMENT ON COLUMN stream.rank IS 'rank it belongs to';
COMMENT ON COLUMN stream.device IS 'device it runs on';
COMMENT ON COLUMN stream.stream IS 'stream id; -1 when the recording names none';
COMMENT ON COLUMN stream.name IS 'name of the stream, where the file says so';

CREATE TABLE step (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, step BIGINT NOT NULL, name VARCHAR NOT NULL,
    start_ns BIGINT NOT NULL, end_ns BIGINT NOT NULL CHECK (end_ns >= start_ns),
    host_start_ns BIGINT NOT NULL, host_end_ns BIGINT NOT NULL,
    device_events BIGINT NOT NULL, complete BOOLEAN NOT NULL, rule VARCHAR NOT NULL
);
COMMENT ON TABLE step IS 'One row is a training step on a rank.';
COMMENT ON COLUMN step.rank IS 'rank it belongs to';
COMMENT ON COLUMN step.span IS 'recording it was seen in';
COMMENT ON COLUMN step.step IS 'number of the step, as the program counts';
COMMENT ON COLUMN step.name IS 'name of the range that marks it';
COMMENT ON COLUMN step.start_ns IS 'begin, moved to where the step before it left the device free (ns)';
COMMENT ON COLUMN step.end_ns IS 'end, with the device work that the step launched (ns)';
COMMENT ON COLUMN step.host_start_ns IS 'begin on the host (ns)';
COMMENT ON COLUMN step.host_end_ns IS 'end on the host (ns)';
COMMENT ON COLUMN step.device_events IS 'kernels, copies and fills that it launched';
COMMENT ON COLUMN step.complete IS 'false for a last step whose device work was cut off by the end of the recording';
COMMENT ON COLUMN step.rule IS 'how steps were found: ProfilerStep, optimizer or whole recording';

CREATE TABLE host_event (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, id BIGINT NOT NULL, category VARCHAR NOT NULL, kind VARCHAR NOT NULL,
    role VARCHAR, name VARCHAR NOT NULL, thread INTEGER NOT NULL,
    start_ns BIGINT NOT NULL, dur_ns BIGINT NOT NULL CHECK (dur_ns >= 0), self_ns BIGINT NOT NULL,
    parent_id BIGINT, depth SMALLINT NOT NULL, recursive BOOLEAN NOT NULL,
    step BIGINT, module_id INTEGER, direction VARCHAR, forward_id BIGINT,
    correlation BIGINT, external_id BIGINT, sequence_number BIGINT, forward_thread BIGINT,
    input_id INTEGER, stack_id INTEGER, device_ns BIGINT, device_self_ns BIGINT, other_args VARCHAR
);
COMMENT ON TABLE host_event IS 'One row is something that took time on a host thread: an operator, a runtime call, a named range, a Python frame.';
COMMENT ON COLUMN host_event.rank IS 'rank it ran on';
COMMENT ON COLUMN host_event.span IS 'recording it was seen in';
COMMENT ON COLUMN host_event.id IS 'number of the event, unique within the rank';
COMMENT ON COLUMN host_event.category IS 'category as Kineto spells it today (cpu_op, user_annotation, cuda_runtime, cuda_driver, python_function, ...); an unknown one keeps its raw name';
COMMENT ON COLUMN host_event.kind IS 'operator, annotation, runtime, python, overhead or other';
COMMENT ON COLUMN host_event.role IS 'what it does in the step, where its name says so: step, dataloader, communication, optimizer, zero_grad, backward, module, launch, graph_launch, copy, fill, synchronize, allocate';
COMMENT ON COLUMN host_event.name IS 'name';
COMMENT ON COLUMN host_event.thread IS 'host thread (see table thread)';
COMMENT ON COLUMN host_event.start_ns IS 'begin (ns)';
COMMENT ON COLUMN host_event.dur_ns IS 'duration (ns)';
COMMENT ON COLUMN host_event.self_ns IS 'duration less that of its children (ns)';
COMMENT ON COLUMN host_event.parent_id IS 'innermost event of the same thread that encloses it';
COMMENT ON COLUMN host_event.depth IS 'number of events that enclose it';
COMMENT ON COLUMN host_event.recursive IS 'an operator or range that another of its name encloses';
COMMENT ON COLUMN host_event.step IS 'step it ran in';
COMMENT ON COLUMN host_event.module_id IS 'module it ran in, or, in backward, the module whose forward it belongs to';
COMMENT ON COLUMN host_event.direction IS 'forward, backward or optimizer';
COMMENT ON COLUMN host_event.forward_id IS 'forward operator that this backward operator belongs to';
COMMENT ON COLUMN host_event.correlation IS 'number that ties a runtime call to the device work it launched';
COMMENT ON COLUMN host_event.external_id IS 'the recorder''s own number of the operator';
COMMENT ON COLUMN host_event.sequence_number IS 'autograd sequence number, equal for a forward operator and its backward';
COMMENT ON COLUMN host_event.forward_thread IS 'autograd''s number of the thread that ran the forward';
COMMENT ON COLUMN host_event.input_id IS 'inputs of the call (see table operator_input)';
COMMENT ON COLUMN host_event.stack_id IS 'call stack (see table call_stack)';
COMMENT ON COLUMN host_event.device_ns IS 'summed duration of the device work launched in it or below it (ns); NULL when it launched none';
COMMENT ON COLUMN host_event.device_self_ns IS 'summed duration of the device work launched in it and not in an operator or range below it (ns); NULL when it launched none';
COMMENT ON COLUMN host_event.other_args IS 'JSON object: the arguments that have no column of their own, under their raw names';

CREATE TABLE device_event (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, id BIGINT NOT NULL, category VARCHAR NOT NULL, kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL, device INTEGER NOT NULL, stream BIGINT NOT NULL,
    start_ns BIGINT NOT NULL, dur_ns BIGINT NOT NULL CHECK (dur_ns >= 0), raw_dur_ns BIGINT,
    correlation BIGINT, external_id BIGINT, launch_id BIGINT, launch_ns BIGINT, operator_id BIGINT,
    operator_name VARCHAR, module_id INTEGER, direction VARCHAR, step BIGINT,
    grid_x INTEGER, grid_y INTEGER, grid_z INTEGER, block_x INTEGER, block_y INTEGER, block_z INTEGER,
    registers_per_thread INTEGER, shared_memory_bytes BIGINT, blocks_per_sm DOUBLE, warps_per_sm DOUBLE,
    occupancy_ratio DOUBLE, bytes BIGINT, copy_kind VARCHAR, memory_kind VARCHAR,
    context BIGINT, graph_id BIGINT, graph_node_id BIGINT, other_args VARCHAR
);
COMMENT ON TABLE device_event IS 'One row is something on a stream of a device: a kernel, a copy, a fill, or a range or wait that the recorder draws there.';
COMMENT ON COLUMN device_event.rank IS 'rank it ran for';
COMMENT ON COLUMN device_event.span IS 'recording it was seen in';
COMMENT ON COLUMN device_event.id IS 'number of the event, unique within the rank';
COMMENT ON COLUMN device_event.category IS 'category as Kineto spells it today (kernel, gpu_memcpy, gpu_memset, gpu_user_annotation, cuda_sync, ...)';
COMMENT ON COLUMN device_event.kind IS 'computation, communication, copy or fill for work; annotation, sync or other for rows that are no work';
COMMENT ON COLUMN device_event.name IS 'name';
COMMENT ON COLUMN device_event.device IS 'index of the device';
COMMENT ON COLUMN device_event.stream IS 'stream id; -1 when the recording names none';
COMMENT ON COLUMN device_event.start_ns IS 'begin (ns)';
COMMENT ON COLUMN device_event.dur_ns IS 'duration (ns), clipped where the recorded one was impossible';
COMMENT ON COLUMN device_event.raw_dur_ns IS 'recorded duration where dur_ns differs from it (ns); NULL where it does not';
COMMENT ON COLUMN device_event.correlation IS 'number that ties it to the runtime call that launched it';
COMMENT ON COLUMN device_event.external_id IS 'the recorder''s own number of the operator';
COMMENT ON COLUMN device_event.launch_id IS 'host event that launched it';
COMMENT ON COLUMN device_event.launch_ns IS 'begin of that host event (ns)';
COMMENT ON COLUMN device_event.operator_id IS 'innermost operator that encloses its launch';
COMMENT ON COLUMN device_event.operator_name IS 'name of that operator';
COMMENT ON COLUMN device_event.module_id IS 'module it belongs to (see table module)';
COMMENT ON COLUMN device_event.direction IS 'forward, backward or optimizer';
COMMENT ON COLUMN device_event.step IS 'step that launched it; for work without a launch, the step during which it began';
COMMENT ON COLUMN device_event.grid_x IS 'blocks of the grid, x';
COMMENT ON COLUMN device_event.grid_y IS 'blocks of the grid, y';
COMMENT ON COLUMN device_event.grid_z IS 'blocks of the grid, z';
COMMENT ON COLUMN device_event.block_x IS 'threads of a block, x';
COMMENT ON COLUMN device_event.block_y IS 'threads of a block, y';
COMMENT ON COLUMN device_event.block_z IS 'threads of a block, z';
COMMENT ON COLUMN device_event.registers_per_thread IS 'registers per thread';
COMMENT ON COLUMN device_event.shared_memory_bytes IS 'shared memory per block (bytes)';
COMMENT ON COLUMN device_event.blocks_per_sm IS 'blocks of the grid divided by multiprocessors';
COMMENT ON COLUMN device_event.warps_per_sm IS 'warps of the grid divided by multiprocessors';
COMMENT ON COLUMN device_event.occupancy_ratio IS 'estimated achieved occupancy, 0 to 1';
COMMENT ON COLUMN device_event.bytes IS 'bytes copied or filled';
COMMENT ON COLUMN device_event.copy_kind IS 'direction of a copy: HtoD, DtoH, DtoD, HtoH, PtoP or unknown';
COMMENT ON COLUMN device_event.memory_kind IS 'kind of host memory in a copy: pinned, pageable, device or unknown';
COMMENT ON COLUMN device_event.context IS 'context id';
COMMENT ON COLUMN device_event.graph_id IS 'CUDA graph that replayed it';
COMMENT ON COLUMN device_event.graph_node_id IS 'node of that graph';
COMMENT ON COLUMN device_event.other_args IS 'JSON object: the arguments that have no column of their own, under their raw names';

CREATE TABLE operator_input (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, input_id INTEGER NOT NULL,
    dims VARCHAR, types VARCHAR, strides VARCHAR, "values" VARCHAR
);
COMMENT ON TABLE operator_input IS 'One row is a distinct set of inputs that operators were called with.';
COMMENT ON COLUMN operator_input.rank IS 'rank it was seen on';
COMMENT ON COLUMN operator_input.span IS 'recording it was seen in';
COMMENT ON COLUMN operator_input.input_id IS 'number of the set within rank and span';
COMMENT ON COLUMN operator_input.dims IS 'JSON list: shape of each input';
COMMENT ON COLUMN operator_input.types IS 'JSON list: type of each input';
COMMENT ON COLUMN operator_input.strides IS 'JSON list: strides of each input';
COMMENT ON COLUMN operator_input."values" IS 'JSON list: value of each scalar input, as text';

CREATE TABLE call_stack (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, stack_id INTEGER NOT NULL, frames VARCHAR NOT NULL
);
COMMENT ON TABLE call_stack IS 'One row is a distinct Python call stack recorded with operators.';
COMMENT ON COLUMN call_stack.rank IS 'rank it was seen on';
COMMENT ON COLUMN call_stack.span IS 'recording it was seen in';
COMMENT ON COLUMN call_stack.stack_id IS 'number of the stack within rank and span';
COMMENT ON COLUMN call_stack.frames IS 'frames, innermost first, separated by semicolons';

CREATE TABLE collective (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, id BIGINT NOT NULL, host_id BIGINT, operation VARCHAR,
    group_name VARCHAR, group_description VARCHAR, group_ranks VARCHAR, group_size INTEGER, sequence BIGINT,
    dtype VARCHAR, elements_in BIGINT, elements_out BIGINT, bytes BIGINT,
    source_rank INTEGER, destination_rank INTEGER, wait_ns BIGINT, transfer_ns BIGINT
);
COMMENT ON TABLE collective IS 'One row is a communication kernel on a rank.';
COMMENT ON COLUMN collective.rank IS 'rank it ran on';
COMMENT ON COLUMN collective.span IS 'recording it was seen in';
COMMENT ON COLUMN collective.id IS 'its device_event';
COMMENT ON COLUMN collective.host_id IS 'host event that asked for it';
COMMENT ON COLUMN collective.operation IS 'all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, send_recv, ...';
COMMENT ON COLUMN collective.group_name IS 'name of the process group';
COMMENT ON COLUMN collective.group_description IS 'description of the process group';
COMMENT ON COLUMN collective.group_ranks IS 'JSON list: ranks of the group; NULL where the recording leaves them out';
COMMENT ON COLUMN collective.group_size IS 'number of ranks in the group';
COMMENT ON COLUMN collective.sequence IS 'sequence number of the operation within its group';
COMMENT ON COLUMN collective.dtype IS 'element type';
COMMENT ON COLUMN collective.elements_in IS 'elements sent by this rank';
COMMENT ON COLUMN collective.elements_out IS 'elements received by this rank';
COMMENT ON COLUMN collective.bytes IS 'message size as nccl-tests counts it (bytes)';
COMMENT ON COLUMN collective.source_rank IS 'sender, for point to point';
COMMENT ON COLUMN collective.destination_rank IS 'receiver, for point to point';
COMMENT ON COLUMN collective.wait_ns IS 'time spent waiting for the last rank to arrive (ns); NULL until matched over ranks';
COMMENT ON COLUMN collective.transfer_ns IS 'time after the last rank arrived (ns); NULL until matched over ranks';

CREATE TABLE module (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, module_id INTEGER NOT NULL, parent_id INTEGER, path VARCHAR NOT NULL, name VARCHAR NOT NULL,
    class VARCHAR, depth SMALLINT NOT NULL, calls BIGINT NOT NULL, rule VARCHAR NOT NULL
);
COMMENT ON TABLE module IS 'One row is a node of the model.';
COMMENT ON COLUMN module.rank IS 'rank it was seen on';
COMMENT ON COLUMN module.span IS 'recording it was seen in';
COMMENT ON COLUMN module.module_id IS 'number of the module within rank and span';
COMMENT ON COLUMN module.parent_id IS 'module it is part of';
COMMENT ON COLUMN module.path IS 'path from the root of the model';
COMMENT ON COLUMN module.name IS 'last part of the path';
COMMENT ON COLUMN module.class IS 'class of the module, where known';
COMMENT ON COLUMN module.depth IS 'number of modules above it';
COMMENT ON COLUMN module.calls IS 'forward calls in the recording';
COMMENT ON COLUMN module.rule IS 'where it comes from: python, hierarchy or annotation';

CREATE TABLE memory_event (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, time_ns BIGINT NOT NULL, thread INTEGER, device_kind VARCHAR NOT NULL,
    device INTEGER, address BIGINT, bytes BIGINT NOT NULL, total_allocated_bytes BIGINT, total_reserved_bytes BIGINT,
    operator_id BIGINT
);
COMMENT ON TABLE memory_event IS 'One row is an allocation (bytes above 0) or a release (below 0).';
COMMENT ON COLUMN memory_event.rank IS 'rank it happened on';
COMMENT ON COLUMN memory_event.span IS 'recording it was seen in';
COMMENT ON COLUMN memory_event.time_ns IS 'when (ns)';
COMMENT ON COLUMN memory_event.thread IS 'host thread that asked for it';
COMMENT ON COLUMN memory_event.device_kind IS 'cpu, cuda, rocm, ...';
COMMENT ON COLUMN memory_event.device IS 'index of the device; NULL for host memory';
COMMENT ON COLUMN memory_event.address IS 'address';
COMMENT ON COLUMN memory_event.bytes IS 'bytes taken, negative when given back';
COMMENT ON COLUMN memory_event.total_allocated_bytes IS 'bytes in use after it';
COMMENT ON COLUMN memory_event.total_reserved_bytes IS 'bytes held by the allocator after it';
COMMENT ON COLUMN memory_event.operator_id IS 'innermost operator of the thread at that time';

CREATE TABLE flow (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, category VARCHAR NOT NULL, phase VARCHAR NOT NULL, flow_id BIGINT NOT NULL,
    time_ns BIGINT NOT NULL, pid VARCHAR NOT NULL, tid VARCHAR NOT NULL
);
COMMENT ON TABLE flow IS 'One row is an end of an arrow that the recorder drew between two events.';
COMMENT ON COLUMN flow.rank IS 'rank it was seen on';
COMMENT ON COLUMN flow.span IS 'recording it was seen in';
COMMENT ON COLUMN flow.category IS 'launch (ac2g and its older names) or fwdbwd; an unknown one keeps its raw name';
COMMENT ON COLUMN flow.phase IS 's for the start, t for a step, f for the end';
COMMENT ON COLUMN flow.flow_id IS 'number of the arrow';
COMMENT ON COLUMN flow.time_ns IS 'when (ns)';
COMMENT ON COLUMN flow.pid IS 'process id as the file spells it';
COMMENT ON COLUMN flow.tid IS 'thread or stream id as the file spells it';

CREATE TABLE instant (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, time_ns BIGINT NOT NULL, category VARCHAR, name VARCHAR NOT NULL,
    pid VARCHAR NOT NULL, tid VARCHAR NOT NULL, args VARCHAR
);
COMMENT ON TABLE instant IS 'One row is something that happened at a moment and took no time.';
COMMENT ON COLUMN instant.rank IS 'rank it was seen on';
COMMENT ON COLUMN instant.span IS 'recording it was seen in';
COMMENT ON COLUMN instant.time_ns IS 'when (ns)';
COMMENT ON COLUMN instant.category IS 'category, where the file gives one';
COMMENT ON COLUMN instant.name IS 'name';
COMMENT ON COLUMN instant.pid IS 'process id as the file spells it';
COMMENT ON COLUMN instant.tid IS 'thread id as the file spells it';
COMMENT ON COLUMN instant.args IS 'JSON object: its arguments';

CREATE TABLE counter (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, track VARCHAR NOT NULL, series VARCHAR NOT NULL, time_ns BIGINT NOT NULL, value DOUBLE
);
COMMENT ON TABLE counter IS 'One row is a value at a time.';
COMMENT ON COLUMN counter.rank IS 'rank it was seen on';
COMMENT ON COLUMN counter.span IS 'recording it was seen in';
COMMENT ON COLUMN counter.track IS 'what is counted';
COMMENT ON COLUMN counter.series IS 'which of the track''s values it is';
COMMENT ON COLUMN counter.time_ns IS 'when (ns)';
COMMENT ON COLUMN counter.value IS 'value; NULL where the file gives no number';

CREATE TABLE attribution (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, link VARCHAR NOT NULL, device_ns BIGINT NOT NULL, attributed_ns BIGINT NOT NULL
);
COMMENT ON TABLE attribution IS 'One row is how much of the device time a kind of link reaches.';
COMMENT ON COLUMN attribution.rank IS 'rank';
COMMENT ON COLUMN attribution.span IS 'recording';
COMMENT ON COLUMN attribution.link IS 'launch, operator, module, direction or step';
COMMENT ON COLUMN attribution.device_ns IS 'summed duration of kernels, copies and fills (ns)';
COMMENT ON COLUMN attribution.attributed_ns IS 'the part of it that has the link (ns)';

CREATE TABLE data_check (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, "check" VARCHAR NOT NULL, severity VARCHAR NOT NULL, count BIGINT NOT NULL,
    affects VARCHAR NOT NULL, explanation VARCHAR NOT NULL
);
COMMENT ON TABLE data_check IS 'One row is the result of a data-quality check on a rank''s recording.';
COMMENT ON COLUMN data_check.rank IS 'rank that was checked';
COMMENT ON COLUMN data_check.span IS 'recording that was checked';
COMMENT ON COLUMN data_check."check" IS 'name of the check';
COMMENT ON COLUMN data_check.severity IS 'ok, note, warning or error';
COMMENT ON COLUMN data_check.count IS 'how many rows it found';
COMMENT ON COLUMN data_check.affects IS 'kinds of evidence that it found damaged, separated by commas; empty when none';
COMMENT ON COLUMN data_check.explanation IS 'what was found and what it means';

CREATE TABLE kernel_metric (
    rank INTEGER NOT NULL, id BIGINT, kernel VARCHAR NOT NULL, metric VARCHAR NOT NULL, value DOUBLE, unit VARCHAR, tool VARCHAR NOT NULL
);
COMMENT ON TABLE kernel_metric IS 'One row is a hardware metric of a kernel.';
COMMENT ON COLUMN kernel_metric.rank IS 'rank';
COMMENT ON COLUMN kernel_metric.id IS 'its device_event, where it could be matched';
COMMENT ON COLUMN kernel_metric.kernel IS 'name of the kernel';
COMMENT ON COLUMN kernel_metric.metric IS 'name of the metric, as the tool spells it';
COMMENT ON COLUMN kernel_metric.value IS 'value';
COMMENT ON COLUMN kernel_metric.unit IS 'unit, as the tool spells it';
COMMENT ON COLUMN kernel_metric.tool IS 'tool that measured it';

CREATE TABLE inline_timing (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, kind VARCHAR NOT NULL, label VARCHAR NOT NULL,
    occurrence INTEGER NOT NULL, device INTEGER, stream BIGINT, start_index INTEGER, end_index INTEGER,
    iteration BIGINT, start_offset_ns BIGINT, dur_ns BIGINT NOT NULL CHECK (dur_ns >= 0),
    armed BOOLEAN, averaged BOOLEAN NOT NULL, clock VARCHAR
);
COMMENT ON TABLE inline_timing IS 'One row is one measurement of one labelled event of a training iteration, or of a whole iteration.';
COMMENT ON COLUMN inline_timing.rank IS 'rank it was measured on';
COMMENT ON COLUMN inline_timing.span IS 'recording it was measured in';
COMMENT ON COLUMN inline_timing.kind IS 'event, or iteration for a whole one';
COMMENT ON COLUMN inline_timing.label IS 'what was measured, as the plan or the job calls it';
COMMENT ON COLUMN inline_timing.occurrence IS 'which of the label''s events in an iteration on its stream, from 0';
COMMENT ON COLUMN inline_timing.device IS 'index of the device; NULL for a whole iteration';
COMMENT ON COLUMN inline_timing.stream IS 'stream; -1 when it was timed on the host of a job that has a device';
COMMENT ON COLUMN inline_timing.start_index IS 'place of its start among all starts and ends of an iteration, from 0';
COMMENT ON COLUMN inline_timing.end_index IS 'place of its end among them';
COMMENT ON COLUMN inline_timing.iteration IS 'iteration in which it was measured, as the recorder counts; NULL where the file does not say';
COMMENT ON COLUMN inline_timing.start_offset_ns IS 'its begin, from the begin of the iteration on the same device (ns)';
COMMENT ON COLUMN inline_timing.dur_ns IS 'duration (ns)';
COMMENT ON COLUMN inline_timing.armed IS 'for a whole iteration: whether an event was measured in it; NULL where the file does not say';
COMMENT ON COLUMN inline_timing.averaged IS 'the file has this average alone, and not the measurements behind it';
COMMENT ON COLUMN inline_timing.clock IS 'clock that measured: host, or the kind of the device';

CREATE TABLE phase (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, phase VARCHAR NOT NULL, steps BIGINT NOT NULL,
    mean_ns DOUBLE NOT NULL, median_ns DOUBLE, p95_ns DOUBLE, largest_ns BIGINT, device_mean_ns DOUBLE,
    peak_bytes BIGINT, peak_of VARCHAR, communication_ns DOUBLE, exposed_communication_ns DOUBLE,
    timed_backward_ns DOUBLE, forward_waits BOOLEAN, first_batch_ns DOUBLE, first_batches BIGINT,
    checked_steps BIGINT, idle_steps BIGINT, copied_bytes DOUBLE, pageable_bytes DOUBLE
);
COMMENT ON TABLE phase IS 'One row is a phase of the training step, over all counted steps of a rank; phase step is the whole of it.';
COMMENT ON COLUMN phase.rank IS 'rank it was measured on';
COMMENT ON COLUMN phase.span IS 'recording it was measured in';
COMMENT ON COLUMN phase.phase IS 'step, input_wait, host_to_device, forward, backward, optimizer or residual';
COMMENT ON COLUMN phase.steps IS 'steps that were counted';
COMMENT ON COLUMN phase.mean_ns IS 'mean time on the host per step (ns), over all counted steps';
COMMENT ON COLUMN phase.median_ns IS 'median over the kept steps (ns)';
COMMENT ON COLUMN phase.p95_ns IS '95th percentile over the kept steps (ns)';
COMMENT ON COLUMN phase.largest_ns IS 'longest of any step (ns)';
COMMENT ON COLUMN phase.device_mean_ns IS 'mean time on the device per step (ns); NULL where no device was marked';
COMMENT ON COLUMN phase.peak_bytes IS 'for phase step: most memory in use (bytes)';
COMMENT ON COLUMN phase.peak_of IS 'for phase step: whose memory peak_bytes is: an allocator''s or the process''s';
COMMENT ON COLUMN phase.communication_ns IS 'for phase step: mean time of all-reduce in a backward (ns), waiting for late ranks included, as DDP timed it; NULL where it did not';
COMMENT ON COLUMN phase.exposed_communication_ns IS 'for phase step: the part of it during which nothing was computed (ns)';
COMMENT ON COLUMN phase.timed_backward_ns IS 'for phase step: mean time from the start of backward to the end of its all-reduce (ns), in the steps that DDP timed';
COMMENT ON COLUMN phase.forward_waits IS 'for phase step: ranks wait for each other within forward, too: DDP sends rank 0''s buffers to all';
COMMENT ON COLUMN phase.first_batch_ns IS 'for phase step: mean wait for the first batch of an epoch (ns), which is in no counted step; NULL where no epoch began';
COMMENT ON COLUMN phase.first_batches IS 'for phase step: first batches of epochs that the mean is of';
COMMENT ON COLUMN phase.checked_steps IS 'for phase step: steps in which the device was asked whether it had finished backward when the host launched the optimizer';
COMMENT ON COLUMN phase.idle_steps IS 'for phase step: those of them in which it had';
COMMENT ON COLUMN phase.copied_bytes IS 'for phase step: mean bytes copied to the device in a step; NULL where copies were not observed';
COMMENT ON COLUMN phase.pageable_bytes IS 'for phase step: the part of them from memory that is not pinned';

CREATE TABLE phase_finding (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, kind VARCHAR NOT NULL, share_ratio DOUBLE,
    evidence VARCHAR, next_step VARCHAR
);
COMMENT ON TABLE phase_finding IS 'One row is something that the recorder saw hold a rank back, judged from the phases of its steps.';
COMMENT ON COLUMN phase_finding.rank IS 'rank that it is about';
COMMENT ON COLUMN phase_finding.span IS 'recording it was seen in';
COMMENT ON COLUMN phase_finding.kind IS 'input-bound, copy-bound, communication-bound, host-bound, compute-bound, residual, slow-first-batch or growing-memory';
COMMENT ON COLUMN phase_finding.share_ratio IS 'its share of the step; NULL where it has none';
COMMENT ON COLUMN phase_finding.evidence IS 'what was measured, in words';
COMMENT ON COLUMN phase_finding.next_step IS 'what to try next';

CREATE TABLE phase_step (
    rank INTEGER NOT NULL, span SMALLINT NOT NULL, step BIGINT NOT NULL, phase VARCHAR NOT NULL,
    dur_ns BIGINT NOT NULL CHECK (dur_ns >= 0), memory_bytes BIGINT, peak_bytes BIGINT
);
COMMENT ON TABLE phase_step IS 'One row is a phase of one training step of a rank; phase step is the whole of it, and the others add up to it. The recorder keeps steps that are evenly spaced over the run.';
COMMENT ON COLUMN phase_step.rank IS 'rank it was measured on';
COMMENT ON COLUMN phase_step.span IS 'recording it was measured in';
COMMENT ON COLUMN phase_step.step IS 'number of the step, from 1, as the recorder counts those that ended';
COMMENT ON COLUMN phase_step.phase IS 'step, input_wait, host_to_device, forward, backward, optimizer or residual';
COMMENT ON COLUMN phase_step.dur_ns IS 'its time on the host (ns)';
COMMENT ON COLUMN phase_step.memory_bytes IS 'for phase step: memory in use after it (bytes); NULL where it was not read at this step';
COMMENT ON COLUMN phase_step.peak_bytes IS 'for phase step: most memory in use until then (bytes); NULL where it was not read at this step';
