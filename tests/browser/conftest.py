"""A browser for the session, and pages to open in it, as a report and from a server: made recordings of each
kind, and shared traces.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.serve.conftest import served  # noqa: F401  # a fixture

from stepscope.answers.ask import ask_within
from stepscope.api.trace import Trace, open_trace
from stepscope.floor.errors import StepScopeError
from stepscope.report import page_data
from stepscope.report.page import page
from stepscope.report.page_data import Shown
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
    traces: list[Trace]
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def show(self, view: str) -> Any:
        """Goes to a view and waits until it has its answers."""
        self.page.goto(f"{self.address}#/{view}")
        self.page.wait_for_selector(f"main[data-shows='#/{view}']:not(:has(.waiting))")
        return self.page

    def views(self, *, own: bool = True) -> list[str]:
        """The views that the page lists; without `own`, the generic ones of all other questions too."""
        links = self.show("overview").locator("nav > ul a" if own else "nav a")
        hrefs = links.evaluate_all("all => all.map((one) => one.getAttribute('href'))")
        return [href.partition("#/")[2].partition("?")[0] for href in hrefs]


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


@dataclass
class Made:
    """Recordings as a report, and open for a server."""

    path: Path
    data: dict[str, Any]
    shown: list[Shown]
    server: Any = None

    def served(self, serve: Callable[..., Any]) -> Any:
        """A server of them, started once."""
        self.server = self.server or serve(self.shown)
        return self.server


class Answers:
    """What a report was made of. A server of the same recordings answers with it: that both compute alike is what
    `tests/serve` holds.
    """

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def asked(self, ask: Callable[..., Any], name: str, key: Any, **asked: Any) -> Any:
        """The answer to a question, or the error that it is."""
        key = (key, name, repr(sorted(asked.items())))
        if key not in self._known:
            try:
                self._known[key] = ask()
            except StepScopeError as error:
                self._known[key] = error
        if isinstance(self._known[key], StepScopeError):
            raise self._known[key]
        return self._known[key]

    def within(self, question: Any, scope: Any, **asked: Any) -> Any:
        """As a report asks."""
        work = partial(ask_within, question, scope, **asked)
        return self.asked(work, question.name, scope.store, **asked)

    def of(self, trace: Trace, question: str, **asked: Any) -> Any:
        """As a server asks."""
        work = partial(Trace.ask, trace, question, **asked)
        return self.asked(work, question, trace.store, **asked)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Made]]:
    """Opens recordings and makes a report of them, once a session."""
    folder = tmp_path_factory.mktemp("reports")
    known: dict[str, Made] = {}
    answers = Answers()

    def make(name: str, *sources: Path | dict[str, Any]) -> Made:
        if name not in known:
            opened = [
                Trace(Store.from_rows(one)) if isinstance(one, dict) else open_trace(one)
                for one in sources
            ]
            jobs = [one for trace in opened for one in trace.jobs.values()]
            shown = [Shown(f"{name} {n}", trace) for n, trace in enumerate(jobs, 1)]
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(page_data, "ask_within", answers.within)
                data = page_data.page_data(shown)
            for one in shown:
                setattr(one.trace, "ask", partial(answers.of, one.trace))  # noqa: B010  # it shadows a method
            path = folder / f"{name}.html"
            path.write_text(page(name, data), encoding="utf-8")
            known[name] = Made(path, json.loads(json.dumps(data)), shown)
        return known[name]

    yield make
    for one in known.values():
        for shown in one.shown:
            shown.trace.close()


class Pages:
    """Opens pages in the browser; when it is closed, nothing may have gone wrong in one, nor left it."""

    def __init__(self, browser: Any, made: Callable[..., Made], serve: Callable[..., Any]) -> None:
        self._browser, self._made, self._serve = browser, made, serve
        self._contexts: list[tuple[Any, Opened]] = []

    def open(self, kind: str, name: str, *sources: Any, **looks: Any) -> Opened:
        """The page of recordings, as a `report` or from a `server`."""
        one = self._made(name, *sources)
        context = self._browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **looks})
        traces = [shown.trace for shown in one.shown]
        opened = Opened(context.new_page(), one.path.as_uri(), one.data, traces)
        if kind == "server":
            server = one.served(self._serve())
            opened.address = server.policy.link.partition("?")[0]
        # Chromium reports each answer that is refused, in the words that the page shows, too.
        refused = "Failed to load resource: the server responded with a status of 4"
        opened.page.on(
            "console",
            lambda said: (
                opened.console.append(said.text)
                if said.type != "log" and not said.text.startswith(refused)
                else None
            ),
        )
        opened.page.on("pageerror", lambda error: opened.console.append(str(error)))
        opened.page.on("dialog", lambda dialog: opened.console.append(dialog.message))
        opened.page.on(
            "request",
            lambda one: (
                None if one.url.startswith(opened.address) else opened.requests.append(one.url)
            ),
        )
        if kind == "server":
            opened.page.goto(server.policy.link)
            assert opened.page.url == opened.address  # the token has left it
        self._contexts.append((context, opened))
        return opened

    def close(self) -> None:
        for context, opened in self._contexts:
            context.close()
            assert opened.console == []
            assert opened.requests == []


@pytest.fixture
def pages(request: pytest.FixtureRequest, browser: Any, made: Any) -> Iterator[Pages]:
    """Opens pages for a test, and closes them."""
    opened = Pages(browser, made, lambda: request.getfixturevalue("served"))
    yield opened
    opened.close()


@pytest.fixture(params=["report", "server"])
def show(request: pytest.FixtureRequest, pages: Pages) -> Callable[..., Opened]:
    """Opens the page of recordings, in one test as a report and in one from a server."""
    return partial(pages.open, request.param)


@pytest.fixture
def both(pages: Pages) -> Callable[..., Iterator[Opened]]:
    """Opens the page of recordings as a report and then from a server, in one test: the report is made once."""

    def open_both(name: str, *sources: Any) -> Iterator[Opened]:
        for kind in ("report", "server"):
            yield pages.open(kind, name, *sources)

    return open_both
