"""Files of several jobs on the command line."""

import json

import pytest
from tests.small_traces import H100, MI300, write_trace

from stepscope.cli.terminal.invoked_as import invoked_as


@pytest.fixture(autouse=True)
def unlike(tmp_path, monkeypatch):
    """Two traces of different devices, in the working directory's folder `runs`."""
    write_trace(tmp_path / "runs" / "a.json", device=H100)
    write_trace(tmp_path / "runs" / "b c.json", device=MI300)
    monkeypatch.chdir(tmp_path)


JOBS = f"The files are of 2 jobs: a ({H100}), b c ({MI300}). `--job NAME` picks one."


def test_a_table_has_a_column_for_the_job(run):
    ran = run("operators", "runs", "--csv", "-c", "job,name")
    assert ran.out.splitlines() == ["job,name", "a,first", "a,last", "b c,first", "b c,last"]
    assert " ".join(ran.err.split()) == JOBS
    head, *rows = run("operators", "runs", "--top", "1").out.splitlines()[1:4]
    assert head.split()[:2] == ["job", "name"]
    assert [row.split()[0] for row in rows] == ["a", "b"]


def test_what_is_a_layout_comes_once_for_each_job(run):
    for question in ("summary", "findings"):
        lines = run(question, "runs").out.splitlines()
        assert " ".join(" ".join(lines[:2]).split()).startswith(JOBS)
        assert [line for line in lines if line.startswith("== ")] == ["== a", "== b c"]
    (command,) = [line for line in run("summary", "runs").out.splitlines() if "'b c'" in line][:1]
    assert "runs --job 'b c'" in command


def test_job_picks_one(run):
    assert run("operators", "runs", "--job", "b c", "--csv", "-c", "name").out.split() == ["name", "first", "last"]


def test_a_comparison_takes_a_job_for_each(run):
    ran = run("diff", "runs", "runs", "--job", "a", "--job", "b c", "--by", "operator")
    assert ran.code == 0
    assert "before: a, " in " ".join(ran.out.split())


def test_what_takes_one_job_says_which_there_are(run, tmp_path):
    for call in (
        ("check", "runs"),
        ("roofline", "runs", "--plot", str(tmp_path / "x.png")),
        ("plan", "runs"),
    ):
        ran = run(*call)
        assert ran.code == 2, call
        assert "are of 2 jobs, and this takes one: a, b c [several-jobs]" in ran.err, call
    assert run("check", "runs", "--job", "a").code == 0


def test_import_makes_a_store_for_each_job(run):
    ran = run("import", "runs", "-o", "kept", "--json")
    assert [row["job"] for row in json.loads(ran.out)["rows"]] == ["a", "b c"]
    assert f"kept: ready; ask it with: {invoked_as()} summary kept" in ran.err
    assert run("sources", "kept/b-c", "--csv", "-c", "rank").out.split() == ["rank", "0"]
    assert run("sources", "kept", "--csv", "-c", "rank").out.splitlines() == ["job,rank", "a,0", "b c,0"]
