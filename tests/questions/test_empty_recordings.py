"""A recording without what a question needs: no rows, and a note that says how to record it."""

from tests.literal import literal_store

from stepscope.query.ask import ask
from stepscope.questions import all_questions

ANSWERED = {"summary", "findings", "checks", "sources"}
"""Questions that answer an empty recording, too."""


def test_an_empty_recording_says_how_to_record_what_is_asked():
    with literal_store({}) as store:
        for question in all_questions():
            if question.recordings != "one" or question.name in ANSWERED | {"stragglers"}:
                continue
            table = ask(question, store)
            assert not len(table), question.name
            assert table.note.endswith(question.fills), question.name
            if question.needs == "device":
                assert table.note.startswith("The recording has no device events."), question.name
