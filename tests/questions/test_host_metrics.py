"""`host-metrics`: every metric of the host, as its report spells it."""

from typing import Any


def test_metrics_without_a_meaning_of_ours_are_shown_as_they_stand(diff: Any) -> None:
    diff(
        "host-metrics",
        {"host_metric": [{"report": "uarch", "metric": "Retiring", "value": 12.5, "unit": "%", "confirmed": False}]},
        """
        report,metric,value,unit,confirmed
        uarch,Retiring,12.5,%,False
        """,
    )
