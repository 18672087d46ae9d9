"""What a trace says about itself in the keys around `traceEvents`.

Kineto writes them before the events, after them, or in both places. They are read one by one, so that a damaged one,
such as a log line with quotes in it, costs only itself.
"""

from __future__ import annotations

import json
import re
from typing import Any

from stepscope.base.errors import SourceError
from stepscope.formats.communication import listed_numbers
from stepscope.formats.container import strip_bom
from stepscope.formats.kineto.repair import UnreadableError, ValueReader, unescaped
from stepscope.formats.tables import Facts, Group
from stepscope.formats.vocabulary import unknown_model

ERRORS = {
    "merged-export": (
        "The file is an export of several ranks by `stepscope export`, for viewers. A trace is of one rank: "
        "read as one, the events of all ranks would seem to be those of a single process. Ask the original "
        "recording, or export a file for each rank with `--rank`."
    ),
}

MAX_BYTES = 16 << 20  # bytes before and after the events that are read; more are damage
MAX_KEYS = 10_000  # keys that are read; more are damage
MAX_DEVICES = 1024  # that a process sees; most answers have a part for each
MAX_LOST = 100  # unreadable keys after which the rest is given up

_EMPTY: tuple[Any, ...] = (None, "", [], {})
"""A key that appears twice keeps its first value that is not one of these: Kineto writes some keys both before and
after the events, one of them empty."""

_SPACE = " \t\r\n\x00"
_BETWEEN = re.compile(r"[ \t\r\n,\x00]*")
_BEHIND = re.compile(r"[ \t\r\n]*")
_NEXT_KEY = re.compile(
    # A key at the start of a line, one that Kineto writes, or one after a list or object.
    r'\n[ \t]*(?:,[ \t]*)?("[A-Za-z_][\w .\-]{0,80}")[ \t\r\n]*:'
    r'|("(?:schemaVersion|deviceProperties|distributedInfo|traceEvents|traceName|displayTimeUnit'
    r"|baseTimeNanoseconds|trace_id|record_shapes|profile_memory|with_stack|with_flops|with_modules"
    r"|cupti_version|(?:cuda|hip)_(?:runtime|driver)_version|roctracer_version"
    r'|INFO|WARNING|ERROR)")[ \t\r\n]*:'
    r'|[\]}][ \t\r\n]*,[ \t\r\n]*("[A-Za-z_][\w .\-]{0,80}")[ \t\r\n]*:'
)
_KEY = re.compile(r'"((?:[^"\\]|\\.){0,200})"[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_EVENTS = "traceEvents"

_EVENTS_START = re.compile(r"[ \t\r\n]*\[?[ \t\r\n]*")
_KINETO_KEYS = frozenset(("schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "traceName"))
DEVICE_KEYS = {
    "sm_count": "numSms",
    "compute_major": "computeMajor",
    "compute_minor": "computeMinor",
    "max_threads_per_sm": "maxThreadsPerMultiprocessor",
    "max_threads_per_block": "maxThreadsPerBlock",
    "registers_per_sm": "regsPerMultiprocessor",
    "warp_size": "warpSize",
}
_DEVICE_NAMES = {
    "cuda": ("nvidia", "tesla", "geforce", "quadro", "rtx", "titan"),
    "rocm": ("amd", "radeon", "instinct", "gfx"),
    "xpu": ("intel", "data center gpu max"),
    "hpu": ("gaudi", "habana"),
    "npu": ("ascend",),
    "mtia": ("mtia",),
}
_MODELS = {
    ("rocm", 9, 4, 304, 192): "AMD Instinct MI300X",
    ("rocm", 9, 4, 304, 256): "AMD Instinct MI325X",
    ("rocm", 9, 4, 228, 128): "AMD Instinct MI300A",
}
"""Models to which some drivers give no name: kind, compute capability (gfx942), compute units and GiB of memory, from
AMD's data sheets. These do not tell MI350X from MI355X, nor MI210 from a die of MI250."""
_VERSIONS = ("torch_version", "pytorch_version", "torchVersion", "kineto_version")
_RUNTIMES = ("cuda_runtime_version", "hip_runtime_version")
_OF_JOB = ("backend", "nccl_version")
_HOSTS = ("hostname", "host_name", "host", "node")
_PIDS = ("pid", "process_id")
_FILE_NAME = re.compile(
    r"(?:^|[/!])(?:libkineto_activities_(?P<kineto_pid>\d{1,10})"
    # Host names have no underscore, and `worker_3` is no host.
    r"|(?!(?:worker|rank|step|trace|profile|iter|epoch|gpu|node_rank)_)"
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.\-]*)_(?P<pid>\d{1,10})\.\d{8,20}(?:\.pt)?\.trace)\.json"
)


