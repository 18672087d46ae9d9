"""Reads memory snapshots of torch: pickles of `torch.cuda.memory._dump_snapshot`, torch 2.0 and newer, and the
pages that `torch.cuda._memory_viz` makes of them.

A snapshot is a dictionary: `segments` with their `blocks`, as they are when it is taken; `device_traces`, a list of
events for each device; from newer torch `external_annotations` (ranges of the program), and the allocator's settings.
It is converted while it is read (`formats/plain_pickle.py`): events, blocks and frames become columns, and no event
stays a dictionary.

Sizes are what the program asked for, as in torch's own viewer. The allocator rounds them up: its own count,
`torch.cuda.memory_allocated`, is larger, and so are the blocks.
"""

from __future__ import annotations

import json
import re
from array import array
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.base.errors import SourceError
from stepscope.formats.bounded import LIMIT, integer
from stepscope.formats.container import Member
from stepscope.formats.cuda_snapshot.events import (
    ALLOCATED,
    COMPLETED,
    FREE_REQUESTED,
    NOT_KNOWN,
    Columns,
    Events,
    Totals,
    checked_integer,
    columns_of,
    totals_after,
)
from stepscope.formats.cuda_snapshot.frames import BACKWARD, LONGEST_NAME, Stacks
from stepscope.formats.cuda_snapshot.page import EmbeddedPickle, looks_like_page
from stepscope.formats.options import ReadOptions
from stepscope.formats.plain_pickle import TAKEN, ExcessiveError, load
from stepscope.formats.tables import EPOCH_NS, READ, Facts, RankTables, ReadReport, canonical, from_rows

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_MARKS = (b"segments", b"device_traces", b"total_size")
_STATES = {
    "active_allocated": "allocated",
    "active_pending_free": "pending",
    "active_awaiting_free": "pending",
    "inactive": "free",
}
_KIND = "cuda"
_HEAD_BYTES = 1 << 12
_LATEST_US = LIMIT // 1000
_ANNOTATION = "memory annotation"
_MAX_DEVICES = 128
"""torch counts devices in 8 bits."""
_LONGEST_STAGE = 32
_MAX_SETTINGS, _LONGEST_SETTING = 100, 1_000


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes could be a memory snapshot, or a page that shows one."""
    if looks_like_page(head):
        return True
    return _PICKLE.match(head) is not None and any(mark in head[:4096] for mark in _MARKS)


def peek(member: Member) -> Facts | None:
    """What is known without reading it: only the tool."""
    del member
    return _facts()


def read(member: Member, options: ReadOptions | None = None) -> RankTables:
    """Reads one snapshot as a recording of one rank."""
    options = options or ReadOptions()
    snapshot = _Snapshot()
    with member.open() as stream:
        paged = looks_like_page(stream.peek(_HEAD_BYTES)[:_HEAD_BYTES])
        pickled = EmbeddedPickle(stream) if paged else stream
        top = load(pickled, member.label, snapshot.take)
    try:
        return snapshot.tables(top if isinstance(top, dict) else {}, member.label, options)
    except ExcessiveError as error:
        raise _no_snapshot(member.label, str(error)) from error
    except (KeyError, TypeError, OverflowError, ValueError) as error:
        raise _no_snapshot(member.label, "values are of types that it cannot have") from error


def _facts() -> Facts:
    return Facts(resolution_ns=1000, tool="torch.cuda.memory")


def _no_snapshot(label: str, why: str) -> SourceError:
    return SourceError(
        f"{label}: no memory snapshot: {why}",
        hint="dump it with torch.cuda.memory._dump_snapshot(FILE), after torch.cuda.memory._record_memory_history()",
        slug="no-recording",
    )


class _Blocks:
    """Blocks and the segments around them, as columns."""

    def __init__(self) -> None:
        self.address, self.size, self.requested = array("q"), array("q"), array("q")
        self.stack, self.state = array("i"), array("i")
        self.states: dict[str, int] = {}
        self.segments: list[tuple[dict[str, Any], int]] = []
        """Each segment's own fields, and its number of blocks."""


