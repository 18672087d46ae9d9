"""Summarises an answer's rows in sentences, the same in a terminal and on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.query.table import Table


def sentences(table: Table) -> list[str]:
    """Returns the sentences of an answer; none if its drawing has none, or if it covers several jobs."""
    drawing = table.question.drawing
    if table.jobs or not len(table):
        return []
    if drawing == "comparison":
        from stepscope.report.diff_text import verdict_sentence

        return [verdict_sentence(table.rows())]
    if drawing == "measured" and table.asked.get("by") == "rank":
        from stepscope.report.inline_text import conclusion

        return conclusion(table.rows())
    if drawing == "runs":
        from stepscope.report.scaling_text import scaling_sentences

        return scaling_sentences(table.rows(), table.asked["below"])
    return []
