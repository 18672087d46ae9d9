"""`stepscope schema`: lists the tables and the meaning of their columns."""

from __future__ import annotations

import json

import click

from stepscope.base.known_names import check_name
from stepscope.cli.terminal.printing import print_out
from stepscope.schema.declare import SchemaTable
from stepscope.schema.tables import STORE_VERSION, TABLES

ANSWERS = (
    "answer.NAME: the answer to a question with its default parameters, as in answer.kernels or "
    "answer.device_time. It is computed when SQL names it. Its columns: stepscope questions NAME"
)


@click.command(name="schema", short_help="Lists the tables and what their columns mean.")
@click.argument("tables", metavar="[TABLE]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Answer as one JSON object.")
def command(tables: tuple[str, ...], as_json: bool) -> None:
    """Lists all tables of a store, or the named ones, with the type and meaning of every column.

    SQL can also use the answer to any question as a table `answer.NAME`.
    """
    chosen = [TABLES[check_name(name, tuple(TABLES), "table")] for name in tables or TABLES]
    if as_json:
        from stepscope.report.declaration import table_declaration

        answer = {"version": STORE_VERSION, "tables": list(map(table_declaration, chosen))}
        print_out(json.dumps(answer, indent=2, ensure_ascii=False) + "\n", is_json=True)
    else:
        print_out("\n\n".join([*map(_as_text, chosen), *([] if tables else [ANSWERS])]) + "\n")


def _as_text(table: SchemaTable) -> str:
    width = max(len(column.name) for column in table.columns)
    return "\n".join(
        [
            f"{table.name}: {table.meaning}",
            *(f"  {c.name:<{width}}  {c.sql_type:<8}  {c.meaning}" for c in table.columns),
        ]
    )
