"""`heavy-kernel`: one kernel takes most of the device's time."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.plugin import Facts, Finding, Threshold, rule

SHARE = Threshold("share of the kernels' summed duration", 0.75, "ratio", "ours: less is no single kernel's doing")
HEAVIEST = """
SELECT max(total) / sum(total)
FROM (SELECT sum(dur_ns) AS total FROM device_event WHERE kind = 'computation' GROUP BY name)
"""


@rule("heavy-kernel", "A kernel that takes most of the device's time.", SHARE, rests_on=("device-work", "device-times"))
def heavy_kernel(facts: Facts) -> Iterator[Finding]:
    """The kernel with the largest summed duration, where its share is above the threshold. Nothing is
    said of what could be saved: that depends on how close it is to what the device can do.
    """
    share = facts.scope.value(HEAVIEST)
    if share is None or share <= SHARE.value:
        return
    yield Finding(
        title=f"One kernel takes {100 * share:.0f} % of the kernels' time",
        metric="largest share of a kernel in the kernels' summed duration",
        value=share,
        unit="ratio",
        advice="Look at this kernel first: `stepscope kernels --top 1`, and `stepscope roofline` for what "
        "the device could do.",
        query=HEAVIEST,
    )
