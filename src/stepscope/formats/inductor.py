"""Where the kernels that Inductor generated come from: the lines and modules of the program.

Inductor writes it if `TORCH_COMPILE_DEBUG=1` or `INDUCTOR_PROVENANCE=1` is set: into torch's structured
log (`TORCH_TRACE`, or `torch_compile_debug/tlparse`), and into a folder for each graph, whose
`inductor_provenance_tracking_node_mappings.json` leads from kernels to nodes of the graph next to it,
`fx_graph_transformed.py`, where comments have their lines. From the log tlparse makes a file
`inductor_provenance_tracking_kernel_stack_traces.json`; AOTInductor makes a `kernel_information.json`.

Kernels of several graphs may share a name. Only the log says which graph each belongs to, by the name that its calls
have in a trace, and names modules: those whose parameters the fused operations use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stepscope.base.regular_file import regular_file_bytes

MAX_BYTES = 256 << 20
"""Longer files are not read: logs of a compilation have some MB."""

_NAMES = re.compile(
    r"inductor_provenance_tracking_\w+\.json|kernel_information\.json|dedicated_log_torch_trace\w*\.log"
)
_HANDLE = re.compile(r":\d+$")
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)\n[ \t]*([^\n]*)')
_COMMENT = re.compile(r"^\s*# File: (.+?):(\d+) in (\S+), code: (.*)", re.DOTALL)
_NODE = re.compile(r"^\s+(\w+)(?:: \"[^\"]*\")? = ([^;\n]*)")
_PARAMETER = re.compile(r"\bl_self_(modules_\w+?)_(?:parameters|buffers)_\w*")
_LOGGED = re.compile(r"^[VDIWE]\d{4} \S+ \d+ \S+\] (\{.*\})\s*$")
_CACHE = ("fx_graph_cache_miss", "fx_graph_cache_hit", "fx_graph_cache_bypass")
_MAPPINGS = "inductor_provenance_tracking_node_mappings"
_STACKS = "inductor_provenance_tracking_kernel_stack_traces"


class Origin(NamedTuple):
    """Where a kernel comes from.

    Args:
        kernel: its name.
        graph: the graph's key, as in `## Call CompiledFxGraph KEY ##`; None if unknown.
        lines: of the program, each as `file:line in function: code`.
        modules: paths of modules; empty if unknown.
    """

    kernel: str
    graph: str | None
    lines: tuple[str, ...]
    modules: tuple[str, ...]


def is_provenance(path: Path) -> bool:
    """Whether a file is one that Inductor or tlparse writes about its kernels, by its name.

    >>> is_provenance(Path("inductor_provenance_tracking_node_mappings.json"))
    True
    """
    return _NAMES.fullmatch(path.name) is not None


def origins(paths: Iterable[Path]) -> list[Origin]:
    """The distinct origins of kernels in files. A file that cannot be read has none."""
    distinct: dict[Origin, None] = {}
    for path in paths:
        try:
            distinct |= dict.fromkeys(_read(path))
        except (OSError, ValueError, RecursionError):
            continue
    return list(distinct)


def _text(path: Path) -> str:
    return regular_file_bytes(path, MAX_BYTES).decode("utf-8", "replace")


def _read(path: Path) -> Iterator[Origin]:
    text = _text(path)
    if path.suffix == ".log":
        yield from _of_log(text)
        return
    content = json.loads(text)
    if path.name == f"{_MAPPINGS}.json":
        graph = path.with_name("fx_graph_transformed.py")
        lines = _lines_of_nodes(_text(graph))
        for kernel, nodes in _listed(content, "cppCodeToPost"):
            source_lines = dict.fromkeys(lines[node] for node in nodes if node in lines)
            yield Origin(kernel, None, tuple(source_lines), ())
        return
    yield from _of_stacks(content, None, {})


def _of_stacks(content: Any, graph: str | None, modules: dict[str, tuple[str, ...]]) -> list[Origin]:
    """The origins in a table of kernels with the stacks of their fused operations."""
    kernels = []
    for spelled, stacks in content.items() if isinstance(content, dict) else ():
        if isinstance(stacks, dict):  # kernel_information.json
            stacks = stacks.get("stack_traces")
        if not isinstance(stacks, list):
            continue
        lines: dict[str, None] = {}
        for stack in stacks:
            if frames := _FRAME.findall(stack if isinstance(stack, str) else ""):
                lines[_line(*frames[-1])] = None
        kernel = _HANDLE.sub("", str(spelled))
        kernels.append(Origin(kernel, graph, tuple(lines), modules.get(spelled, ())))
    return kernels


def _of_log(text: str) -> Iterator[Origin]:
    """The origins in a structured log, which has a graph's provenance first, then its key."""
    programs: dict[Any, str] = {}
    mappings: dict[Any, Any] = {}
    waiting: dict[Any, Any] = {}
    for about, payload in _entries(text):
        compiled = about.get("frame_id"), about.get("frame_compile_id")
        artifact = about.get("artifact")
        name = artifact.get("name") if isinstance(artifact, dict) else None
        if "dynamo_output_graph" in about:
            programs[compiled] = payload
        elif name == _MAPPINGS:
            mappings[compiled] = _loaded(payload)
        elif name == _STACKS:
            waiting[compiled] = _loaded(payload)
        elif name in _CACHE and compiled in waiting:
            key = _loaded(payload)
            graph = key.get("key") if isinstance(key, dict) else None
            modules = _modules(mappings.pop(compiled, None), programs.get(compiled, ""))
            graph = graph if isinstance(graph, str) else None
            yield from _of_stacks(waiting.pop(compiled), graph, modules)
    for stacks in waiting.values():
        yield from _of_stacks(stacks, None, {})


