"""Nanoseconds, bytes and counts as people read them: the only place that rounds."""

from __future__ import annotations

import math

_TIME = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_BYTES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_BANDWIDTHS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))

_SUFFIXES = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000}
"""Endings of durations that people type; if several fit, the first counts."""

NOT_MEASURED = "–"
"""How a missing value is shown: it is never shown as 0."""


def time_text(ns: float | None) -> str:
    """A duration in ns with the unit that keeps three or four digits: `1234567` → `1.235 ms`."""
    if ns is None or math.isnan(ns):
        return NOT_MEASURED
    magnitude = abs(ns)
    for size, unit in _TIME:
        if magnitude >= size:
            return f"{_four_digits(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def moment_text(ns: int) -> str:
    """A point in time in seconds, to the microsecond: `2315021334` → `2.315021 s`."""
    return f"{ns / 1e9:.6f} s"


def bytes_text(size: float | None) -> str:
    """A size in bytes with a binary unit: `1536` → `1.500 KiB`."""
    if size is None or math.isnan(size):
        return NOT_MEASURED
    for unit_size, unit in _BYTES:
        if abs(size) >= unit_size:
            return f"{_four_digits(size / unit_size)} {unit}"
    return f"{size:.0f} B"


def bandwidth_text(bytes_per_second: float | None) -> str:
    """A bandwidth in bytes per second, in decimal GB/s as vendors and nccl-tests count it; one of a few
    bytes, which would be 0 there, in MB/s or kB/s.
    """
    if bytes_per_second is None or math.isnan(bytes_per_second):
        return NOT_MEASURED
    magnitude = abs(bytes_per_second)
    size, unit = next((scale for scale in _BANDWIDTHS if magnitude >= scale[0] / 10), _BANDWIDTHS[-1])
    if not magnitude:
        size, unit = _BANDWIDTHS[0]
    return f"{_four_digits(bytes_per_second / size)} {unit}"


def flops_text(count: float | None, *, per_second: bool = False) -> str:
    """Operations with a decimal prefix: `4_411_000_000` → `4.411 GFLOP`; integers likewise."""
    if count is None or math.isnan(count):
        return NOT_MEASURED
    unit = "FLOP/s" if per_second else "FLOP"
    for power, prefix in ((15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if abs(count) >= 10**power:
            return f"{_four_digits(count / 10**power)} {prefix}{unit}"
    return f"{count:.0f} {unit}"


def ratio_text(ratio: float | None) -> str:
    """A ratio in per cent: `0.5551` → `55.5 %`; a small one is never shown as 0: `0.0003` → `0.03 %`.

    >>> ratio_text(0.0), ratio_text(0.00001), ratio_text(-0.0003)
    ('0.0 %', '<0.01 %', '-0.03 %')
    """
    if ratio is None or math.isnan(ratio):
        return NOT_MEASURED
    percent = 100 * ratio
    if not 0 < abs(percent) < 0.05:
        return f"{percent or 0.0:.1f} %"  # there is no -0
    return f"{percent:.2f} %" if abs(percent) >= 0.005 else "<0.01 %"


def count_text(count: float | None) -> str:
    """A count with thin groups of three digits: `1234567` → `1 234 567`."""
    if count is None or math.isnan(count):
        return NOT_MEASURED
    if float(count).is_integer():
        return f"{int(count):,}".replace(",", "\u202f")
    return _four_digits(count)


def mean_count_text(count: float) -> str:
    """A mean of counts, rounded to a tenth.

    >>> mean_count_text(5 / 48), mean_count_text(2.34), mean_count_text(0.02), mean_count_text(3.0)
    ('0.1', '2.3', '0.02', '3')
    """
    tenths = round(count, 1)
    if tenths.is_integer() and (tenths or not count):
        return count_text(tenths)
    return f"{count:.1f}" if tenths else f"{count:.1g}"


def plural(count: float | str, word: str) -> str:
    """The singular or plural of a word for this count.

    >>> plural(1, "step"), plural(0, "step"), plural("1", "launch"), plural(2, "launch")
    ('step', 'steps', 'launch', 'launches')
    """
    if count in (1, "1"):
        return word
    return f"{word}es" if word.endswith(("s", "ch")) else f"{word}s"


def _four_digits(value: float) -> str:
    digits = len(str(int(abs(value))))
    return f"{value:.{max(0, 4 - digits)}f}"


def parse_time(text: str) -> int:
    """`"3.5ms"`, `"200us"`, `"10m"`, `"1e6"` (ns) to integer nanoseconds.

    Raises:
        ValueError: the text is not a number with a unit of time.
    """
    stripped = text.strip().replace("μ", "u").replace("µ", "u").lower()
    for suffix, size in _SUFFIXES.items():
        if stripped.endswith(suffix):
            return round(float(stripped[: -len(suffix)]) * size)
    return round(float(stripped))
