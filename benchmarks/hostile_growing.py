"""Kinds of hostile files whose variety grows with their bytes: names, ids, keys, columns, depth, long texts.

Each is made at three sizes, and reading it must not cost more than its bytes do.
"""

from __future__ import annotations

import io
import json
import pickle
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from fuzz_damage import small_trace
from hostile_files import INLINE, PHASES
from hostile_kinds import Laid, Place, kind
from hostile_texts import KERNEL, LAUNCH, OPERATOR, Event, changed, sound, trace

CHECKS = ("checks", "--json")
HOST = (CHECKS, ("hotspots",), ("host-metrics",))
DEVICE = (CHECKS, ("summary",))
MB = 1 << 20


def up_to(size: int, piece: Callable[[int], str]) -> str:
    """Numbered pieces of a text, of about so many bytes together."""
    pieces, length = [], 0
    for number in count():
        pieces.append(piece(number))
        length += len(pieces[-1])
        if length >= size:
            break
    return "".join(pieces)


def text(
    name: str, full: int, make: Callable[[int], str], *, lost: bool | None = None, asked: tuple[Any, ...] = HOST
) -> None:
    """Declares a function from a size to the text of a file of about so many bytes."""

    @kind(name, lost=lost, grows=True)
    def _(place: Place) -> Laid:
        return Laid(place.write("input", make(place.size(full)).encode("utf-8", "surrogatepass")), asked)


# -- Kineto ----------------------------------------------------------------------------------------


