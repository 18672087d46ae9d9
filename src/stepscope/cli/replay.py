"""`stepscope replay`: writes a script that runs recorded operators alone."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Literal

import click

from stepscope.base.complete_file import check_output, complete_output
from stepscope.base.units import plural
from stepscope.cli.choices import file_option, reading_options, sources_argument, top_option, typed_sources
from stepscope.cli.terminal.printing import print_err
from stepscope.cli.terminal.progress import open_watched


@click.command(name="replay", short_help="Writes a script that runs a recorded operator alone and times it.")
@sources_argument
@click.option(
    "--operator", metavar="NAME", help="Replay this operator: scaled_dot_product_attention, aten::mm, '*norm*'."
)
@click.option("--kernel", metavar="NAME", help="Replay the operators that launched this kernel.")
@top_option(3, "The N calls with the most time, of those with different inputs")
@file_option("The script to write.", required=True)
@reading_options
def command(
    sources: tuple[str, ...],
    job: str | None,
    operator: str | None,
    kernel: str | None,
    top: int,
    output: Path,
    reading: dict[str, Any],
) -> None:
    """Writes a short script that runs recorded operators alone, with the recorded shapes, types, strides and
    numbers, and times them. The script needs only torch: for a colleague, another GPU, or ncu.

    It calls the outermost public operator: for aten::addmm in a linear layer, aten::linear. The calls with
    the most time on the device are chosen, or on the host without a device. The script reports what it
    cannot repeat.
    """
    from stepscope.analysis.operators.replayed_calls import heaviest_calls
    from stepscope.api.several import check_one_job
    from stepscope.report.replay_script import replay_script

    if (operator is None) == (kernel is None):
        raise click.UsageError("Give either --operator or --kernel.")
    check_output(output)
    with open_watched(*sources, job=job, **reading) as trace:
        check_one_job(trace)
        with trace.scope() as scope:
            kind: Literal["operator", "kernel"] = "kernel" if operator is None else "operator"
            calls = heaviest_calls(scope, kind, operator or kernel or "", top)
            script = replay_script(scope, calls, typed_sources(sources, job, reading["capture"]))
    with complete_output(output) as unfinished:
        unfinished.write_text(script.text, encoding="ascii")
    for words in script.left_out:
        print_err(f"left out: {words}")
    number = f"{script.calls} {plural(script.calls, 'call')}"
    print_err(f"{output}: makes {number}; run it: python {shlex.quote(str(output))}")
