"""A browser for the session, and pages to open in it, as a report and from a server: made recordings of each
kind, and shared traces.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from tests.literal import literal_store
from tests.serve.conftest import served  # noqa: F401  # a fixture

from stepscope.api.trace import Trace, open_trace
from stepscope.base.errors import StepScopeError
from stepscope.query.ask import ask_within
from stepscope.query.scope import Scope
from stepscope.questions import find, of_one_recording
from stepscope.report import page_data
from stepscope.report.page import page
from stepscope.report.page_data import OpenRecording
from stepscope.schema.tables import TABLES
from stepscope.store.interrupt import StoppedError
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

NARROWED = signature(Trace.ask).parameters.keys() - {"self", "question", "parameters"}
"""Arguments that choose events, or rows and columns of the answer: the others are the question's own parameters."""


WALK = """async ([views, most]) => {
    const told = {};
    for (const view of views) {
        location.hash = '#/' + view;
        const since = performance.now();
        const main = () => document.querySelector('main');
        while (main()?.dataset.shows !== '#/' + view || main().ariaBusy !== 'false') {
            if (performance.now() - since > most) throw new Error(view + ' never has its answers');
            await new Promise((again) => setTimeout(again, 1));
        }
        told[view] = await (LOOK)(main());
    }
    return told;
}"""


@dataclass
class Opened:
    """A page in the browser, and what went wrong in it or left it."""

    page: Any
    address: str
    made: Made
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def data(self) -> dict[str, Any]:
        """What a report of the same recordings holds."""
        return self.made.data

    @property
    def traces(self) -> list[Trace]:
        """The recordings."""
        return [shown.trace for shown in self.made.shown]

    def show(self, view: str) -> Any:
        """Goes to a view and waits until it has its answers."""
        self.page.goto(f"{self.address}#/{view}")
        self.page.wait_for_selector(f"main[data-shows='#/{view}'][aria-busy=false]")
        return self.page

    def walk(self, views: list[str], look: str) -> dict[str, Any]:
        """What a function of `main`, in JavaScript, tells of each view: one call, however many there are."""
        told: dict[str, Any] = self.page.evaluate(WALK.replace("LOOK", look), [views, 60_000])
        return told

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


class Answers:
    """What a report was made of. A server of the same recordings answers with it: that both compute alike is what
    `tests/serve` holds.
    """

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}
        self._scopes: dict[Store, Scope] = {}
        self._one_at_a_time = Lock()

    def asked(self, ask: Callable[..., Any], name: str, key: Any, **asked: Any) -> Any:
        """The answer to a question, or the error that it is."""
        key = (key, name, repr(sorted(asked.items())))
        if key not in self._known:
            try:
                self._known[key] = ask()
            except StoppedError:  # whoever asked is gone; the next one waits for an answer
                raise
            except StepScopeError as error:
                self._known[key] = error
        if isinstance(self._known[key], StepScopeError):
            raise self._known[key]
        return self._known[key]

    def has(self, question: str) -> bool:
        """Whether a question was asked of any recording."""
        return any(name == question for _, name, _ in self._known)

    def within(self, question: Any, scope: Any, **asked: Any) -> Any:
        """As a report asks."""
        work = partial(ask_within, question, scope, **asked)
        return self.asked(work, question.name, scope.store, **asked)

    def of(self, trace: Trace, question: str, **asked: Any) -> Any:
        """As a server asks; what is of all events is asked of one scope, which computes once what questions share."""
        asked = {name: value for name, value in asked.items() if value is not None}
        work = partial(Trace.ask, trace, question, **asked)
        if not asked.keys() & NARROWED:
            work = partial(self._within_one_scope, trace, question, **asked)
        return self.asked(work, question, trace.store, **asked)

    def _within_one_scope(self, trace: Trace, question: str, **asked: Any) -> Any:
        with self._one_at_a_time:  # a server asks in several threads
            if trace.store not in self._scopes:
                self._scopes[trace.store] = trace.scope()
                self._scopes[trace.store].preload(TABLES)
            return ask_within(of_one_recording(find(question)), self._scopes[trace.store], **asked)

    def close(self) -> None:
        """Closes what was opened to ask."""
        for scope in self._scopes.values():
            scope.close()


