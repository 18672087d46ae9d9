"""A browser for the session, and reports to open in it: made recordings of each kind, and shared traces."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stepscope.api.trace import Trace, open_trace
from stepscope.report.page import page
from stepscope.report.page_data import Shown, page_data
from stepscope.store.open import Store

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CHROMIUM = shutil.which("chromium")


@dataclass
class Opened:
    """A page in the browser, and what went wrong in it or left it."""

    page: Any
    address: str
    data: dict[str, Any]
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def show(self, view: str) -> Any:
        """Goes to a view and waits until it has its answers."""
        self.page.goto(f"{self.address}#/{view}")
        self.page.wait_for_selector(f"main[data-shows='#/{view}']:not(:has(.waiting))")
        return self.page


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, started once."""
    if CHROMIUM is None and os.environ.get("CI"):
        pytest.fail("CI is set, so Chromium may not be missing: .ci/run installs it")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield started
        started.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, dict[str, Any]]]:
    """Makes a report of recordings once a session, and gives its file and its data."""
    folder = tmp_path_factory.mktemp("reports")
    made: dict[str, tuple[Path, dict[str, Any]]] = {}

    def make(name: str, *sources: Path | dict[str, Any]) -> tuple[Path, dict[str, Any]]:
        if name not in made:
            opened = [
                Trace(Store.from_rows(one)) if isinstance(one, dict) else open_trace(one)
                for one in sources
            ]
            data = page_data([Shown(f"{name} {n}", trace) for n, trace in enumerate(opened, 1)])
            for trace in opened:
                trace.close()
            path = folder / f"{name}.html"
            path.write_text(page(name, data), encoding="utf-8")
            made[name] = path, json.loads(json.dumps(data))
        return made[name]

    return make


@pytest.fixture
def show(browser: Any, reports: Any) -> Iterator[Callable[..., Opened]]:
    """Opens a report; at the end nothing may have gone wrong in it, nor left it."""
    contexts: list[tuple[Any, Opened]] = []

    def open_report(name: str, *sources: Any, **looks: Any) -> Opened:
        path, data = reports(name, *sources)
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **looks})
        opened = Opened(context.new_page(), path.as_uri(), data)
        opened.page.on(
            "console",
            lambda said: opened.console.append(said.text) if said.type != "log" else None,
        )
        opened.page.on("pageerror", lambda error: opened.console.append(str(error)))
        opened.page.on("dialog", lambda dialog: opened.console.append(dialog.message))
        opened.page.on(
            "request",
            lambda one: (
                None if one.url.startswith(opened.address) else opened.requests.append(one.url)
            ),
        )
        contexts.append((context, opened))
        return opened

    yield open_report
    for context, opened in contexts:
        context.close()
        assert opened.console == []
        assert opened.requests == []
