"""Asks for the findings of one rule and holds each against the query that is to give its number."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from stepscope.query.ask import ask
from stepscope.query.scope import Scope
from stepscope.questions import find
from stepscope.store.open import Store


@pytest.fixture
def findings(make_store: Callable[[Any], Store]) -> Callable[..., list[dict[str, Any]]]:
    """`findings(rows, "amp-off")`: the rows of one rule (of all without), evidence as objects."""

    def found(rows: Any, rule: str | None = None, **asked: Any) -> list[dict[str, Any]]:
        store = make_store(rows)
        answers = ask(find("findings"), store, id=rule, **asked).rows()
        for row in answers:
            row["evidence"] = json.loads(row["evidence"])
            if row["query"].startswith(("SELECT", "WITH")):
                with Scope(store) as scope:
                    assert scope.value(row["query"]) == pytest.approx(row["value"])
            else:
                assert row["query"].startswith("stepscope ")
        return answers

    return found
