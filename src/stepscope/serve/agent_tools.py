"""The tools of an agent: at most ten, each with the JSON schema of its arguments.

A tool is a function from open recordings and arguments to a reply. No tool writes; SQL may only read.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from stepscope.base.known_names import check_name
from stepscope.query.declare import Parameter, Question
from stepscope.query.event_filter import filters_of
from stepscope.questions import all_questions, find
from stepscope.questions import names as question_names
from stepscope.report.declaration import declaration, table_declaration
from stepscope.schema.declare import Role
from stepscope.schema.tables import TABLES
from stepscope.serve.agent_replies import NOTICE, ROWS, Call, fitting, reply

if TYPE_CHECKING:
    from stepscope.serve.asking import Recordings

Arguments = Mapping[str, Any]
Does = Callable[["Recordings", Arguments], dict[str, Any]]

MAX_ROWS = 200
MAX_SQL_ROWS = 20_000
"""Rows computed for one SQL statement; `more` pages through them."""
_MAX_LISTED_QUERY = 600
_MAX_QUERY = 12_000
"""Characters of SQL that a finding shows in a list or alone. Longer SQL names each of many kernels; `stepscope findings
--json` has it."""
_SAMPLED_ROWS = 10_000
_SAMPLES = 3

INSTRUCTIONS = (
    "StepScope answers where a training step's time goes, from recordings of profilers. Call `guide` "
    f"first: it says how to go about it and what was recorded. Times are integer ns. {NOTICE}"
)

_GUIDE = """\
1. `recordings` lists what is open: ids, ranks, steps, devices, how many rows each table has. What has no
   rows was not recorded; nothing can be said of it.
2. `ask` question=summary: the verdict, and where a step's time went. Its parts add up to the step.
3. `findings`: what is worth changing, the largest loss first, each with the number it rests on, the rows
   that show it, what a cure saves at most, and the call that gives the number again. Report a saving as "at
   most", and as a share of the step.
4. `checks`: what of the recording is damaged or missing. A reply with `unreliable` rests on such evidence;
   say so.
5. Then one question at a time: `questions` lists them, and with names explains columns and definitions.
   Follow a number down: steps -> device-time -> kernels, operators or modules -> gpu-trace.
   `rank`, `step`, `name`, `under` and `window` narrow; `sort`, `columns` and `top` shorten.
   Where a text names a command, `stepscope idle`, the call is `ask` question=idle (`schema`: the tool).
6. `sql` for the rest, DuckDB's dialect. Call `schema` before, for the names of columns and sample values;
   the answer to each question is a table too: answer.kernels.
7. `compare` sets recordings side by side. A change is one only where its interval leaves zero out.

Units: `_ns` is nanoseconds, `_ratio` is a share where 1 is 100 %; each column says what of. null was not
measured; it is never 0. `abstained` has the reason why there is no answer, and often the option that would
record it: say that the recording does not tell, and do not guess. `rows_total` counts all rows; `more` is
the call for the next ones. Sums over the rows of one reply are no totals where `more` is there.
A profile knows time, work and memory. It does not know the loss, the accuracy or the code's intent."""


@dataclass(frozen=True)
class Tool:
    """A tool: its name, purpose, arguments and function."""

    name: str
    description: str
    takes: dict[str, Any]
    does: Does


def _guide(recordings: Recordings, _: Arguments) -> dict[str, Any]:
    return {"guide": _GUIDE, "recordings": recordings.listed()}


_DEVICES = """
    WITH used AS (SELECT DISTINCT rank, device FROM device_event)
    SELECT name, count(*) AS devices FROM device
    WHERE (rank, device) IN (FROM used) OR NOT EXISTS (FROM used) GROUP BY name ORDER BY name
"""
"""The ranks that ran something: each rank lists all devices of its node."""


