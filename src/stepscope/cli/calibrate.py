"""`stepscope calibrate`: measures what this machine can do, for rooflines against its own limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from stepscope.base.units import bandwidth_text, flops_text, ratio_text
from stepscope.cli.terminal.printing import print_out

if TYPE_CHECKING:
    from stepscope.costs import Limits
    from stepscope.costs.calibration import Measured


@click.command(name="calibrate", short_help="Measures this machine's limits, for rooflines.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="What to measure; auto takes a GPU if there is one.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.0, 60.0),
    default=0.5,
    show_default=True,
    help="Approximate time for each limit.",
)
@click.option("--dry-run", is_flag=True, help="Show the measurements and write nothing.")
def command(device: str, seconds: float, dry_run: bool) -> None:
    """Measures what this machine's GPU or CPU reaches, for rooflines against its own limits.

    Times matrix products in each element type, vector arithmetic and copies with torch, and writes the best
    of several runs to measured.toml in the folder stepscope of your configuration. `--limits measured` uses
    these instead of data sheets. Measure on an idle machine.
    """
    from stepscope.cli.calibrate_device import measure
    from stepscope.costs import known_devices
    from stepscope.costs.calibration import store_measured

    measured = measure(device, seconds)
    limits = known_devices().find(measured.device, measured.sm_count)
    print_out("\n".join(result_lines(measured, limits)) + "\n")
    if not dry_run:
        path = store_measured(measured)
        print_out(f"\nWritten to {path}\nCompare with it: stepscope roofline SRC --limits measured\n")


def result_lines(measured: Measured, limits: Limits | None) -> Iterator[str]:
    """A measurement as lines, with the share of the data sheet's limits."""
    yield measured.device
    rows: list[tuple[str, str, float, int | None]] = [
        *(
            (f"{unit} {dtype}", flops_text(rate, per_second=True), rate, sheet.get(dtype))
            for unit, rates, sheet in (
                ("matrix", measured.matrix, limits.matrix if limits else {}),
                ("vector", measured.vector, limits.vector if limits else {}),
            )
            for dtype, rate in rates.items()
        ),
        (
            "memory",
            bandwidth_text(measured.memory_bytes_per_s),
            measured.memory_bytes_per_s,
            limits.memory_bytes_per_s if limits else None,
        ),
    ]
    if measured.host_bytes_per_s is not None:
        sheet = limits.host_bytes_per_s if limits else None
        rows.append(("host link", bandwidth_text(measured.host_bytes_per_s), measured.host_bytes_per_s, sheet))
    for name, text, rate, peak in rows:
        comparison = f"  {ratio_text(rate / peak):>8} of the data sheet" if peak else ""
        yield f"  {name:<18} {text:>16}{comparison}"
