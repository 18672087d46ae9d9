"""`stepscope view`: serves the page of recordings."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from html import escape
from pathlib import Path
from typing import Any

import click

from stepscope.cli.choices import reading_options, sources_argument
from stepscope.cli.opened import compare_option, opened_recordings, time_limit_option
from stepscope.cli.terminal.printing import print_err, print_out
from stepscope.store.memory import limited_data


@click.command(name="view", short_help="Shows recordings in a browser.")
@sources_argument
@compare_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port on 127.0.0.1 (default: a free one).",
)
@click.option(
    "--behind",
    metavar="URL",
    help="The page's address behind a proxy, as in https://hub.example.org/user/ann/proxy/8765/.",
)
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@time_limit_option
@reading_options
def command(
    sources: tuple[str, ...],
    job: str | None,
    compare: tuple[str, ...],
    port: int,
    behind: str | None,
    no_browser: bool,
    time_limit: float,
    reading: dict[str, Any],
) -> None:
    """Serves the page of `stepscope report` from this machine, with more rows, every parameter of a question,
    and SQL. Programs can use the same addresses. Ctrl-C ends it.

    It listens only on 127.0.0.1. Each request needs the token in the printed link; every start makes a new
    one. From another machine, use the printed `ssh -L` line; --behind is for a proxy such as
    jupyter-server-proxy.
    """
    # Imported only here: no other command needs a server.
    from stepscope.serve.asking import Recordings
    from stepscope.serve.policy import Policy, place_behind
    from stepscope.serve.running import listen, serve

    place = None if behind is None else place_behind(behind)
    with ExitStack() as stack:
        bound = stack.enter_context(listen(port))
        policy = Policy(bound.getsockname()[1], place)
        opened = opened_recordings(stack, sources, job, compare, **reading)
        # Intermediate states of growing files are not kept: they would fill the cache.
        recordings = Recordings(
            opened,
            [Path(source) for source in (*sources, *compare)],
            lambda again: opened_recordings(again, sources, job, compare, silent=True, **(reading | {"cache": False})),
        )
        stack.callback(recordings.close)

        def ready(_: Callable[[], object]) -> None:
            print_out(f"{policy.link}\n")
            sys.stdout.flush()
            if policy.behind is None:
                print_err(
                    "Open this link. From another machine, first:\n"
                    f"  ssh -L {policy.port}:127.0.0.1:{policy.port} {shlex.quote(_this_machine())}"
                )
            print_err("Ctrl-C ends it.")
            if not no_browser and _has_browser():
                _open(policy.link, stack)

        with limited_data():
            runs_on = serve(recordings, policy, bound, limit_s=time_limit, ready=ready, meanwhile=recordings.prepare)
    print_err("stepscope view: ended")
    if runs_on:
        # If DuckDB cannot stop a query, its library would complain at length when Python unloads it.
        os._exit(0)


def _this_machine() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a user without a name, as in containers
        return socket.gethostname()


def _has_browser() -> bool:
    """Whether there is a screen for a browser; one in the terminal would take the terminal."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(link: str, stack: ExitStack) -> None:
    """Opens the link through a file, because other users can read a browser's arguments."""
    import webbrowser

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stepscope-view-"))
    file = Path(folder) / "open.html"
    file.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(link)}">', encoding="utf-8")
    # In a thread, because some browsers block.
    threading.Thread(target=webbrowser.open, args=[file.as_uri()], daemon=True).start()
