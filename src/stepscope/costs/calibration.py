"""The user's own device file and the limits measured on this machine.

Both are TOML in the form of `hardware.toml`, in the folder `stepscope` of the user's configuration: the user writes
`hardware.toml`, which comes before StepScope's rows; `stepscope calibrate` writes `measured.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stepscope.base.complete_file import complete_output
from stepscope.base.errors import UsageError
from stepscope.base.folders import config_folder
from stepscope.base.quoting import toml_string
from stepscope.costs.hardware import Hardware, load_hardware, parse_hardware

_HINT = "set XDG_CONFIG_HOME to a folder that you may write to"
_RECALIBRATE = "measure this machine with: stepscope calibrate"

ERRORS = {
    "not-calibrated": (
        "`--limits measured` compares with what `stepscope calibrate` measured, and nothing was "
        "measured yet. Run it on the machine that the recording comes from; the file it names can "
        "be copied to another."
    )
}


def measured_path() -> Path:
    """The file of measured limits."""
    return config_folder() / "measured.toml"


def known_devices(limits: str = "datasheet") -> Hardware:
    """The devices whose limits are known: the only way to a device's limits.

    Args:
        limits: `datasheet` for the user's file and StepScope's rows, `measured` for the results of `stepscope
            calibrate`.

    Raises:
        UsageError: nothing was measured yet, or a file is unreadable or wrong.
    """
    if limits == "measured":
        path = measured_path()
        if not path.is_file():
            raise UsageError(
                f"no measured limits: there is no {path}",
                hint=f"{_RECALIBRATE}, on the machine that the recording comes from",
                slug="not-calibrated",
            )
        return parse_hardware(path.read_text("utf-8"))
    user_file = config_folder() / "hardware.toml"
    return load_hardware(user_file if user_file.is_file() else None)


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured limits of a device.

    Args:
        device: name that its driver reports.
        sm_count: multiprocessors; None for a CPU.
        vector, matrix: operations per second without tensor cores, and of matrix products, by element type.
        memory_bytes_per_s: bytes read and written per second by a copy in its memory.
        host_bytes_per_s: from and to pinned host memory, the slower direction.
        source: how it was measured, in one line.
    """

    device: str
    sm_count: int | None
    vector: Mapping[str, float]
    matrix: Mapping[str, float]
    memory_bytes_per_s: float
    host_bytes_per_s: float | None
    source: str


def measured_text(measured: Measured) -> str:
    """A measurement as a row of a hardware file."""
    lines = [
        "[[device]]",
        f"name = {toml_string(f'{measured.device} (measured)')}",
        f"match = [{toml_string(measured.device)}]",
    ]
    if measured.sm_count is not None:
        lines.append(f"sm_count = {measured.sm_count}")
    lines += [
        f"vector = {_tera(measured.vector)}",
        f"matrix = {_tera(measured.matrix)}",
        f"memory_gb_per_s = {measured.memory_bytes_per_s / 1e9:.4g}",
    ]
    if measured.host_bytes_per_s is not None:
        # As on datasheets, files state links with both directions together.
        lines.append(f"host_gb_per_s = {2 * measured.host_bytes_per_s / 1e9:.4g}")
    lines.append(f"source = {toml_string(measured.source)}")
    return "\n".join(lines) + "\n"


def store_measured(measured: Measured) -> Path:
    """Writes a measurement beside those of other devices.

    Raises:
        StepScopeError: the file cannot be written.
        UsageError: the existing file does not have this form.
    """
    target = measured_path()
    with complete_output(target, hint=_HINT) as unfinished:
        before = target.read_text("utf-8") if target.is_file() else ""
        parse_hardware(before)
        name_line = f"name = {toml_string(f'{measured.device} (measured)')}"
        others = [row for row in before.split("[[device]]")[1:] if name_line not in row]
        target.parent.mkdir(parents=True, exist_ok=True)
        rows = [measured_text(measured), *(f"[[device]]{row.rstrip()}\n" for row in others)]
        unfinished.write_text("# Written by `stepscope calibrate`.\n\n" + "\n".join(rows), "utf-8")
    return target


def _tera(peaks: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{name} = {value / 1e12:.4g}" for name, value in peaks.items()) + "}"
