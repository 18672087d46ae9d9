"""Writes `notebook.ipynb`, from the cells below, without outputs: they would hold this machine's paths.

    python examples/make_notebook.py           # writes it
    python examples/make_notebook.py --check   # exit code 1 where it is another

`tests/repo/test_notebook.py` runs the cells.
"""

import json
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).with_name("notebook.ipynb")

CELLS = [
    "# Where does a training step's time go?\n"
    "\n"
    "Any recording will do: a trace of torch.profiler, a folder of one per rank, a database of nvprof or Nsight\n"
    "Systems. Without one, the next cell writes a small trace of its own, with times that are made up. Charts\n"
    "need matplotlib.",
    """\
import json
import tempfile
from pathlib import Path

import stepscope

RECORDING = None  # "traces/": a file, a folder, or a store that `stepscope import` made""",
    """\
def made_up_trace(path):
    \"\"\"Three steps of two kernels, as torch.profiler writes them, times in microseconds.\"\"\"
    events = []

    def add(cat, name, ts, dur, tid=1, **args):
        pid = 0 if cat == "kernel" else 100
        events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})

    for step in range(3):
        at, number = 10_000 * step, 100 * step
        add("user_annotation", f"ProfilerStep#{step}", at, 9_000)
        for place, (operator, kernel, dur) in enumerate([("aten::mm", "sgemm_128x64_nn", 4_000), ("aten::relu", "relu_kernel", 700)]):
            start, own = at + 100 + 200 * place, number + place + 1
            add("cpu_op", operator, start, 150, **{"External id": own})
            add("cuda_runtime", "cudaLaunchKernel", start + 50, 20, correlation=own, **{"External id": own})
            add("kernel", kernel, at + 1_000 + 4_500 * place, dur, tid=7, device=0, stream=7, correlation=own, **{"External id": own})
    path.write_text(json.dumps({"traceEvents": events}))


folder = tempfile.TemporaryDirectory()
if RECORDING is None:
    RECORDING = Path(folder.name) / "trace.json"
    made_up_trace(RECORDING)
trace = stepscope.open(RECORDING, cache=False)""",
    "## What limits the step\n\nA table shows its unit and meaning where the mouse rests on the name of a column.",
    'trace.summary(columns=["section", "item", "time_ns", "share_ratio", "text"])',
    'trace.findings(columns=["title", "saving_high_ns", "confidence", "advice"])',
    "## Each step, each kernel",
    "trace.steps()",
    "trace.kernels(top=10)",
    "## As a chart\n\nThe picture of the question where it has one (`roofline`, `rank_overview` with a measure), else bars of its shares.",
    "stepscope.chart(trace.kernels())",
    "## As data\n\nTimes are integers in nanoseconds; what was not measured is `None`, never 0.",
    """\
slowest = max(trace.steps(), key=lambda step: step["total_ns"])
slowest["step"], slowest["total_ns"]""",
    'trace.sql("SELECT name, count(*) AS launches, sum(dur_ns) AS total_ns FROM device_event GROUP BY name ORDER BY total_ns DESC")',
    """\
trace.close()
folder.cleanup()""",
]


def text() -> str:
    """The notebook, as nbformat 4 has it."""
    cells = [
        {
            "cell_type": "markdown" if source.startswith(("#", "##")) else "code",
            "id": f"cell-{number}",
            "metadata": {},
            "source": source.splitlines(keepends=True),
        }
        for number, source in enumerate(CELLS)
    ]
    for cell in cells:
        if cell["cell_type"] == "code":
            cell |= {"execution_count": None, "outputs": []}
    notebook = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(NOTEBOOK.read_text(encoding="utf-8") != text())
    NOTEBOOK.write_text(text(), encoding="utf-8")