@dataclass
class Made:
    """Recordings open for a server, and, when they are wanted as such, as a report."""

    name: str
    shown: list[OpenRecording]
    folder: Path
    answers: Answers
    server: Any = None

    def served(self, serve: Callable[..., Any]) -> Any:
        """A server of them, started once."""
        self.server = self.server or serve(self.shown)
        return self.server

    @cached_property
    def _held(self) -> dict[str, Any]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(page_data, "ask_within", self.answers.within)
            return page_data.page_data(self.shown)

    @cached_property
    def data(self) -> dict[str, Any]:
        """What a report of them holds."""
        told: dict[str, Any] = json.loads(json.dumps(self._held))
        return told

    @cached_property
    def path(self) -> Path:
        """The report."""
        path = self.folder / f"{self.name}.html"
        path.write_text(page(self.name, self._held), encoding="utf-8")
        return path


@dataclass
class Makes:
    """Opens recordings, once a session."""

    folder: Path
    answers: Answers = field(default_factory=Answers)
    known: dict[str, Made] = field(default_factory=dict)

    def __call__(self, name: str, *sources: Path | dict[str, Any]) -> Made:
        if name not in self.known:
            opened = [Trace(literal_store(one)) if isinstance(one, dict) else open_trace(one) for one in sources]
            jobs = [one for trace in opened for one in trace.jobs.values()]
            shown = [OpenRecording(f"{name} {n}", trace) for n, trace in enumerate(jobs, 1)]
            for one in shown:
                setattr(one.trace, "ask", partial(self.answers.of, one.trace))  # noqa: B010  # it shadows a method
            self.known[name] = Made(name, shown, self.folder, self.answers)
        return self.known[name]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Makes]:
    """Opens recordings and makes reports of them."""
    makes = Makes(tmp_path_factory.mktemp("reports"))
    yield makes
    makes.answers.close()
    for one in makes.known.values():
        for shown in one.shown:
            shown.trace.close()


class Pages:
    """Opens pages in the browser; when it is closed, nothing may have gone wrong in one, nor left it."""

    def __init__(self, browser: Any, made: Makes, serve: Callable[..., Any]) -> None:
        self._browser, self._made, self._serve = browser, made, serve
        self._contexts: list[tuple[Any, Opened]] = []

    def open(self, kind: str, name: str, *sources: Any, **looks: Any) -> Opened:
        """The page of recordings, as a `report` or from a `server`."""
        one = self._made(name, *sources)
        context = self._browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **looks})
        if kind == "server":
            server = one.served(self._serve())
            address = server.policy.link.partition("?")[0]
        else:
            address = one.path.as_uri()
        opened = Opened(context.new_page(), address, one)
        # Chromium reports each answer that is refused, in the words that the page shows, too.
        refused = "Failed to load resource: the server responded with a status of 4"
        opened.page.on(
            "console",
            lambda said: (
                opened.console.append(said.text) if said.type != "log" and not said.text.startswith(refused) else None
            ),
        )
        opened.page.on("pageerror", lambda error: opened.console.append(str(error)))
        opened.page.on("dialog", lambda dialog: opened.console.append(dialog.message))
        opened.page.on(
            "request", lambda one: None if one.url.startswith(opened.address) else opened.requests.append(one.url)
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
    """Opens the page of recordings from a server and then as a report, in one test: each question is asked once."""

    def open_both(name: str, *sources: Any) -> Iterator[Opened]:
        for kind in ("server", "report"):
            yield pages.open(kind, name, *sources)

    return open_both
