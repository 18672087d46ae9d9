"""Import on a real Dask cluster of two worker processes."""

import functools
import json
import os
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stepscope.base.errors import StoreError, UsageError
from stepscope.store import cluster as on_cluster
from stepscope.store.build import import_source
from stepscope.store.open import Store

from .test_build import trace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster  # here and below: processes that only collect this need a second less

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="4GB") as running:
        yield running


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "run"
    made.mkdir()
    for rank in range(4):
        (made / f"rank{rank}.json").write_text(json.dumps(trace(rank, name=f"aten::mm{rank}")))
    return made


def files(store: Path) -> dict[str, bytes]:
    return {str(file.relative_to(store)): file.read_bytes() for file in store.rglob("*.parquet")}


def end_in(ranks: list[int], marker: str | None) -> None:
    """Runs on a worker: reading one of these ranks ends it, only once where there is a marker."""
    run_job = on_cluster.run_job

    def ends(job):
        if job.rank in ranks and (marker is None or not Path(marker).exists()):
            if marker is not None:
                Path(marker).touch()
            os._exit(9)
        return run_job(job)

    on_cluster.run_job = ends


class Ending:
    """What Dask runs in each worker when it starts, also in one that takes the place of another."""

    def __init__(self, ranks, marker=None):
        self.arguments = (ranks, None if marker is None else str(marker))

    def setup(self, worker):
        end_in(*self.arguments)


def test_tables_are_those_of_an_import_here(folder, cluster, tmp_path):
    here = import_source(folder, tmp_path / "here")
    there = import_source(folder, tmp_path / "there", dask=cluster.scheduler_address)
    assert files(here) == files(there)
    assert len(files(here)) > 20
    assert {one.name for one in tmp_path.iterdir()} == {"run", "here", "there"}


def test_worker_that_ends_midway_changes_nothing(folder, cluster, tmp_path):
    here = import_source(folder, tmp_path / "here")
    from distributed import Client
    from distributed.diagnostics.plugin import WorkerPlugin

    with Client(cluster, set_as_default=False) as client:
        plugin = type("Plugin", (Ending, WorkerPlugin), {})([1], tmp_path / "marker")
        client.register_plugin(plugin, name="ending")
        there = import_source(folder, tmp_path / "there", dask=cluster.scheduler_address)
        client.unregister_worker_plugin("ending")
    assert (tmp_path / "marker").exists()
    assert files(here) == files(there)


def test_rank_that_ends_every_worker_is_left_out_and_named(folder, cluster, tmp_path):
    def give_up_at_once(dask_scheduler):
        dask_scheduler.allowed_failures = 0

    from distributed import Client
    from distributed.diagnostics.plugin import WorkerPlugin

    with Client(cluster, set_as_default=False) as client:
        client.run_on_scheduler(give_up_at_once)
        plugin = type("Plugin", (Ending, WorkerPlugin), {})([2])
        client.register_plugin(plugin, name="always-ending")
        store = import_source(folder, tmp_path / "there", dask=cluster.scheduler_address)
        client.unregister_worker_plugin("always-ending")
    with Store.open(store) as opened:
        assert opened.ranks == (0, 1, 3)
        rows = opened.sql("SELECT explanation FROM data_check WHERE \"check\" = 'left_out'")
    assert rows.to_pylist() == [
        {
            "explanation": f"{folder / 'rank2.json'} could not be read and is in no answer: "
            "the workers that read it ended before they were done."
        }
    ]


def test_cluster_that_does_not_answer(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(on_cluster, "SECONDS_TO_CONNECT", 1)
    with pytest.raises(StoreError, match=r"tcp://127.0.0.1:9: no Dask scheduler answers"):
        import_source(folder, tmp_path / "store", dask="tcp://127.0.0.1:9")
    (tmp_path / "scheduler.json").write_text("{}")
    with pytest.raises(StoreError, match="names no address"):
        import_source(folder, tmp_path / "store", dask=str(tmp_path / "scheduler.json"))
    with pytest.raises(StoreError, match="no such file, and no address"):
        import_source(folder, tmp_path / "store", dask=str(tmp_path / "absent.json"))
    assert not (tmp_path / "store").exists()


def test_without_dask(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(UsageError, match="needs Dask, which is not installed"):
        import_source(folder, tmp_path / "store", dask="tcp://127.0.0.1:9")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_workers_copy_what_a_url_leads_to_themselves(folder, cluster, tmp_path):
    here = import_source(folder / "rank3.json", tmp_path / "here")
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/rank3.json"
        there = import_source(url, tmp_path / "there", dask=cluster.scheduler_address)
        server.shutdown()
    with Store.open(there) as opened:
        assert opened.sql("SELECT path FROM source").to_pylist() == [{"path": url}]
    same = files(here).keys() - {"rank=00003/source.0.parquet"}
    assert {name: files(there)[name] for name in same} == {name: files(here)[name] for name in same}