def read_metadata(head: bytes, tail: bytes, *, tail_offset: int = 0) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """The keys around the events with their values, and pairs of a class of damage and a byte; never raises.

    Args:
        head: bytes of the file before the `[` of `traceEvents`, with or without it.
        tail: bytes after the `]` that ends the events.
        tail_offset: byte of the file at which `tail` starts.

    Example:
        >>> read_metadata(b'{"schemaVersion": 1, "traceEvents": [', b', "traceName": "a.json"}')
        ({'schemaVersion': 1, 'traceName': 'a.json'}, [])
    """
    keys = _Keys()
    body = strip_bom(head)[:MAX_BYTES]
    text = body.decode("latin-1")
    start = text.find("{")
    if start >= 0 and not text[:start].strip(_SPACE):
        keys.read(text, start + 1, len(head) - len(strip_bom(head)))
    keys.read(tail[:MAX_BYTES].decode("latin-1"), 0, tail_offset)
    keys.damage.sort(key=lambda note: note[1])
    return keys.values, keys.damage


class _Keys:
    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.damage: list[tuple[str, int]] = []
        self._lost = 0
        self._decoder = json.JSONDecoder(parse_constant=_not_measured)

    def read(self, text: str, index: int, offset: int) -> None:
        """Reads `"key": value, ...` up to the object's end, or the key of the events."""
        for _ in range(MAX_KEYS):
            index = _end_of(_BETWEEN, text, index)
            if index >= len(text):
                return
            if text[index] != '"':
                index += text[index] == "}"
                self._note_extra(text, _end_of(_BETWEEN, text, index), offset)
                return
            key = _KEY.match(text, index)
            if key and key.group(1) == _EVENTS and _end_of(_EVENTS_START, text, key.end()) == len(text):
                return
            read = self._value(text, key.end()) if key else None
            if key is None or read is None:
                self.damage.append(("lost_metadata", offset + index))
                self._lost += 1
                if self._lost >= MAX_LOST:
                    return
                index = _next_key(text, key.end() if key else index + 1)
                continue
            value, end, damage = read
            self._keep(_decoded(key.group(1)), value, offset + index)
            self.damage += [(kind, offset + at) for kind, at in damage]
            index = end
        self.damage.append(("lost_metadata", offset + index))

    def _keep(self, key: str, value: Any, offset: int) -> None:
        if key in self.values:
            self.damage.append(("duplicate_key", offset))
        if self.values.get(key) in _EMPTY:
            self.values[key] = value

    def _note_extra(self, text: str, index: int, offset: int) -> None:
        if index < len(text):
            damage = "interleaved" if '"ph"' in text[index:] else "extra_data"
            self.damage.append((damage, offset + index))

    def _value(self, text: str, at: int) -> tuple[Any, int, list[tuple[str, int]]] | None:
        """The value at `at`, where it ends and its damage; None if it cannot be read without doubt."""
        reader = ValueReader(text, decimal=float)
        damage: list[tuple[str, int]] = []
        try:
            value, end = self._decoder.raw_decode(text, at)
            raw = text[at:end]
            if not raw.isascii():
                value = self._decoder.decode(raw.encode("latin-1").decode())
            if "\\ud" in raw.lower():  # perhaps half a character, which `json` accepts
                raise ValueError(raw)
        except (ValueError, RecursionError):
            try:
                value, end = reader.read(at)
            except UnreadableError:
                return None
            damage = reader.damage
        if any(kind == "unescaped_quote" for kind, _ in damage):
            return None
        behind = _end_of(_BEHIND, text, end)
        return (value, end, damage) if behind >= len(text) or text[behind] in ',}"\x00' else None


