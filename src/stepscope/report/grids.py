"""The drawings that are grids: tables, trees, results of SQL, and texts, of which the page makes no chart."""

from __future__ import annotations

from stepscope.report.renderers import Renderer

RENDERER = Renderer()
TEXT = Renderer(chart="none")
