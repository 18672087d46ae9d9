"""What the devices of `devices.toml` can do."""

from __future__ import annotations

from importlib import resources

from stepscope.plugin import parse_hardware

DEVICES = parse_hardware((resources.files(__package__) / "devices.toml").read_text("utf-8"))
