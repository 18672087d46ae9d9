"""Kinds of hostile lists and logs of nvprof, and reports of other tools: lines cut, mixed, changed and stretched."""

from __future__ import annotations

from hostile_kinds import Laid, Place, kind

_CALL = "{'mod': 'torch', 'op': 'mm', 'args': [{'name': '', 'type': 'tensor', 'shape': (8, 4), 'dtype': 'float32'}]}"
_LIST = "\n".join(
    repr(
        {
            "kShortName": "gemm", "kDuration": number, "layer": [], "trace": ["a.py:1"],
            "reprMarkers": [], "marker": [_CALL],
            "seqMarker": [f"mm, seq = {number}", f"MmBackward, seq = {number}"], "tid": 7,
            "device": 0, "stream": 7, "grid": (640, 1, 1), "block": (128, 1, 1),
            "kLongName": "void gemm<float>(int)",
        }
    )
    for number in range(9)
)  # fmt: skip
_CSV = """==7== NVPROF is profiling process 7, command: python train.py
==7== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Size","SrcMemType","Device","Context","Stream","Name","Correlation_ID","ipc"
s,s,,,,MB,,,,,,,
1.000000,0.006624,640,1,1,,,"Tesla V100 (0)","1","7","gemm",41,0.5
1.444284,0.003168,,,,0.000008,"Device","Tesla V100 (0)","1","7","[CUDA memcpy DtoH]",42,
1.450000,0.000100,,,,,,,,,"cudaLaunchKernel",41,
1.460000,,,,,,,,,,"[Range start] mm (Domain: <unnamed>)",,
"""
_TEXT = """==7== Profiling result:
   Start  Duration            Grid Size      Block Size      Size           Device   Context    Stream  Name
1.0000ms  6.6240us            (640 1 1)       (128 1 1)         -  Tesla V100-SXM2         1         7  void gemm<float>(int*) [41]
1.4443ms  3.1680us                    -               -        8B  Tesla V100-SXM2         1         7  [CUDA memset]
"""
_PIECES = (
    b"9" * 30, b"-", b"e99999", b'"', b"'", b"[" * 200, b"(", b"\0", b",", b"\n", b"1e5", b"\xff", b"{}",
    b"None", b"x" * (1 << 18), b"==7== Profiling result:\n", b"  ",
)  # fmt: skip


@kind("lists and logs of nvprof")
def _mixed(place: Place) -> Laid:
    rng = place.rng
    text = bytearray(rng.choice([_LIST, _CSV, _TEXT]).encode())
    for _ in range(rng.randint(1, 9)):
        at = rng.randrange(len(text))
        change = rng.choice(["cut", "lose", "repeat", "insert", "byte"])
        if change == "cut":
            del text[at + 1 :]
        elif change == "lose":
            del text[at : at + rng.randrange(1, 90)]
        elif change == "repeat":
            text[at:at] = text[rng.randrange(len(text)) :][: rng.randrange(1, 300)]
        elif change == "insert":
            text[at:at] = rng.choice(_PIECES)
        else:
            text[at] = rng.randrange(256)
        text = text or bytearray(b"\n")
    asked = (("checks", "--json"), ("gpu-trace",), ("api-summary",), ("prof",), ("summary",))
    return Laid(place.write("net", bytes(text)), asked)


_REPORTS = (
    " Performance counter stats for 'python':\n\n     1,207.41 msec task-clock  #  0.998 CPUs utilized  ( +- 0.1% )\n"
    "     3,904,111,287      cycles:u  #    3.233 GHz   (83.31%)\n\n       1.209887 seconds time elapsed\n",
    "python 4711/4712 [003] 1234.567890:    250000 cpu-clock:u:  ffffffff8104f45a\n"
    "\tffffffff8104f45a native_write_msr+0xa ([kernel.kallsyms])\n\t  7f2e main (/usr/bin/python3 (deleted))\n\n",
    "Function,CPU Time (s),CPU Time:Effective Time,Module,Function (Full)\nmain,1.5s,0.5,python3,main\n",
    "| Summary information\n|   HW Platform : Xeon\n  Elapsed Time:   867.22 s\n    MPI Time:  12.5 s 3.2% of Elapsed Time\n"
    "|   Your application is MPI bound.\n",
    "==7== Metric result:\nInvocations   Metric Name   Metric Description   Min   Max   Avg\nDevice \"Tesla V100 (0)\"\n"
    "    Kernel: void gemm<float>(int*)\n          3     ipc    Executed IPC    1.2    1.4    1.3\n",
    "onednn_verbose,exec,cpu,matmul,brg:avx2,undef,src_f32::blocked:ab:f0,,,4x8:8x4,0.5\n",
    "process 7:\"python\";main (train.py:12);forward (model.py:7) 42\n",
)  # fmt: skip
_RUNS = (" ", "\t", "\n", "1", "a", ".", ",", ":", "(", ")", "|", "#", "%", "_", ": ", " (", "a:", "1 ", "[", "/", ";")


@kind("runs of one sign in reports")
def _runs(place: Place) -> Laid:
    text = place.rng.choice(_REPORTS)
    for _ in range(place.rng.randint(1, 3)):
        at = place.rng.randrange(len(text))
        run = place.rng.choice(_RUNS)
        text = text[:at] + run * (place.size(1 << place.rng.randint(8, 18)) // len(run)) + text[at:]
    return Laid(place.write("report", text.encode()), (("checks", "--json"), ("host-metrics",), ("hotspots",)))
