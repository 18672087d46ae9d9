"""Decides whether a marked test can run here (pyproject.toml describes the marks), and provides diff tests: literal
rows, a question, the expected CSV, all in one function."""

import gc
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import settings
from tests.examples import examples
from tests.literal import literal_store

from stepscope.base.cpu_quota import processors
from stepscope.query.ask import ask
from stepscope.query.scope import Scope
from stepscope.query.table import Table
from stepscope.questions import find
from stepscope.store.open import Store

ROOT = Path(__file__).resolve().parent.parent
SHARED_TRACES = ROOT.parent / "shared" / "traces"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="also run the tests that need a CUDA device")
    parser.addoption("--long", action="store_true", help="also run the tests marked long, and complete sweeps")


def pytest_configure() -> None:
    # For property tests without a number of examples.
    settings.register_profile("tests", examples(100))
    settings.load_profile("tests")
    # Hundreds of test processes import the same files, so these are compiled once.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Jobs of tests are small, and several run at once, so torch's threads would compete for processors.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # A shell starts background processes with Ctrl-C ignored, nohup any with SIGHUP ignored; children inherit that, but
    # tests send both.
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_xdist_auto_num_workers() -> int:
    """One more than processors: tests spend a fifth of their time waiting for jobs, browsers and servers."""
    return int(processors()) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        _leave_out_long(config, items)
    reasons = {
        "gpu": None if config.getoption("--gpu") else "needs a CUDA device: give --gpu",
        "traces": None if SHARED_TRACES.is_dir() else f"needs the traces in {SHARED_TRACES}",
        "torch": None if find_spec("torch") else "needs torch",
    }
    for item in items:
        for mark, reason in reasons.items():
            if reason is not None and item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


def _leave_out_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests marked `long`, and of a test marked `sweep(n)` all but every n-th case."""
    cases: Counter[str] = Counter()
    left_out = []
    for item in items:
        sweep = item.get_closest_marker("sweep")
        name = item.nodeid.partition("[")[0]
        if item.get_closest_marker("long") or (sweep and cases[name] % sweep.args[0]):
            left_out.append(item)
        cases[name] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        skipped = set(left_out)
        items[:] = [item for item in items if item not in skipped]


def pytest_collection() -> None:
    """Disables garbage collection, which took a quarter of the time, because collected tests stay to the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names bytes by their argument: compressed ones contain the time, but workers must agree."""
    return argname if isinstance(val, bytes | bytearray) else None


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of traces recorded by others; tests that use it carry the mark `traces`."""
    return SHARED_TRACES


Rows = Mapping[str, Sequence[Mapping[str, Any]]]


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache shared by all tests of a run, so that each trace is imported once, by the code under test."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("STEPSCOPE_CACHE", str(folder / "cache"))
        yield


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, for a test that examines it."""
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def make_store() -> Iterator[Callable[[Rows], Store]]:
    """Makes stores of literal rows, and closes them."""
    stores: list[Store] = []

    def make(rows: Rows) -> Store:
        stores.append(literal_store(rows))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def make_scope(make_store: Callable[[Rows], Store]) -> Iterator[Callable[..., Scope]]:
    """Makes scopes over literal rows, and closes them."""
    scopes: list[Scope] = []

    def make(rows: Rows, **narrowed: Any) -> Scope:
        scopes.append(Scope(make_store(rows), **narrowed))
        return scopes[-1]

    yield make
    for scope in scopes:
        scope.close()


@pytest.fixture
def answer(make_store: Callable[[Rows], Store]) -> Callable[..., Table]:
    """Asks a question by name: `answer("kernels", rows, by="name", top=3, columns=["name"])`."""

    def answer_question(name: str, rows: Rows, **asked: Any) -> Table:
        return ask(find(name), make_store(rows), **asked)

    return answer_question


@pytest.fixture
def diff(answer: Callable[..., Table]) -> Callable[..., None]:
    """Compares an answer with the expected CSV.

    The first line of `expected` chooses the columns; indentation and blank lines at its ends are ignored.
    """

    def compare(name: str, rows: Rows, expected: str, **asked: Any) -> None:
        wanted = dedent(expected).strip() + "\n"
        asked.setdefault("columns", wanted.splitlines()[0].split(","))
        assert answer(name, rows, **asked).to_csv() == wanted

    return compare