def _not_measured(_: str) -> None:
    """What `NaN` and `Infinity` become."""


def _decoded(raw: str) -> str:
    """A key's text from its bytes, read as Latin-1."""
    text, _ = unescaped(raw.encode("latin-1").decode(errors="replace"))
    return text


def _end_of(pattern: re.Pattern[str], text: str, index: int) -> int:
    match = pattern.match(text, index)
    return match.end() if match else index


def _next_key(text: str, after: int) -> int:
    match = _NEXT_KEY.search(text, after)
    return match.start(match.lastindex or 0) if match else len(text)


# -- what the keys mean ----------------------------------------------------------------------------


def facts(metadata: dict[str, Any], file_name: str) -> Facts:
    """What the keys, or else the file's name or path, say about the recording; not its resolution.

    Raises:
        SourceError: it is an export of several ranks.

    Example:
        >>> facts({"distributedInfo": {"rank": 3, "world_size": 8}}, "node7_123.1700000000000.pt.trace.json").host
        'node7'
    """
    ours = metadata.get("stepscope")
    exported = ours.get("exported_ranks") if isinstance(ours, dict) else None
    if isinstance(exported, list) and len(exported) > 1:
        raise SourceError(
            f"{file_name}: an export of {len(exported)} ranks in one file, for viewers",
            hint="ask the recording that it was made of, or export one rank: stepscope export SRC --rank 0 "
            "--chrome FILE",
            slug="merged-export",
        )
    job = metadata.get("distributedInfo")
    job = job if isinstance(job, dict) else {}
    named = _FILE_NAME.search(file_name)
    name_pid = (named.group("kineto_pid") or named.group("pid")) if named else None
    rank = _integer(job.get("rank"))
    return Facts(
        rank=rank,
        rank_rule="distributedInfo" if rank is not None else None,
        world_size=_integer(job.get("world_size")),
        local_rank=_integer(job.get("local_rank")),
        host=_first_text(metadata, _HOSTS) or (named.group("host") if named else None),
        pid=next((pid for key in _PIDS if (pid := _integer(metadata.get(key)))), _integer(name_pid)),
        backend=_first_text(job, ("backend",)),
        start_epoch_ns=_integer(metadata.get("baseTimeNanoseconds"), maximum=2**62) or None,
        tool=_tool(metadata),
        tool_version=_first_text(metadata, _VERSIONS),
        module_classes=_module_classes(metadata),
        graph_capture=isinstance(ours, dict) and ours.get("graph_capture") is not None,
        groups=_groups(job),
        metadata=metadata,
    )


def _groups(job: dict[str, Any]) -> tuple[Group, ...]:
    """The process groups that torch lists beside the rank."""
    listed = job.get("pg_config")
    return tuple(
        Group(
            name,
            _first_text(group, ("pg_desc",)),
            _first_text(group, ("backend_config",)),
            _integer(group.get("pg_size")),
            listed_numbers(group.get("ranks")),
        )
        for group in (listed if isinstance(listed, list) else [])
        if isinstance(group, dict) and (name := _first_text(group, ("pg_name",))) is not None
    )


def _module_classes(metadata: dict[str, Any]) -> dict[str, str]:
    """The modules that StepScope's own recordings list; none if the model is not among them."""
    ours = metadata.get("stepscope")
    listed = ours.get("modules") if isinstance(ours, dict) else None
    if not isinstance(listed, dict):
        return {}
    classes = {path: name for path, name in listed.items() if isinstance(name, str) and name}
    return classes if "" in classes else {}


