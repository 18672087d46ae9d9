"""Writes a report: the page with its data, completely or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stepscope.base.complete_file import complete_output
from stepscope.report.page import page
from stepscope.report.page_data import OpenRecording, page_data


def write_report(recordings: Sequence[OpenRecording], target: Path, *, with_paths: bool = False) -> int:
    """Writes recordings into one HTML file and returns its size in bytes.

    Args:
        with_paths: keep the names of hosts and the paths of files.

    Raises:
        StepScopeError: the file cannot be written. Then nothing is left behind.
    """
    data = page_data(recordings, with_paths=with_paths)
    text = page(f"{data['recordings'][0]['name']} – StepScope", data)
    with complete_output(target) as unfinished:
        # HTML cannot hold a name that is not Unicode.
        return unfinished.write_bytes(text.encode("utf-8", "replace"))