class _Snapshot:
    def __init__(self) -> None:
        self.stacks = Stacks()
        self.events = Events()
        self.blocks = _Blocks()
        self.report = ReadReport()

    def take(self, entry: dict[Any, Any]) -> Any:
        """Takes a complete dictionary from `plain_pickle.load`."""
        if "action" in entry:
            self.events.add(entry, self.stacks.stack(entry.get("frames")))
            return TAKEN
        if "filename" in entry and "line" in entry:
            return self.stacks.frame(entry)
        if "state" in entry and "size" in entry:
            self._take_block(entry)
            return TAKEN
        if "blocks" in entry and "total_size" in entry:
            count = len(entry.pop("blocks"))
            if not count:
                # The device's memory is held, whatever lies in it.
                unknown = {"size": entry["total_size"], "state": "unknown", "address": entry.get("address", NOT_KNOWN)}
                self._take_block(unknown)
            self.blocks.segments.append((dict(entry), max(count, 1)))
            return TAKEN
        return entry

    def _take_block(self, block: dict[Any, Any]) -> None:
        blocks = self.blocks
        frames, size = block.get("frames"), block["size"]
        requested = block.get("requested_size", NOT_KNOWN)
        history = block.get("history")
        if history:
            # Up to torch 2.0 a block lists its uses, the latest first.
            frames, requested = history[0].get("frames"), history[0].get("real_size", NOT_KNOWN)
        blocks.address.append(block.get("address", NOT_KNOWN))
        blocks.size.append(size)
        blocks.requested.append(requested)
        blocks.stack.append(self.stacks.stack(frames))
        state = block["state"]
        if type(state) is not str:
            raise TypeError
        blocks.state.append(blocks.states.setdefault(_STATES.get(state, state), len(blocks.states)))

    def tables(self, top: dict[Any, Any], label: str, options: ReadOptions) -> RankTables:
        """The rows of all that was read."""
        if not (len(self.events) or self.blocks.segments):
            raise _no_snapshot(label, "it holds neither segments nor events")
        lists = top.get("device_traces") or []
        counts = [len(events) if isinstance(events, list) else -1 for events in lists]
        if sum(counts) != len(self.events) or -1 in counts or len(counts) > _MAX_DEVICES:
            raise _no_snapshot(label, "its events are not in lists of devices")
        block = self._block_table()
        parts: list[tuple[int, Columns, Totals]] = []
        first = 0
        for device, count in enumerate(counts):
            if count:  # a process has a list for each device that it sees
                columns = columns_of(self.events, first, first + count)
                parts.append((device, columns, self._totals(device, columns, block)))
                first += count
        # One that is referred to again is no other one.
        distinct = {id(mark): mark for mark in top.get("external_annotations") or () if isinstance(mark, dict)}
        marks = list(distinct.values())
        marked = [
            (mark, time_us) for mark in marks if (time_us := integer(mark.get("time_us"), below=_LATEST_US)) is not None
        ]
        if self.events.wrong:
            self.report.note("wrong_type", count=self.events.wrong)
        if len(marked) < len(marks):
            self.report.drop("no_time", len(marks) - len(marked))
        times = [int(columns.time_us[0]) for _, columns, _ in parts]
        origin = min([*times, *(time for _, time in marked)], default=0)
        facts = _facts()
        if self.events.untimed:
            self.report.note("no_moments", count=self.events.untimed)
        elif origin * 1000 >= EPOCH_NS:
            facts.start_epoch_ns = origin * 1000
        if isinstance(settings := top.get("allocator_settings"), dict):
            facts.metadata = {"allocator_settings": _settings(settings)}
        self.report.read = len(self.events) + block.num_rows
        stacks = self.stacks
        return RankTables(
            facts,
            self.report,
            memory_event=_joined(
                "memory_event", [canonical(self._memory_rows(*part, origin), "memory_event") for part in parts]
            ),
            allocator_event=_joined(
                "allocator_event", [canonical(self._allocator_rows(*part, origin), "allocator_event") for part in parts]
            ),
            memory_block=canonical(block, "memory_block"),
            instant=self._annotations(marked, origin),
            device=_devices({device for device, _, _ in parts}, block),
            call_stack=canonical(pa.table({"stack_id": range(len(stacks.texts)), "frames": stacks.texts}), "call_stack")
            if stacks.texts and options.python_stack
            else READ["call_stack"].empty_table(),
        )

    def _totals(self, device: int, columns: Columns, block: pa.Table) -> Totals:
        here = block.filter(pc.equal(block["device"], device))
        used = here.filter(pc.equal(here["state"].cast(pa.string()), "allocated"))
        size = pc.coalesce(used["requested_bytes"], used["bytes"])
        alive = used["address"].to_numpy(), size.to_numpy()
        reserved = int(pc.sum(here["bytes"]).as_py() or 0)
        return totals_after(columns, self.events.kinds, alive, reserved)

    def _stated(self, **totals: np.ndarray[Any, Any]) -> dict[str, Any]:
        """Totals counted back from what the segments hold at the end: none if the file has no segments."""
        return totals if self.blocks.segments else {}

    def _memory_rows(self, device: int, columns: Columns, totals: Totals, origin: int) -> pa.Table:
        kinds = self.events.kinds
        taken = columns.kind == kinds.get(ALLOCATED, NOT_KNOWN)
        rows = np.flatnonzero(taken | (columns.kind == kinds.get(FREE_REQUESTED, NOT_KNOWN)))
        size = columns.size[rows]
        stack = columns.stack[rows]
        return pa.table(
            {
                "time_ns": (columns.time_us[rows] - origin) * 1000,
                "device_kind": pa.array([_KIND]).take(pa.array(np.zeros(len(rows), np.int8))),
                "device": pa.array(np.full(len(rows), device, np.int32)),
                "address": columns.address[rows],
                "bytes": np.where(taken[rows], size, -size),
                **self._stated(
                    total_allocated_bytes=totals.allocated[rows], total_reserved_bytes=totals.reserved[rows]
                ),
                "stream": _nullable(columns.stream[rows]),
                "annotation": _words(columns.annotation[rows], list(self.events.annotations)),
                **self._of_stacks(stack, taken[rows]),
            }
        )

    def _allocator_rows(self, device: int, columns: Columns, totals: Totals, origin: int) -> pa.Table:
        names = list(self.events.kinds)
        counted = {self.events.kinds.get(action) for action in (ALLOCATED, FREE_REQUESTED, COMPLETED)}
        rows = np.flatnonzero(~np.isin(columns.kind, [action for action in counted if action is not None]))
        of_stacks = self._of_stacks(columns.stack[rows], np.ones(len(rows), bool))
        return pa.table(
            {
                "time_ns": (columns.time_us[rows] - origin) * 1000,
                "kind": _words(columns.kind[rows], names),
                "device_kind": pa.array([_KIND]).take(pa.array(np.zeros(len(rows), np.int8))),
                "device": pa.array(np.full(len(rows), device, np.int32)),
                "address": _nullable(columns.address[rows]),
                "bytes": columns.size[rows],
                "device_free_bytes": pa.array([columns.free.get(row) for row in rows.tolist()], pa.int64()),
                **self._stated(
                    total_allocated_bytes=totals.allocated[rows],
                    total_pending_bytes=totals.pending[rows],
                    total_reserved_bytes=totals.reserved[rows],
                ),
                "stream": _nullable(columns.stream[rows]),
                "stack_id": of_stacks["stack_id"],
            }
        )

    def _annotations(self, marked: list[tuple[dict[Any, Any], int]], origin: int) -> pa.Table:
        names, places = [], []
        for mark, _ in marked:
            name, stage, device = mark.get("name"), mark.get("stage"), mark.get("device")
            names.append(name[:LONGEST_NAME] if type(name) is str else "")
            self.stacks.charge(names[-1])
            place = {"stage": stage} if type(stage) is str and len(stage) <= _LONGEST_STAGE else {}
            places.append(json.dumps(place | ({"device": device} if type(device) is int else {})))
        count = len(marked)
        rows = {
            "time_ns": [(time - origin) * 1000 for _, time in marked],
            "category": [_ANNOTATION] * count,
            "name": names,
            "pid": [""] * count,
            "tid": [""] * count,
            "args": places,
        }
        return pa.table(rows, schema=READ["instant"])

    def _of_stacks(self, stack: np.ndarray[Any, Any], taken: Any) -> dict[str, Any]:
        """What the stacks of some rows show; -1 for no stack.

        If stacks were recorded, an allocation without any frame comes from a thread that Python does not know:
        autograd's, which runs the backward pass. That is not said of releases, whose stacks need not be recorded, nor
        of blocks, which may be older than the recording of stacks.
        """
        stacks = self.stacks
        # The last entry of each array is for rows without a stack.
        place_of = np.where(stack >= 0, stack, len(stacks.text)).astype(np.int32)
        frames_of_stack = np.array([*stacks.text, -1], dtype=np.int32)[place_of]
        recorded = not all(stacks.bare)
        roles = [BACKWARD if bare and recorded else role for role, bare in zip(stacks.roles, stacks.bare, strict=True)]
        names = sorted({name for name in roles if name is not None})
        number = {name: at for at, name in enumerate(names)} | {None: -1}
        role = np.array([number[name] for name in roles] + [-1], dtype=np.int32)[place_of]
        bare = np.array([*stacks.bare, False], dtype=bool)[place_of]
        role[bare & ~np.asarray(taken)] = -1
        operators = sorted({name for name in stacks.operators if name is not None})
        place = {name: at for at, name in enumerate(operators)} | {None: -1}
        operator = np.array([place[name] for name in stacks.operators] + [-1], dtype=np.int32)
        return {
            "stack_id": _nullable(frames_of_stack),
            "role": _words(role, names),
            "operator_name": _words(operator[place_of], operators),
        }

    def _block_table(self) -> pa.Table:
        blocks = self.blocks
        segments = [fields for fields, _ in blocks.segments]
        counts = [count for _, count in blocks.segments]
        if sum(counts) != len(blocks.size):
            raise TypeError
        segment = pa.array(np.repeat(np.arange(len(counts)), counts))

        def numbers(name: str) -> pa.Array:
            return pa.array([checked_integer(fields[name]) for fields in segments], pa.int64()).take(segment)

        address = np.frombuffer(blocks.address, dtype=np.int64)
        size = np.frombuffer(blocks.size, dtype=np.int64)
        start, device = numbers("address"), numbers("device")
        if not all(0 <= number < _MAX_DEVICES for number in pc.unique(device).to_pylist()):
            raise TypeError
        if len(address) and (address < 0).any():
            # torch up to 2.0 does not say where a block is: blocks follow one another.
            inside = np.cumsum(size) - size
            first = np.repeat(np.append(0, np.cumsum(counts))[:-1], counts)
            address = start.to_numpy(zero_copy_only=False) + inside - inside[first]
        pools = [_private(fields.get("segment_pool_id")) for fields in segments]
        expandable = [fields.get("is_expandable") for fields in segments]
        if not {bool, type(None)}.issuperset(map(type, expandable)):
            raise TypeError
        stack = np.frombuffer(blocks.stack, dtype=np.int32)
        return pa.table(
            {
                "device_kind": pa.array([_KIND] * len(size), pa.string()),
                "device": device.cast(pa.int32()),
                "segment": start,
                "segment_bytes": numbers("total_size"),
                "pool": _encoded([fields.get("segment_type") for fields in segments]).take(segment),
                "private_pool": pa.array(pools, pa.string()).take(segment),
                "expandable": pa.array(expandable, pa.bool_()).take(segment),
                "stream": numbers("stream"),
                "address": address,
                "bytes": size,
                "requested_bytes": _nullable(np.frombuffer(blocks.requested, dtype=np.int64)),
                "state": _words(np.frombuffer(blocks.state, dtype=np.int32), list(blocks.states)),
                **self._of_stacks(stack, np.zeros(len(size), bool)),
            }
        )