def devices(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """The devices that the keys describe, with the columns of `device` except `used`.

    Example:
        >>> devices({"deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}]})[0]["kind"]
        'cuda'
    """
    listed = metadata.get("deviceProperties")
    if not isinstance(listed, list):
        return []
    rows: dict[int, dict[str, Any]] = {}
    for position, device in enumerate(listed[:MAX_DEVICES]):
        if isinstance(device, dict):
            described = _device(device, position, metadata)
            rows.setdefault(described["device"], described)
    return list(rows.values())


def device_names(metadata: dict[str, Any]) -> tuple[str, ...] | None:
    """The distinct models of the devices that the keys describe; None if they are not listed.

    Example:
        >>> device_names({"deviceProperties": [{"name": "NVIDIA H100"}, {"name": "NVIDIA H100"}]})
        ('NVIDIA H100',)
    """
    if not isinstance(metadata.get("deviceProperties"), list):
        return None
    return tuple(sorted({_model(device) for device in devices(metadata)}))


def _model(device: dict[str, Any]) -> str:
    """A device's name; if the driver gives none, what distinguishes its model."""
    if device["name"]:
        return str(device["name"])
    major, minor, processors = (device[it] for it in ("compute_major", "compute_minor", "sm_count"))
    figures = [] if major is None else [f"{major}.{minor or 0}"]
    figures += [f"{processors} multiprocessors"] if processors else []
    return ": ".join([unknown_model(device["kind"]), *filter(None, [" with ".join(figures)])])


def versions(metadata: dict[str, Any]) -> dict[str, str]:
    """Versions of the software that all ranks of a job share.

    Example:
        >>> versions({"cuda_runtime_version": 12040, "cuda_driver_version": 12090})
        {'cuda_runtime_version': '12040'}
    """
    job = metadata.get("distributedInfo")
    stated = {key: metadata.get(key) for key in (*_VERSIONS, *_RUNTIMES)}
    stated |= {key: job.get(key) for key in _OF_JOB if isinstance(job, dict)}
    return {key: str(value) for key, value in stated.items() if isinstance(value, int | float | str)}


def _device(device: dict[str, Any], position: int, metadata: dict[str, Any]) -> dict[str, Any]:
    number = _integer(device.get("id"))
    name = device.get("name")
    row: dict[str, Any] = {
        "device": position if number is None else number,
        "kind": _device_kind(device, metadata),
        "name": name.strip() or None if isinstance(name, str) else None,
        "memory_bytes": _integer(device.get("totalGlobalMem"), maximum=2**62),
    }
    for key in ("maxSharedMemoryPerMultiProcessor", "sharedMemPerMultiprocessor"):
        size = _integer(device.get(key), maximum=2**62)
        row["shared_memory_per_sm_bytes"] = row.get("shared_memory_per_sm_bytes") if size is None else size
    for column, key in DEVICE_KEYS.items():
        row[column] = _integer(device.get(key))
    if row["name"] is None and row["memory_bytes"] is not None:
        figures = (row["kind"], row["compute_major"], row["compute_minor"], row["sm_count"])
        row["name"] = _MODELS.get((*figures, -(-row["memory_bytes"] // 2**30)))
    return row


def _device_kind(device: dict[str, Any], metadata: dict[str, Any]) -> str:
    name = str(device.get("name") or "").lower()
    for kind, words in _DEVICE_NAMES.items():
        if any(word in name for word in words):
            return kind
    keys = metadata.keys()
    if any(key.startswith(("hip_", "roctracer_", "rocm_")) for key in keys):
        return "rocm"
    if any(key.startswith(("cuda_", "cupti_")) for key in keys):
        return "cuda"
    # Only these two write such keys: AMD's wavefronts have 64 lanes, NVIDIA's warps 32.
    if "maxSharedMemoryPerMultiProcessor" in device or _integer(device.get("warpSize")) == 64:
        return "rocm"
    if "sharedMemPerBlockOptin" in device or _integer(device.get("warpSize")) == 32:
        return "cuda"
    return "unknown"


def _tool(metadata: dict[str, Any]) -> str | None:
    if "viztracer_metadata" in metadata:
        return "viztracer"
    return "torch.profiler" if not _KINETO_KEYS.isdisjoint(metadata) else None


def _first_text(values: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        value = values.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _integer(value: Any, maximum: int = 2**31 - 1) -> int | None:
    """A nonnegative number, given as a number or as text; None if it is none."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 25:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= maximum else None