def events(name: str, full: int, make: Callable[[int], Event], *, head: str = '"schemaVersion": 1') -> None:
    """Declares a trace of numbered events."""
    length = len(json.dumps(make(1000))) + 2

    def laid(size: int) -> str:
        return trace(*sound(3), *(make(n) for n in range(size // length + 1)), head=head).decode()

    text(f"kineto: {name}", full, laid, asked=DEVICE)


def operator(n: int, **args: Any) -> Event:
    return changed(OPERATOR, ts=10 + 8 * n, args={"External id": n, **args})


events("a key each", 2 * MB, lambda n: operator(n, **{f"key {n}": n}))
events("a long key each", 2 * MB, lambda n: operator(n, **{f"{n}" + "k" * 4000: n}))
events("a key each outside of args", 2 * MB, lambda n: {**operator(n), f"key {n}": n})
events("a nested key each", 2 * MB, lambda n: operator(n, a={f"key {n}": {f"b {n}": n}}))
events("a name each", 8 * MB, lambda n: {**operator(n), "name": f"name {n}"})
events("a long name each", 8 * MB, lambda n: {**operator(n), "name": f"{n}" + "n" * 3000})
events("a category each", 4 * MB, lambda n: {**operator(n), "cat": f"category {n}"})
events("a phase each", 4 * MB, lambda n: {**operator(n), "ph": f"{n}"})
events("a device each", 4 * MB, lambda n: changed(KERNEL, ts=8 * n, args={"device": n, "stream": n}))
events("a process each", 4 * MB, lambda n: {**operator(n), "pid": n})
events("a process by name each", 4 * MB, lambda n: {**operator(n), "pid": f"process {n}", "tid": f"thread {n}"})
events("a large id each", 4 * MB, lambda n: operator(n, **{"correlation": 2**63 - n, "Sequence number": 2**62 + n}))
events("a shape each", 4 * MB, lambda n: operator(n, **{"Input Dims": [[n, n + 1], [n + 1, 7]], "Input type": ["float"] * 2}))  # fmt: skip
events("a group each", 4 * MB, lambda n: changed(KERNEL, ts=8 * n, name="ncclDevKernel", args={
    "Collective name": "allreduce", "Process Group Name": f"group {n}", "Process Group Ranks": f"[{n}, {n + 1}]", "Group size": 2,
}))  # fmt: skip
events("a range each", 4 * MB, lambda n: {**operator(n), "cat": "user_annotation", "name": f"range {n}", "dur": 7})
events("a step each", 4 * MB, lambda n: {**operator(n), "cat": "user_annotation", "name": f"ProfilerStep#{n}", "dur": 7})  # fmt: skip
events("a counter each", 2 * MB, lambda n: {"ph": "C", "name": f"counter {n}", "pid": 1, "ts": n, "args": {f"v{n}": n}})
events("a device's memory each", 4 * MB, lambda n: {
    "ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": n, "s": "t",
    "args": {"Bytes": 512, "Device Type": 1, "Device Id": n, "Addr": n, "Total Allocated": 512},
})  # fmt: skip
events("a flow each", 4 * MB, lambda n: {"ph": "sf"[n % 2], "cat": "ac2g", "id": n, "name": "f", "pid": 1, "tid": 1, "ts": n, "bp": "e"})  # fmt: skip
events("a frame each", 4 * MB, lambda n: changed(OPERATOR, cat="python_function", name=f"f{n}.py({n}): f{n}", ts=n, dur=1, args={"Python id": n, "Python parent id": n - 1}))  # fmt: skip
events("a module each", 4 * MB, lambda n: changed(OPERATOR, cat="python_function", name=f"nn.Module: M{n}_{n}", ts=n, dur=1, args={"Python id": n, "Python module id": n}))  # fmt: skip
events("a kernel each, templates", 4 * MB, lambda n: changed(KERNEL, ts=8 * n, name=f"void k{n}<" + "at::A<int, " * 30 + f"{n}" + ">" * 31 + "(int)"))  # fmt: skip
events("launches of one correlation", 4 * MB, lambda n: changed((LAUNCH, KERNEL)[n % 2], ts=n, args={"correlation": 1}))
events("escapes in names", 4 * MB, lambda n: {**operator(n), "name": '\\"\u2028\x1b\ud800' * 20 + str(n)})
text("kineto: a key each of the document", 2 * MB, lambda size: trace(*sound(3), head=up_to(size, lambda n: f'"key {n}": {n}, ') + '"a": 1').decode(), asked=DEVICE)  # fmt: skip
text("kineto: devices described", 2 * MB, lambda size: trace(*sound(3), head=f'"deviceProperties": [{up_to(size, lambda n: chr(123) + chr(34) + "id" + chr(34) + f": {n}" + chr(125) + ",")}1]').decode(), asked=DEVICE)  # fmt: skip
text("kineto: bytes of other things between events", 4 * MB, lambda size: trace(*sound(3)).decode()[:-3] + "," + up_to(size, lambda n: f"{n} x{n},") + "]}", asked=DEVICE, lost=True)  # fmt: skip
text("kineto: brackets that nothing closes", 2 * MB, lambda size: trace(*sound(3)).decode()[:-3] + "," + "[{" * (size // 2), asked=DEVICE, lost=True)  # fmt: skip
text("kineto: braces inside strings, cut", 4 * MB, lambda size: trace(*sound(3)).decode()[:-3] + "," + up_to(size, lambda _: '{"ph": "X", "name": "}{", '), asked=DEVICE, lost=True)  # fmt: skip


@kind("kineto: holes of zeros inside strings", lost=True, grows=True)
def _holes(place: Place) -> Laid:
    """Each hole starts in one event's string and ends in another's."""
    lines = [json.dumps({**operator(n), "name": "n" * 40}) for n in range(place.size(24_000))]
    data = ",\n".join(lines).encode()
    body = bytearray(b'{"traceEvents": [' + data + b"]}")
    at = 0
    while (at := body.find(b"nnnn", at + 900)) > 0 and (end := body.find(b"nnnn", at + 300)) > 0:
        body[at + 2 : end + 2] = bytes(end - at)
    return Laid(place.write("trace.json", bytes(body)))


# -- host profiles ---------------------------------------------------------------------------------

STACKS = 'process 7:"python";thread (9): main;run (a.py:1);step (b.py:2) 3\n' * 1000
"""Longer than what a format is recognised by."""


def collapsed(name: str, full: int, piece: Callable[[int], str], *, lost: bool | None = None) -> None:
    text(f"collapsed: {name}", full, lambda size: STACKS + up_to(size, piece), lost=lost)


collapsed("a frame each", 4 * MB, lambda n: f"main;f{n} (a{n}.py:{n});g{n} {n + 1}\n")
collapsed("a process each", 4 * MB, lambda n: f'process {n}:"a";thread ({n}): t{n};main (a.py:1) 1\n')
collapsed(
    "processes beyond 64 bits", 2 * MB, lambda n: f'process {10**30 + n}:"a";thread ({10**25}): t;main (a.py:1) 1\n'
)
collapsed("counts beyond 64 bits", 2 * MB, lambda n: f"main;f{n} {10**22}\n", lost=True)
collapsed("deep stacks", 4 * MB, lambda n: "a.py:f;" * 20_000 + f"x{n} 1\n")
collapsed("one line", 4 * MB, lambda n: f"f{n};", lost=True)
text("collapsed: a number of many digits", 2 * MB, lambda size: STACKS + "main;f " + "9" * size + "\n", lost=True)


def speedscope(frames: list[Any], *profiles: Any) -> str:
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json", "exporter": "py-spy@0.4.3",
        "shared": {"frames": frames}, "profiles": profiles,
    }  # fmt: skip
    return json.dumps(document)


def sampled(samples: list[Any], weights: list[Any], name: str = 'Process 7 Thread 9 "Main"') -> dict[str, Any]:
    return {"type": "sampled", "name": name, "unit": "seconds", "samples": samples, "weights": weights}


def frame(n: int) -> dict[str, Any]:
    return {"name": f"f{n}", "file": f"/job/{n}.py", "line": n}


def many(size: int, length: int) -> range:
    return range(max(2, size // length))


def evented(n: int) -> list[dict[str, Any]]:
    opened = [{"type": "O", "frame": 0, "at": at} for at in range(n)]
    return [*opened, *({"type": "C", "frame": 0, "at": at + n} for at in range(n))]


INFINITE = (float("inf"), 1e308, -1e308, float("nan"), 2**80, -1, None, "1", True)
text("speedscope: a frame each", 4 * MB, lambda size: speedscope([frame(n) for n in many(size, 70)], sampled([[n] for n in many(size, 70)], [0.1 for _ in many(size, 70)])))  # fmt: skip
text("speedscope: a profile each", 4 * MB, lambda size: speedscope([frame(0)], *(sampled([[0]], [1], f"Process {n} Thread {n}") for n in many(size, 110))))  # fmt: skip
text("speedscope: a deep stack", 4 * MB, lambda size: speedscope([frame(0)], sampled([[0] * (size // 3)], [1])))
text("speedscope: opened frames", 4 * MB, lambda size: speedscope([frame(0)], {"type": "evented", "name": "t", "unit": "microseconds", "startValue": 0, "events": evented(size // 70)}))  # fmt: skip
text("speedscope: infinite weights", 1 * MB, lambda size: speedscope([frame(0)], sampled([[0] for _ in many(size, 15)], [INFINITE[n % len(INFINITE)] for n in many(size, 15)])))  # fmt: skip
text("speedscope: infinite times", 1 * MB, lambda size: speedscope([frame(0)], {"type": "evented", "name": "t", "unit": "seconds", "startValue": 0, "events": [{"type": "OC"[n % 2], "frame": 0, "at": INFINITE[n // 2 % len(INFINITE)]} for n in many(size, 40)]}))  # fmt: skip
text("speedscope: frames that are not there", 1 * MB, lambda size: speedscope([frame(0)], sampled([[[0], [n], [-n], [2**70], ["0"]][n % 5] for n in many(size, 15)], [1 for _ in many(size, 15)])))  # fmt: skip

SAMPLE = "python 7/8 [003] 12.5:  250000 cpu-clock:u:\n\t ffffffff8104f45a main+0xa (/usr/bin/python3)\n\n"
text("perf script: a frame each", 4 * MB, lambda size: up_to(size, lambda n: f"python 7/8 [003] {n}.5:  250000 cpu-clock:u:\n\t {n:x} f{n}+0xa (/lib/l{n}.so)\n\n"))  # fmt: skip
text("perf script: a thread each", 4 * MB, lambda size: up_to(size, lambda n: f"name {n} {n}/{n + 1} [003] {n}.5:  250000 cycles:\n\t {n:x} main (/bin/a)\n\n"))  # fmt: skip
text("perf script: an event each", 4 * MB, lambda size: up_to(size, lambda n: f"python 7/8 [003] {n}.5:  250000 event{n}:\n\t {n:x} main (/bin/a)\n\n"))  # fmt: skip
text("perf script: a deep stack", 4 * MB, lambda size: SAMPLE.removesuffix("\n") + up_to(size, lambda n: f"\t {n:x} f{n} (/bin/a)\n") + "\n" + SAMPLE)  # fmt: skip
text("perf script: spaces in the first line", 2 * MB, lambda size: "python" + " " * size + SAMPLE.removeprefix("python") + SAMPLE)  # fmt: skip
text("perf script: stacks without a head", 2 * MB, lambda size: SAMPLE + up_to(size, lambda n: f"\t {n:x} f{n} (/bin/a)\n\n"), lost=True)  # fmt: skip
text("perf script: parentheses in symbols", 2 * MB, lambda size: SAMPLE + up_to(size, lambda n: f"{SAMPLE.partition(chr(10))[0]}\n\t 1f {'a(' * 500}{n} (/bin/a)\n\n"))  # fmt: skip

STAT = "# started on Sun Nov 22 17:50:01 2026\n\n Performance counter stats for 'python':\n\n     1,207.41 msec task-clock  #  0.998 CPUs utilized\n"
text("perf stat: a counter each", 2 * MB, lambda size: STAT + up_to(size, lambda n: f"     3,904,111      event_{n}:u    #    3.233 GHz   (83.31%)\n") + "\n       1.2 seconds time elapsed\n")  # fmt: skip
text("perf stat: spaces", 1 * MB, lambda size: STAT + up_to(size, lambda _: f"     3,904{' ' * 900}cycles{' ' * 900}#{' ' * 900}x\n"))  # fmt: skip
text("perf stat: numbers of many digits", 1 * MB, lambda size: STAT + "   1" + "9,999" * (size // 5) + "   cycles\n\n     1.2 seconds time elapsed\n")  # fmt: skip

VTUNE = "Function,CPU Time,Module"
text("vtune: thousands of columns", 2 * MB, lambda size: VTUNE + "".join(f",Metric {n}" for n in many(size, 60)) + "\n" + "".join(f"f{row},1.5,a" + "".join(f",{n}.5" for n in many(size, 60)) + "\n" for row in range(6)))  # fmt: skip
text(
    "vtune: a function each",
    4 * MB,
    lambda size: VTUNE + ",Loads\n" + up_to(size, lambda n: f"f{n},1.5,lib{n}.so,{n}\n"),
)
text("vtune: tabs and depth", 4 * MB, lambda size: "Function Stack\tCPU Time:Total\tCPU Time:Self\tModule\nTotal\t100.0%\t0s\t\n" + up_to(size, lambda n: " " * min(n, 2000) + f"f{n}\t10.0%\t1s\ta.exe\n"))  # fmt: skip
text(
    "vtune: quotes that nothing closes",
    2 * MB,
    lambda size: VTUNE + "\nmain,1.5,a\n" + up_to(size, lambda n: f'"f{n},1.5,a\n'),
)
text(
    "vtune: lines cut short",
    2 * MB,
    lambda size: VTUNE + "\nmain,1.5,a\n" + up_to(size, lambda n: f"f{n}\n"),
    lost=True,
)

APS = "| Summary information\n  Application : train\n  Elapsed Time:   867.22 s\n  MPI Time:   153.27 s   17.68% of Elapsed Time\n"
text("aps: a figure each", 2 * MB, lambda size: APS + up_to(size, lambda n: f"    Figure {n}:      {n}.5 s    0.11% of Elapsed Time\n"))  # fmt: skip
text("aps: depth", 2 * MB, lambda size: APS + up_to(size, lambda n: " " * min(n, 900) + f"Figure {n}: {n}.5 s\n"))
text(
    "aps: advice without an end",
    2 * MB,
    lambda size: APS + up_to(size, lambda n: f"| Your application is MPI bound {n}\n"),
)

ONEDNN = "onednn_verbose,exec,cpu,matmul,brg:avx2,undef,src_f32::blocked:ab:f0,,,{n}x8:8x4,0.5\n"
text("onednn: a shape each", 4 * MB, lambda size: up_to(size, lambda n: ONEDNN.replace("{n}", str(n))))
text("onednn: commas", 2 * MB, lambda size: ONEDNN.replace("{n}", "4") + up_to(size, lambda _: "onednn_verbose,exec" + "," * 3000 + "0.5\n"))  # fmt: skip
text("onednn: lines cut short", 2 * MB, lambda size: ONEDNN.replace("{n}", "4") + up_to(size, lambda n: f"onednn_verbose,exec,cpu,conv{n}\n"), lost=True)  # fmt: skip

# -- tables of other tools -------------------------------------------------------------------------

NCU = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
NCU_LINE = '"{n}","6","python","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(32, 4, 1)","0","7.5","Speed","{metric}","ns","{n}"\n'


def ncu(n: int, kernel: str, metric: str) -> str:
    return NCU_LINE.replace("{n}", str(n)).replace("{kernel}", kernel).replace("{metric}", metric)


text("ncu: a kernel each", 4 * MB, lambda size: NCU + up_to(size, lambda n: ncu(n, f"k{n}", "Duration")), asked=DEVICE)
text(
    "ncu: a metric each", 4 * MB, lambda size: NCU + up_to(size, lambda n: ncu(7, "gemm", f"Metric {n}")), asked=DEVICE
)
text("ncu: thousands of columns", 2 * MB, lambda size: '"ID","Kernel Name","Context","Stream",' + ",".join(f'"m__{n}.sum"' for n in many(size, 40)) + '\n"","","","",' + ",".join('"byte"' for _ in many(size, 40)) + "\n" + "".join(f'"{row}","gemm","1","7",' + ",".join(f'"{n}"' for n in many(size, 40)) + "\n" for row in range(2)), asked=DEVICE)  # fmt: skip
text("ncu: long texts", 4 * MB, lambda size: NCU + up_to(size, lambda n: ncu(n, "k" * 9000, "Duration")), asked=DEVICE)

NVPROF = '==7== NVPROF is profiling process 7, command: python\n==7== Profiling result:\n"Start","Duration","Device","Context","Stream","Name","Correlation_ID"{more}\nms,ms,,,,,{units}\n'
text("nvprof log: a kernel each", 4 * MB, lambda size: NVPROF.replace("{more}", "").replace("{units}", "") + up_to(size, lambda n: f'{n}.0,0.5,"Tesla V100 (0)","1","7","k{n}",{n}\n'), asked=DEVICE)  # fmt: skip
text("nvprof log: a device each", 4 * MB, lambda size: NVPROF.replace("{more}", "").replace("{units}", "") + up_to(size, lambda n: f'{n}.0,0.5,"Tesla V100 ({n})","1","{n}","k",{n}\n'), asked=DEVICE)  # fmt: skip
text("nvprof log: thousands of columns", 2 * MB, lambda size: NVPROF.replace("{more}", "".join(f',"m{n}"' for n in many(size, 30))).replace("{units}", "," * (size // 30)) + "".join(f'{row}.0,0.5,"Tesla V100 (0)","1","7","k",{row}' + "".join(f",{n}" for n in many(size, 30)) + "\n" for row in range(3)), asked=DEVICE)  # fmt: skip
text("nvprof metrics: a metric each", 4 * MB, lambda size: '==7== Metric result:\n"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n' + up_to(size, lambda n: f'"Tesla V100 (0)","gemm",2,"metric_{n}","Words",1.0,2.0,1.5\n'), asked=DEVICE)  # fmt: skip

PYPROF = {
    "kShortName": "gemm", "kDuration": 5, "layer": [], "trace": ["a.py:1"], "reprMarkers": [], "marker": [], "seqMarker": [],
    "tid": 7, "device": 0, "stream": 7, "grid": (640, 1, 1), "block": (128, 1, 1), "kLongName": "void gemm<float>(int)",
}  # fmt: skip
text("pyprof: a kernel and a call each", 4 * MB, lambda size: up_to(size, lambda n: repr(PYPROF | {"kLongName": f"k{n}", "seqMarker": [f"mm{n}, seq = {n}"], "tid": n}) + "\n"), asked=DEVICE)  # fmt: skip
text("pyprof: many markers in a line", 4 * MB, lambda size: repr(PYPROF) + "\n" + up_to(size, lambda n: repr(PYPROF | {"seqMarker": [f"mm{k}, seq = {n}" for k in range(2000)]}) + "\n"), asked=DEVICE)  # fmt: skip
text("pyprof: nested", 1 * MB, lambda size: repr(PYPROF) + "\n" + up_to(size, lambda _: repr(PYPROF).replace("[]", "[" * 2000 + "]" * 2000, 1) + "\n"), asked=DEVICE, lost=True)  # fmt: skip

# -- documents of recorders ------------------------------------------------------------------------


def inline(streams: dict[str, Any], **more: Any) -> str:
    return json.dumps({**INLINE, "timeline": streams, **more})


def timed(label: str, samples: int = 1) -> dict[str, Any]:
    return {"label": label, "occurrence": 0, "samples": [[1 + n, 5, 2] for n in range(samples)]}


text("inline: a label each", 4 * MB, lambda size: inline({"device_0": {"stream_0": [timed(f"label {n}") for n in many(size, 70)]}}), asked=(CHECKS, ("inline",)))  # fmt: skip
text("inline: a device each", 4 * MB, lambda size: inline({f"device_{n}": {f"stream_{n}": [timed("a")]} for n in many(size, 90)}), asked=(CHECKS, ("inline",)))  # fmt: skip
text("inline: many samples", 4 * MB, lambda size: inline({"device_0": {"stream_0": [timed("a", size // 14)]}}), asked=(CHECKS, ("inline",)))  # fmt: skip
text("inline: a key each", 2 * MB, lambda size: inline(INLINE["timeline"], **{f"key {n}": {"a": n} for n in many(size, 28)}), asked=(CHECKS, ("inline",)))  # fmt: skip
text("phases: a phase each", 4 * MB, lambda size: json.dumps({**PHASES, "phases": {f"phase {n}": {"mean_ns": 4e6} for n in many(size, 38)}}), asked=(CHECKS, ("phases",)))  # fmt: skip
text("phases: thousands of columns", 2 * MB, lambda size: json.dumps({**PHASES, "step_columns": ["step", "time_ns", *(f"p{n}_ns" for n in many(size, 40))], "step_samples": [[row, 9, *(4 for _ in many(size, 40))] for row in range(10)]}), asked=(CHECKS, ("phases",)))  # fmt: skip
text("host: a thread each", 2 * MB, lambda size: json.dumps({"format": "stepscope.host", "version": 1, "rank": 0, "host": {"elapsed_ns": 10**9, "user_ns": 10**9, "threads": [[f"thread {n}", n] for n in many(size, 24)]}}))  # fmt: skip

# -- databases -------------------------------------------------------------------------------------


def database(name: str, full: int, fill: Callable[[sqlite3.Connection, int], None], asked: tuple[Any, ...] = DEVICE) -> None:  # fmt: skip
    """Declares an SQLite file that a function fills with about so many bytes."""

    @kind(name, grows=True)
    def _(place: Place) -> Laid:
        path = place.folder / "input.sqlite"
        with sqlite3.connect(path) as connection:
            fill(connection, place.size(full))
        connection.close()
        return Laid(path, asked)


def table(connection: sqlite3.Connection, name: str, rows: Iterator[dict[str, Any]]) -> None:
    first = next(rows)
    connection.execute(f"CREATE TABLE IF NOT EXISTS {name}({', '.join(first)})")
    mark = f"INSERT INTO {name} VALUES ({', '.join('?' * len(first))})"
    connection.execute(mark, tuple(first.values()))
    connection.executemany(mark, (tuple(row.values()) for row in rows))


def nsys(
    connection: sqlite3.Connection, rows: int, *, text: Callable[[int], str] = lambda _: "aten::mm",
    process: Callable[[int], int] = lambda _: 144, device: Callable[[int], int] = lambda _: 0,
) -> None:  # fmt: skip
    """An export of Nsight Systems: a launch, a kernel and a range in each row."""
    machine = 1 << 48
    table(connection, "META_DATA_EXPORT", iter([{"name": "EXPORT_PRODUCT_VERSION", "value": "2024.5.1.113"}]))
    table(connection, "StringIds", ({"id": 1 + n, "value": text(n)} for n in range(rows)))
    table(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", (
        {"start": 100 * n, "end": 100 * n + 2, "eventClass": 0, "globalTid": machine | process(n) << 24 | process(n), "correlationId": n, "nameId": 1}
        for n in range(rows)
    ))  # fmt: skip
    table(connection, "CUPTI_ACTIVITY_KIND_KERNEL", (
        {
            "start": 100 * n + 10, "end": 100 * n + 50, "deviceId": device(n), "contextId": 1, "streamId": 7, "correlationId": n,
            "globalPid": machine | process(n) << 24, "demangledName": 1 + n, "shortName": 1 + n, "gridX": 8, "gridY": 2, "gridZ": 1,
            "blockX": 128, "blockY": 1, "blockZ": 1, "registersPerThread": 32, "staticSharedMemory": 16, "dynamicSharedMemory": 32,
        }
        for n in range(rows)
    ))  # fmt: skip
    table(connection, "NVTX_EVENTS", (
        {
            "start": 100 * n, "end": 100 * n + 60, "eventType": 59, "rangeId": None, "category": None, "text": text(n), "textId": None,
            "globalTid": machine | process(n) << 24 | process(n), "endGlobalTid": None, "domainId": 0,
        }
        for n in range(rows)
    ))  # fmt: skip


def wide(connection: sqlite3.Connection, size: int) -> None:
    nsys(connection, 20)
    for number in range(size // 8000):
        connection.execute(f"CREATE TABLE other_{number}({', '.join(f'column_{n}' for n in range(500))})")


database("nsys: a name each", 6 * MB, lambda db, size: nsys(db, size // 250, text=lambda n: f"name {n}"))
database("nsys: long texts", 8 * MB, lambda db, size: nsys(db, size // 9000 + 1, text=lambda n: f"{n}" + "x" * 4000))
database("nsys: an operator's range each", 6 * MB, lambda db, size: nsys(db, size // 300, text=lambda n: f"aten::mm{n}, seq = {n}, op_id = {n}, sizes = [[{n}, 4]]"))  # fmt: skip
database("nsys: a process each", 300_000, lambda db, size: nsys(db, size // 250, process=lambda n: 144 + n))
database("nsys: a device each", 6 * MB, lambda db, size: nsys(db, size // 250, device=lambda n: n))
database("nsys: tables of others", 4 * MB, wide)


def nvprof(connection: sqlite3.Connection, rows: int, name: Callable[[int], str], thread: Callable[[int], int]) -> None:
    table(connection, "StringTable", ({"_id_": 1 + n, "value": name(n)} for n in range(rows)))
    common = ({"_id_": n, "start": 1000 * n, "end": 1000 * n + 500} for n in range(rows))
    table(connection, "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", (
        row | {"deviceId": thread(n), "contextId": 1, "streamId": thread(n), "gridX": 1, "gridY": 1, "gridZ": 1, "blockX": 1, "blockY": 1,
               "blockZ": 1, "staticSharedMemory": 0, "dynamicSharedMemory": 0, "registersPerThread": 1, "correlationId": n, "name": 1 + n}
        for n, row in enumerate(common)
    ))  # fmt: skip
    table(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", (
        {"_id_": n, "cbid": 211, "start": 1000 * n, "end": 1000 * n + 5, "processId": 7, "threadId": thread(n), "correlationId": n}
        for n in range(rows)
    ))  # fmt: skip


database("nvprof: a name and a thread each", 6 * MB, lambda db, size: nvprof(db, size // 130, lambda n: f"kernel {n}", lambda n: n))  # fmt: skip
database(
    "nvprof: long texts",
    8 * MB,
    lambda db, size: nvprof(db, size // 4100 + 1, lambda n: f"{n}" + "x" * 4000, lambda _: 0),
)

# -- memory snapshots ------------------------------------------------------------------------------


def snapshot(name: str, full: int, make: Callable[[int], Any], *, lost: bool | None = None) -> None:
    @kind(f"snapshot: {name}", lost=lost, grows=True)
    def _(place: Place) -> Laid:
        return Laid(place.write("input.pickle", pickle.dumps(make(place.size(full)), 4)), (CHECKS, ("memory",)))


def history(devices: int, rows: int, change: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """A snapshot whose allocations alternate among the devices."""
    traces: list[list[dict[str, Any]]] = [[] for _ in range(devices)]
    for n in range(rows):
        event = {"action": "alloc", "addr": 4096 * n, "size": 512, "stream": 0, "time_us": 10 + n, "frames": []}
        traces[n % devices].append(event | change(n))
    block = {"address": 0, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": []}
    segments = [
        {"device": n, "address": 0, "total_size": 1 << 20, "allocated_size": 512, "stream": 0, "segment_type": "large", "frames": [], "blocks": [dict(block)]}
        for n in range(min(devices, 64))
    ]  # fmt: skip
    return {"segments": segments, "device_traces": traces, "allocator_settings": {}, "external_annotations": []}


def called(n: int) -> dict[str, Any]:
    return {"frames": [{"name": f"f{n}", "filename": f"/job/{n}.py", "line": n}]}


def shared_lists(depth: int) -> Any:
    """Lists in lists, each twice: 2 to the power of the depth when they are written out."""
    value: Any = ["x"]
    for _ in range(depth):
        value = [value, value]
    return value


snapshot("eight devices, one in use", 80_000, lambda n: history(8, n, lambda _: {}) | {"device_traces": [[], *history(1, n, called)["device_traces"], *[[]] * 6]})  # fmt: skip
snapshot("no history", 60_000, lambda n: history(1, 0, called) | {"segments": [history(1, 0, called)["segments"][0] | {"address": k << 20} for k in range(n // 4)]})  # fmt: skip
snapshot("a frame each", 60_000, lambda n: history(1, n, called))
snapshot("deep stacks", 400, lambda n: history(1, n, lambda k: {"frames": [called(k * 1000 + d)["frames"][0] for d in range(300)]}))  # fmt: skip
snapshot("a device each", 40_000, lambda n: history(n, n, called))
snapshot("a stream each", 60_000, lambda n: history(1, n, lambda k: {"stream": k}))
snapshot("a key each", 60_000, lambda n: history(1, n, lambda k: {f"key {k}": k}))
snapshot("frees of what was never given out", 60_000, lambda n: history(1, n, lambda k: {"action": "free_completed", "addr": 8192 * k}))  # fmt: skip
snapshot("out of memory each", 60_000, lambda n: history(1, n, lambda k: {"action": "oom", "device_free": k}))
snapshot("lists in lists, each twice", 60, lambda n: history(1, 9, called) | {"allocator_settings": shared_lists(n)})
snapshot("ids beyond 64 bits", 40_000, lambda n: history(1, n, lambda k: {"addr": 2**70 + k, "size": 2**66, "time_us": 2**65 + k}))  # fmt: skip

# -- archives --------------------------------------------------------------------------------------


def archive(name: str, full: int, pack: Callable[[int], Iterator[tuple[str, bytes]]]) -> None:
    """Declares a zip or tar of members."""

    @kind(name, grows=True)
    def _(place: Place) -> Laid:
        buffer = io.BytesIO()
        if place.rng.random() < 0.5:
            with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
                for member, data in pack(place.size(full)):
                    zipped.writestr(zipfile.ZipInfo(member), data)
        else:
            with tarfile.open(fileobj=buffer, mode="w") as tar:
                for member, data in pack(place.size(full)):
                    entry = tarfile.TarInfo(member)
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))
        return Laid(place.write("input", buffer.getvalue()))


def ranked(rank: int) -> bytes:
    return trace(*sound(30), head=f'"distributedInfo": {{"rank": {rank}, "world_size": 64}}')


archive("archive: one name for all", 24, lambda n: (("a.json", ranked(k)) for k in range(n)))
archive("archive: members that are nothing", 6000, lambda n: ((f"{k}.txt" if k else "a.json", b"text" if k else small_trace()) for k in range(n)))  # fmt: skip
archive("archive: long names", 300, lambda n: ((f"{k}" + "/n" * 8000 if k else "a.json", b"text" if k else small_trace()) for k in range(n)))  # fmt: skip


@kind("archive: archives in one another", grows=True)
def _nested_archives(place: Place) -> Laid:
    data = small_trace()
    for depth in range(place.size(48)):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr(f"{depth}.zip" if depth else "a.json", data)
        data = buffer.getvalue()
    return Laid(place.write("input.zip", data))
