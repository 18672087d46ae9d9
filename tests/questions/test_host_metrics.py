"""`host-metrics`: every metric of the host, as its report spells it."""

from typing import Any

from stepscope.formats.evidence import EVERYTHING
from stepscope.questions import affected


def test_metrics_without_a_meaning_of_ours_are_shown_as_they_stand(diff: Any) -> None:
    diff(
        "host-metrics",
        {
            "host_metric": [
                {
                    "report": "uarch",
                    "metric": "Retiring",
                    "value": 12.5,
                    "unit": "%",
                    "confirmed": False,
                }
            ]
        },
        """
        report,metric,value,unit,confirmed
        uarch,Retiring,12.5,%,False
        """,
    )


def test_no_damage_marks_it() -> None:
    """What checks find wrong is events, and these figures come from none."""
    assert [kind for kind in EVERYTHING if "host-metrics" in affected(kind).split(",")] == []