def _list_recordings(recordings: Recordings, _: Arguments) -> dict[str, Any]:
    counts = " UNION ALL BY NAME ".join(f"SELECT '{name}' AS name, count(*) AS n FROM {name}" for name in TABLES)

    def rows(number: str, text: str) -> list[dict[str, Any]]:
        return recordings.sql(number, text, max_rows=MAX_SQL_ROWS).rows()

    def described(number: str, name: str) -> dict[str, Any]:
        (step,) = rows(number, "SELECT count(DISTINCT step) AS n, min(step) AS a, max(step) AS b FROM step")
        ranks = [row["rank"] for row in rows(number, "SELECT rank FROM rank ORDER BY rank")]
        devices = rows(number, _DEVICES)
        failing = "SELECT severity, count(*) AS n FROM data_check WHERE severity <> 'ok' GROUP BY 1"
        return {
            "id": number,
            "name": name,
            "ranks": ranks[:64],
            "ranks_total": len(ranks),
            "steps": {"count": step["n"], "first": step["a"], "last": step["b"]},
            "devices": devices,
            "rows_of_tables": {row["name"]: row["n"] for row in rows(number, counts) if row["n"]},
            "failing_checks": {row["severity"]: row["n"] for row in rows(number, failing)},
        }

    described_all = [described(recording["id"], recording["name"]) for recording in recordings.listed()]
    return {"notice": NOTICE, "rows": fitting(described_all)[0]}


def _list_questions(_: Recordings, arguments: Arguments) -> dict[str, Any]:
    if named := arguments.get("names"):
        explained_questions = []
        for name in named:
            question = find(name)
            filters = {by or "": list(taken) for by, taken in filters_of(question).items()}
            explained = " ".join(question.explanation.split())
            explained_questions.append(declaration(question) | {"filters": filters, "explanation": explained})
        return {"questions": fitting(explained_questions)[0]}
    listed = [
        {"name": question.name, "asks": question.asks}
        | ({"recordings": question.recordings} if question.recordings != "one" else {})
        for question in all_questions()
    ]
    return {"questions": listed, "more": _a_call("questions", names=["NAME"])}


def _ask(recordings: Recordings, arguments: Arguments) -> dict[str, Any]:
    return _answered(recordings, "ask", arguments, [arguments.get("recording", "1")])


def _compare(recordings: Recordings, arguments: Arguments) -> dict[str, Any]:
    given = {"question": "diff", **arguments}
    return _answered(recordings, "compare", given, given.get("recordings", ()))


def _answered(recordings: Recordings, tool: str, arguments: Arguments, ids: Sequence[str]) -> dict[str, Any]:
    name = arguments["question"]
    parameters = {**arguments.get("parameters", {})}
    parameters |= {key: value for key, value in arguments.items() if key in _NARROWS}
    texts = [(key, _as_text(value)) for key, value in parameters.items() if value is not None]
    table = recordings.ask(name, ids, texts)
    content = reply(table, tool, arguments)
    if "more" in content:
        narrows = {filter_name for taken in filters_of(find(name)).values() for filter_name in taken}
        content["narrowed_by"] = sorted({"columns", "rank", "sort", "step"} | narrows)
    return content


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _findings(recordings: Recordings, arguments: Arguments) -> dict[str, Any]:
    parameters = [("id", arguments["id"])] if "id" in arguments else []
    number = arguments.get("recording", "1")
    table = recordings.ask("findings", [number], parameters)
    queries = table["query"]

    def readable(row: dict[str, Any]) -> dict[str, Any]:
        return {
            name: json.loads(value) if name == "evidence" else value for name, value in row.items() if name != "query"
        }

    content = reply(table, "findings", arguments, readable)
    for column in content["columns"]:
        if column["name"] == "query":
            column |= {"name": "again", "meaning": "the call that gives the number again"}
    # Not cut like other texts: half a query is useless.
    max_query = _MAX_QUERY if parameters else _MAX_LISTED_QUERY
    for row, query in zip(content["rows"], queries[arguments.get("skip", 0) :], strict=False):
        by_itself = _a_call("findings", id=row["id"], recording=number)
        row["again"] = _again(query, number) if len(query) <= max_query else by_itself
    return content


