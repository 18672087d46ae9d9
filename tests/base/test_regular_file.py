"""Of a file that may be a stranger's, what is no regular file of a known size is not read."""

import os
from pathlib import Path

import pytest

from stepscope.base.regular_file import regular_file_bytes


def test_files_and_links_to_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    assert regular_file_bytes(tmp_path / "link", 3) == b"abc"
    with pytest.raises(OSError, match="too large"):
        regular_file_bytes(tmp_path / "file", 2)


def test_pipes_devices_and_folders_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "device", tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            regular_file_bytes(path, 100)
