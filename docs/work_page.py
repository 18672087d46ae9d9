"""Makes the page of work models: what is counted for each operator, by which formula, and device limits."""

from __future__ import annotations

import inspect
from importlib import import_module

from stepscope.base.units import bandwidth_text, flops_text
from stepscope.costs import FAMILIES, formulas
from stepscope.costs.hardware import builtin


def work_page() -> str:
    parts = [
        "# What work is counted, and what devices can do\n",
        "`roofline` and `efficiency` compare the work of operators with the limits of "
        "devices. Both are data: formulas over an operator's recorded inputs, and rows of data "
        "sheets. An operator without a formula, or with too little recorded, has no number.\n",
        inspect.cleandoc(import_module("stepscope.costs.work").__doc__ or "") + "\n",
        "## Formulas\n",
    ]
    listed = formulas()
    for family in FAMILIES:
        own = [formula for formula in listed if formula.family == family]
        if own:
            parts.append(f"### {family}\n")
        for formula in own:
            shown = ", ".join(f"`{name}`" for name in formula.operators[:8])
            more = len(formula.operators) - 8
            shown += f" and {more} more" if more > 0 else ""
            text = " ".join(inspect.cleandoc(formula.text).split())
            parts.append(f"**{formula.formula}**: {text}" + (f" For {shown}." if shown else "") + "\n")
    parts += [
        "## Devices\n",
        "Peaks are dense. `stepscope calibrate` measures a machine's own limits, and `--limits measured` uses "
        "them. Put your own rows into `hardware.toml` in the folder `stepscope` of your configuration "
        "(`~/.config`), in the form of `costs/hardware.toml`.\n",
        "| device | matrix | vector | memory | source |\n| --- | --- | --- | --- | --- |",
    ]
    for device in (one for one in builtin().devices if one.is_known):
        matrix, vector = (
            ", ".join(f"{d} {flops_text(p, per_second=True)}" for d, p in peaks.items()) or "–"
            for peaks in (device.matrix, device.vector)
        )
        memory = bandwidth_text(device.memory_bytes_per_s)
        cells = (device.name, matrix, vector, memory, device.source)
        parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(parts) + "\n"