def _again(query: str, number: str) -> Call:
    """Translates a `stepscope` command or SQL into the call with the same answer."""
    words = shlex.split(query) if query.startswith("stepscope ") else []
    if len(words) < 3 or words[1] not in question_names():
        return _a_call("sql", recording=number, sql=query)
    given: dict[str, Any] = {}
    options = [word for word in words[3:] if word != "--json"]
    for option, value in pairwise([*options, "--"]):
        if option.startswith("--"):
            name = option.removeprefix("--").replace("-", "_")
            given[name] = True if value.startswith("--") else value
    if words[1] == "findings":
        return _a_call("findings", recording=number, **given)
    types = {parameter.name: parameter.type for parameter in find(words[1]).parameters}
    question_parameters = {
        name: json.loads(given.pop(name)) if types[name] in ("int", "float") else given.pop(name)
        for name in tuple(given)
        if name in types
    }
    parameters = {"parameters": question_parameters} if question_parameters else {}
    return _a_call("ask", question=words[1], recording=number, **given, **parameters)


def _checks(recordings: Recordings, arguments: Arguments) -> dict[str, Any]:
    parameters = [("all", _as_text(arguments["all"]))] if "all" in arguments else []
    table = recordings.ask("checks", [arguments.get("recording", "1")], parameters)
    return reply(table, "checks", arguments)


def _schema(recordings: Recordings, arguments: Arguments) -> dict[str, Any]:
    named = arguments.get("tables")
    if not named:
        listed = [{"name": name, "meaning": table.meaning} for name, table in TABLES.items()]
        return {"tables": listed, "more": _a_call("schema", tables=["TABLE"])}
    described = []
    for name in named:
        if name.startswith("answer."):
            question = find(name.removeprefix("answer."))
            columns = declaration(question)["columns"]
            described.append({"name": f"answer.{question.method}", "meaning": question.asks, "columns": columns})
            continue
        check_name(name, TABLES, "table")
        declared = table_declaration(TABLES[name])
        samples = _samples(recordings, arguments.get("recording", "1"), name)
        columns = [
            column | ({"samples": samples[column["name"]]} if column["name"] in samples else {})
            for column in declared["columns"]
        ]
        described.append(declared | {"columns": columns})
    return {"notice": NOTICE.replace("`rows` and `checks`", "`samples`"), "tables": fitting(described)[0]}


def _samples(recordings: Recordings, number: str, table: str) -> dict[str, list[Any]]:
    """Sample values of text columns and of columns that tell rows apart, from the first rows."""
    telling = (Role.WORD, Role.TEXT, Role.KEY, Role.STEP)
    names = [column.quoted for column in TABLES[table].columns if column.role in telling]
    if not names:
        return {}
    listed = ", ".join(f"to_json(list_sort(list(DISTINCT {name}))[:{_SAMPLES}]) AS {name}" for name in names)
    text = f"SELECT {listed} FROM (FROM {table} LIMIT {_SAMPLED_ROWS})"
    (row,) = recordings.sql(number, text, max_rows=1).rows()
    return {name: json.loads(values) for name, values in row.items() if values not in (None, "[]")}


def _sql(recordings: Recordings, arguments: Arguments) -> dict[str, Any]:
    number = arguments.get("recording", "1")
    table = recordings.sql(number, arguments["sql"], max_rows=MAX_SQL_ROWS)
    content = reply(table, "sql", arguments)
    if len(table) == MAX_SQL_ROWS:
        del content["rows_total"]  # not counted; the note says that there are more
    return content


def _a_call(tool: str, **arguments: Any) -> Call:
    return {"tool": tool, "arguments": arguments}


def _text(meaning: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": meaning, **more}


def _number(meaning: str, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "description": meaning, **more}


_RECORDING = {"recording": _text("id of the recording (default 1)")}
_SHORTENS = {
    "top": _number(f"rows at most (default {ROWS})", minimum=1, maximum=MAX_ROWS),
    "skip": _number("rows to leave out first", minimum=0),
}
_WHAT = {
    "columns": {"type": "array", "items": {"type": "string"}, "description": "these columns alone"},
    "sort": _text("a column, as in total_ns or name:asc; numbers come largest first"),
    "name": _text("only events of this name: a glob, or /REGEX/"),
    "under": _text("only inside this module, operator or range"),
    "window": _text("only this stretch of time, START:END, as in 10ms:20ms"),
}
_WHICH = {
    "rank": {"type": ["string", "integer"], "description": "only these ranks, as in 0,2-5"},
    "step": {"type": ["string", "integer"], "description": "only these steps, as in 3 or 3-5"},
}
_NARROWS = frozenset({*_WHAT, *_WHICH})


def _takes(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required), "additionalProperties": False}