def _nullable(values: np.ndarray[Any, Any]) -> pa.Array:
    missing = values == NOT_KNOWN
    return pa.array(values, mask=missing if missing.any() else None).cast(pa.int64())


def _words(numbers: np.ndarray[Any, Any], names: list[str]) -> pa.DictionaryArray:
    indices = pa.array(numbers.astype(np.int32, copy=False), mask=numbers < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def _encoded(texts: list[Any]) -> pa.DictionaryArray:
    """Texts as numbers of the distinct ones; what is no text is NULL."""
    words: dict[str, int] = {}
    numbers = [words.setdefault(text, len(words)) if type(text) is str else NOT_KNOWN for text in texts]
    return _words(np.array(numbers, dtype=np.int32), list(words))


def _private(pool: Any) -> str | None:
    if not pool:
        return None
    if type(pool) not in (tuple, list) or len(pool) != 2:
        raise TypeError
    first, second = map(checked_integer, pool)
    return f"{first},{second}" if first or second else None


def _settings(settings: dict[Any, Any]) -> dict[str, Any]:
    """The numbers and short texts among the allocator's settings, and those in a dictionary among them."""
    plain: dict[str, Any] = {}
    for name, value in list(settings.items())[:_MAX_SETTINGS]:
        if type(value) in (int, float, bool) or (type(value) is str and len(value) <= _LONGEST_SETTING):
            plain[str(name)] = value
        elif isinstance(value, dict) and value is not settings:
            plain[str(name)] = {
                str(key): inner
                for key, inner in list(value.items())[:_MAX_SETTINGS]
                if type(inner) in (int, float, bool)
            }
    return plain


def _joined(name: str, parts: list[pa.Table]) -> pa.Table:
    if not parts:
        return READ[name].empty_table()
    return pa.concat_tables(parts, promote_options="permissive")


def _devices(used: set[int], block: pa.Table) -> pa.Table:
    devices = sorted(used | set(block["device"].to_pylist()))
    rows = [{"device": device, "kind": _KIND, "used": True} for device in devices]
    return from_rows("device", rows)
