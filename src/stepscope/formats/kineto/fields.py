"""The fields of Kineto's events: their types, and the columns they become.

Names are matched without case: torch has written `External id` and `external id`, `Input Dims` and
`Input dims`. A field that is not listed here is counted and kept in `other_args` under its raw name,
each spelling by itself.
"""

from __future__ import annotations

EVENT = {
    "ph": "VARCHAR",
    "cat": "VARCHAR",
    "name": "VARCHAR",
    "pid": "VARCHAR",
    "tid": "VARCHAR",
    "ts": "DOUBLE",
    "dur": "DOUBLE",
    "id": "BIGINT",
    "args": "",
}
"""Keys of an event itself, with the type DuckDB reads them as."""

IMPOSSIBLE_NS = -(1 << 62)
"""A duration that no event can have; its event is left out."""

UNSIGNED_NS = -2
"""The duration of an event that never ended and whose end of 0 was less than its start."""

EVENT_IGNORED = frozenset({"s", "bp", "tts", "tdur", "cname", "sf", "ipts", "id2", "scope"})
"""Keys of an event that only tell a viewer how to draw it."""

ARGS = {
    "External id": "BIGINT",
    "correlation": "BIGINT",
    "Sequence number": "BIGINT",
    "Fwd thread id": "BIGINT",
    "Python id": "BIGINT",
    "Python parent id": "BIGINT",
    "Python module id": "BIGINT",
    "Module Hierarchy": "VARCHAR",
    "Call stack": "VARCHAR",
    "Input Dims": "VARCHAR",
    "Input type": "VARCHAR",
    "Input Strides": "VARCHAR",
    "Concrete Inputs": "VARCHAR",
    "device": "BIGINT",
    "stream": "BIGINT",
    "context": "BIGINT",
    "grid": "VARCHAR",
    "block": "VARCHAR",
    "registers per thread": "BIGINT",
    "shared memory": "BIGINT",
    "blocks per SM": "DOUBLE",
    "warps per SM": "DOUBLE",
    "est. achieved occupancy %": "DOUBLE",
    "occupancy": "VARCHAR",
    "priority": "BIGINT",
    "wait_on_stream": "BIGINT",
    "wait_on_cuda_event_record_corr_id": "BIGINT",
    "bytes": "BIGINT",
    "graph id": "BIGINT",
    "graph node id": "BIGINT",
    "kernel": "VARCHAR",
    "Collective name": "VARCHAR",
    "Process Group Name": "VARCHAR",
    "Process Group Description": "VARCHAR",
    "Process Group Ranks": "VARCHAR",
    "Group size": "BIGINT",
    "Seq": "BIGINT",
    "dtype": "VARCHAR",
    "In split size": "VARCHAR",
    "Out split size": "VARCHAR",
    "In msg nelems": "BIGINT",
    "Out msg nelems": "BIGINT",
    "Src Rank": "BIGINT",
    "Dst Rank": "BIGINT",
    "Comms Id": "VARCHAR",
    "Is asynchronized op": "VARCHAR",
    "Global rank start": "BIGINT",
    "Global rank stride": "BIGINT",
    "kernel_file": "VARCHAR",
    "kernel_backend": "VARCHAR",
    "kernel_kwargs": "VARCHAR",
    "num_warps": "VARCHAR",
    "num_stages": "VARCHAR",
    "Device Type": "BIGINT",
    "Device Id": "BIGINT",
    "Addr": "BIGINT",
    "Total Allocated": "BIGINT",
    "Total Reserved": "BIGINT",
    "name": "VARCHAR",
    "sycl queue": "VARCHAR",
    "l0 queue": "VARCHAR",
}
"""Arguments that become columns, with the type DuckDB reads them as."""

OUT_OF_MEMORY = ("Device Type", "Device Id", "bytes", "Total Allocated", "Total Reserved")
"""What a failed allocation states."""

ARGS_DERIVABLE = {
    "Ev Idx": "the order of events, which rows keep",
    "Profiler Event Index": "the order of events, which rows keep",
    "Record function id": "the recorder's number of the call, used only to join execution traces",
    "Trace name": "the same on every event",
    "Trace iteration": "the same on every event",
    "cbid": "number of the runtime call, whose name is the event's",
    "cid": "number of the runtime call, whose name is the event's",
    "kind": "number of the activity, which the category names",
    "kernel_name": "the event's own name",
    "kernel_hash": "the name of the generated file",
    "cuda_sync_kind": "the event's own name",
    "queued": "always 0: CUPTI does not fill it unless asked",
    "finished": "whether an event ended, which its duration tells",
    "external ts": "the operator's time, which its own row has",
    "memory bandwidth (GB/s)": "bytes by duration",
    "sort_index": "how a viewer orders rows",
    "labels": "how a viewer marks a process",
    "Rank": "the rank whose recording the file is",
    "Op count": "how many rows there are",
    "stepscope": "what StepScope found out and exported, which it finds out again",
}
"""Known arguments that are skipped because another column says the same, with the reason."""

COLLECTIVE = {
    "operation": "Collective name",
    "group_name": "Process Group Name",
    "group_description": "Process Group Description",
    "group_ranks": "Process Group Ranks",
    "group_size": "Group size",
    "sequence": "Seq",
    "dtype": "dtype",
    "elements_in": "In msg nelems",
    "elements_out": "Out msg nelems",
    "sent": "In split size",
    "received": "Out split size",
    "source_rank": "Src Rank",
    "destination_rank": "Dst Rank",
    "communicator": "Comms Id",
    "asynchronous": "Is asynchronized op",
    "rank_start": "Global rank start",
    "rank_stride": "Global rank stride",
}
"""Columns of `collective_args` and the arguments that they are read from. The last two give the
ranks of a group whose list is too long to be written."""

_SOURCE = ("kernel_file", "kernel_backend", "kernel_kwargs", "num_warps", "num_stages")
_INPUTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")

SETS = {
    "input_id": (_INPUTS, _INPUTS),
    "stack_id": (("Call stack",), ("Call stack",)),
    "kernel_source_id": (_SOURCE, ("kernel_file", "kernel_backend")),
    "collective_id": (tuple(COLLECTIVE.values()), ("Collective name", "dtype")),
}
"""Columns that name a set of arguments shared by many events: the contents of the set, and the
arguments that an event must have to have one."""

_OTHER_SPELLINGS = {"graphid": "graph id", "graphnodeid": "graph node id"}
KNOWN_ARGS = {name.lower(): name for name in (*ARGS, *ARGS_DERIVABLE)} | _OTHER_SPELLINGS
KNOWN_EVENT = {name.lower(): name for name in (*EVENT, *EVENT_IGNORED)}