def _parameters(questions: Sequence[Question]) -> dict[str, Any]:
    """The parameters of several questions as one object; the choices are listed per question."""
    users: dict[str, list[tuple[str, Parameter]]] = {}
    for question in questions:
        for parameter in question.parameters:
            users.setdefault(parameter.name, []).append((question.name, parameter))
    types = {"int": "integer", "float": "number", "text": "string", "bool": "boolean"}
    properties = {}
    for name, uses in users.items():
        choices = [
            f"{question}: {' | '.join(parameter.choices)}" if parameter.choices else question
            for question, parameter in uses
        ]
        meaning = "what a row is about" if name == "by" else uses[0][1].meaning
        described = f"{meaning}. Of {'; '.join(choices)}"
        kinds = sorted({types[parameter.type] for _, parameter in uses})
        properties[name] = {"type": kinds, "description": described}
    return {"type": "object", "description": "the question's own parameters", "properties": properties}


def tools() -> list[Tool]:
    """Returns all tools, in the order in which they are useful."""
    of_one = [question for question in all_questions() if question.recordings == "one"]
    of_several = [question for question in all_questions() if question.recordings != "one"]
    listed = "; ".join(f"{question.name}: {question.asks}" for question in of_one)
    all_narrows = {**_RECORDING, **_WHICH, **_WHAT, **_SHORTENS}
    question = _text("which question", enum=[question.name for question in of_one])
    ids = {"type": "array", "items": {"type": "string"}, "description": "ids, the one before first"}
    compared = _text("diff (two recordings, default) or scaling", enum=[question.name for question in of_several])
    names = {"type": "array", "items": {"type": "string"}}
    return [
        Tool("guide", "How to go about it, in 300 words. Call it first.", _takes({}), _guide),
        Tool(
            "recordings",
            "What is open: ids, ranks, steps, devices, rows of each table, failing checks.",
            _takes({}),
            _list_recordings,
        ),
        Tool(
            "questions",
            "What can be asked. With names: definitions, parameters, and every column with unit and meaning.",
            _takes({"names": {**names, "description": "explain these questions"}}),
            _list_questions,
        ),
        Tool(
            "ask",
            f"The answer to one question, each column with unit and meaning. {listed}",
            _takes({"question": question, "parameters": _parameters(of_one), **all_narrows}, "question"),
            _ask,
        ),
        Tool(
            "findings",
            "What is worth changing and what a cure would save at most, with the evidence and the call that "
            "gives each number again.",
            _takes({"id": _text("only the findings of one rule"), **_RECORDING, **_SHORTENS}),
            _findings,
        ),
        Tool(
            "checks",
            "What of the recording is damaged or missing, and which answers that makes unreliable.",
            _takes(
                {"all": {"type": "boolean", "description": "also the checks that passed"}, **_RECORDING, **_SHORTENS}
            ),
            _checks,
        ),
        Tool(
            "compare",
            "Two recordings side by side (diff), or several with more and more processes (scaling).",
            _takes(
                {"recordings": ids, "question": compared, "parameters": _parameters(of_several), **_WHAT, **_SHORTENS},
                "recordings",
            ),
            _compare,
        ),
        Tool(
            "schema",
            "The tables that SQL reads. With names: every column with type, meaning and sample values.",
            _takes({"tables": {**names, "description": "tables, or answer.NAME"}, **_RECORDING}),
            _schema,
        ),
        Tool(
            "sql",
            "One read-only statement in DuckDB's dialect, of tables that `schema` describes and answer.NAME.",
            _takes({"sql": _text("the statement"), **_RECORDING, **_SHORTENS}, "sql"),
            _sql,
        ),
    ]
