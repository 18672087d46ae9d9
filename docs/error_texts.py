"""What each error means and what to do: a paragraph for every slug in the source."""

from __future__ import annotations

ERRORS: dict[str, str] = {}
