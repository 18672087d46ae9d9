"""Compares the measurements of `stepscope calibrate` with the data sheet in `costs/hardware.toml`."""

from __future__ import annotations

import sys

from gpu.stages.surroundings import DEVICE, outcome_of
from stepscope.cli.calibrate_device import measure
from stepscope.costs import known_devices

HIGHEST, LOWEST = 1.03, 0.5
"""A result above the first part of a data sheet is impossible; one below the second is not a peak."""


def main() -> int:
    found = outcome_of("peaks")
    measured = measure(DEVICE, 0.5 if DEVICE == "cuda" else 0.05)
    sheet = known_devices().find(measured.device, measured.sm_count)
    rows = []
    for unit, rates, peaks in (
        ("matrix", measured.matrix, sheet.matrix if sheet else {}),
        ("vector", measured.vector, sheet.vector if sheet else {}),
    ):
        rows += [
            {"limit": f"{unit} {dtype}", "measured": rate, "sheet": peaks.get(dtype)} for dtype, rate in rates.items()
        ]
    memory = sheet.memory_bytes_per_s if sheet else None
    host = sheet.host_bytes_per_s if sheet else None
    rows.append({"limit": "memory", "measured": measured.memory_bytes_per_s, "sheet": memory})
    rows.append({"limit": "host link", "measured": measured.host_bytes_per_s, "sheet": host})
    for row in rows:
        rate, peak = row["measured"], row["sheet"]
        row["of_sheet"] = rate / peak if rate and peak else None
    found.figure("device", measured.device)
    found.figure("limits", rows)
    ratios = {str(row["limit"]): row["of_sheet"] for row in rows if row["of_sheet"] is not None}
    found.claim("the data sheet of this device is known", sheet is not None if DEVICE == "cuda" else None)
    found.claim(
        f"every measured limit is between {LOWEST:.0%} and {HIGHEST:.0%} of the data sheet's",
        all(LOWEST <= one <= HIGHEST for one in ratios.values()) if ratios else None,
        outside=[name for name, one in ratios.items() if not LOWEST <= one <= HIGHEST],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
