"""Which rows of `device_event` are work, unlike ranges and waits that the recorder draws there."""

from __future__ import annotations

KERNEL_KINDS = ("computation", "communication")
WORK_KINDS = (*KERNEL_KINDS, "copy", "fill")
KERNELS = f"kind IN {KERNEL_KINDS}"
"""SQL: the rows that are kernels."""
WORK = f"kind IN {WORK_KINDS}"
"""SQL: the rows that are kernels, copies and fills."""