def _entries(text: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The metadata and the payload of each entry of a log; the payload is the indented lines after it."""
    about: Any = None
    payload: list[str] = []
    for line in text.split("\n"):
        if line.startswith("\t"):
            payload.append(line[1:])
            continue
        if isinstance(about, dict):
            yield about, "\n".join(payload)
        match = _LOGGED.match(line)
        about, payload = _loaded(match.group(1)) if match else None, []
    if isinstance(about, dict):
        yield about, "\n".join(payload)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _listed(content: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    table = content.get(name) if isinstance(content, dict) else None
    for key, values in table.items() if isinstance(table, dict) else ():
        if isinstance(values, list):
            yield _HANDLE.sub("", key), [value for value in values if isinstance(value, str)]


def _line(file: str, number: str, function: str, code: str) -> str:
    return f"{file}:{number} in {function}: {code.strip()}"


def _lines_of_nodes(graph: str) -> dict[str, str]:
    """The line of each node of a graph, from the comment above it."""
    lines: dict[str, str] = {}
    current = None
    for text in graph.split("\n"):
        if comment := _COMMENT.match(text):
            current = _line(*comment.groups())
        elif current is not None and (node := _NODE.match(text)):
            lines[node.group(1)] = current
    return lines


def _modules(mappings: Any, program: str) -> dict[str, tuple[str, ...]]:
    """The modules of each kernel, by its file's spelling: those whose parameters its operations use."""
    used: dict[str, list[str]] = {}
    for text in program.split("\n"):
        if node := _NODE.match(text):
            used[node.group(1)] = [
                ".".join(text.removeprefix("modules_").split("_modules_")) for text in _PARAMETER.findall(node.group(2))
            ]
    before = dict(_listed(mappings, "postToPre"))
    kernels = mappings.get("cppCodeToPost") if isinstance(mappings, dict) else None
    modules = {}
    for kernel, nodes in kernels.items() if isinstance(kernels, dict) else ():
        sources = [text for node in nodes if isinstance(node, str) for text in before.get(node, ())]
        modules[kernel] = tuple(dict.fromkeys(m for text in sources for m in used.get(text, ())))
    return modules
