import json
import re
from pathlib import Path

import pytest

from stepscope.questions import names
from stepscope.schema.tables import TABLES


def test_schema_lists_every_table(run):
    out = run("schema").out
    for table in TABLES.values():
        assert f"{table.name}: {table.meaning}" in out


def test_schema_of_one_table_in_json(run):
    answer = json.loads(run("schema", "counter", "--json").out)
    (table,) = answer["tables"]
    assert table["columns"][-1] == {
        "name": "value",
        "type": "DOUBLE",
        "nullable": True,
        "meaning": "value; NULL where the file gives no number",
    }


def test_schema_of_an_unknown_table_gets_the_nearest(run):
    ran = run("schema", "kernel_event")
    assert ran.code == 2
    assert "did you mean" in ran.err


def test_questions_lists_what_can_be_asked(run):
    answer = json.loads(run("questions", "--json").out)
    assert tuple(question["name"] for question in answer["questions"]) == names()
    out = run("questions").out
    for name in names():
        assert f"\n  {name}  " in out


def test_sql_answers_in_every_form(run, store, tmp_path):
    query = "SELECT name, sum(dur_ns) AS total_ns FROM device_event GROUP BY name ORDER BY name"
    assert run("sql", store, query, "--csv").out == "name,total_ns\nadd,40\ngemm,40\n"
    assert run("sql", store, query).out == "name  total\nadd   40 ns\ngemm  40 ns\n"
    assert json.loads(run("sql", store, query, "--json").out)["columns"][1]["unit"] == "ns"
    assert run("sql", store, query, "--parquet", str(tmp_path / "x.parquet")).code == 0
    assert run("sql", store, query, "--csv", "--rank", "1").out == "name,total_ns\nadd,20\ngemm,20\n"


@pytest.mark.parametrize("query", ["COPY (SELECT 1) TO 'STORE/x.csv'", "SELECT 1; SELECT 2", "FROM glob('/etc/*')", ""])
def test_sql_only_reads_and_only_the_store(run, store, query):
    before = sorted(Path(store).rglob("*"))
    ran = run("sql", store, query.replace("STORE", store))
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) == 2
    assert sorted(Path(store).rglob("*")) == before


def test_check_of_a_sound_store_passes(run, store):
    ran = run("check", store, "--json")
    assert ran.code == 0
    assert {row["severity"] for row in json.loads(ran.out)["rows"]} == {"ok"}


def test_check_of_a_violated_store_exits_3_and_still_answers(run, make_store):
    orphan = {"device_event": [{"launch_id": 99}]}
    ran = run("check", make_store(orphan), "--json")
    assert ran.code == 3
    assert "links_lead_somewhere" in ran.err
    assert re.search(r"details: \S+ checks \S+/store\d", ran.err)
    violated = [row for row in json.loads(ran.out)["rows"] if row["severity"] == "error"]
    assert [(row["check"], row["count"]) for row in violated] == [("links_lead_somewhere", 1)]


def test_a_grave_check_of_the_recording_exits_3(run, make_store):
    check = {"check": "duration_overrun", "severity": "error", "explanation": "impossible"}
    assert run("check", make_store({"data_check": [check]})).code == 3
    check["severity"] = "warning"
    assert run("check", make_store({"data_check": [check]})).code == 0
