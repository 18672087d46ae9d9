"""Makes the page on the rules behind `findings` from their declarations."""

from __future__ import annotations

import inspect

from stepscope.base.units import bytes_text, count_text, ratio_text, time_text
from stepscope.findings.declare import Rule, Threshold
from stepscope.findings.rules import all_rules

WORDS = {"ns": time_text, "ratio": ratio_text, "count": count_text, "bytes": bytes_text}


def findings_page() -> str:
    parts = [
        "# Rules\n",
        "These are the rules of [`findings`](questions/findings.md), with their thresholds and the sources of those. "
        "`stepscope findings SRC --id RULE` shows one rule. The source `ours` is a choice of StepScope, with its "
        "reason. Each rule states what its cure saves at most; the least is nothing.\n",
    ]
    for rule in all_rules():
        parts += section(rule)
    return "\n".join(parts)


def section(rule: Rule) -> list[str]:
    lines = [f"## {rule.id}\n", f"{rule.looks_for}\n", f"{inspect.cleandoc(rule.explanation)}\n"]
    if rule.trade_off:
        lines.append(f"Trade-off: {rule.trade_off}\n")
    lines += [f"* {threshold_line(threshold)}" for threshold in rule.thresholds]
    for words, kinds in (
        ("Silent if a check finds damage to", rule.silent_without),
        ("Of low confidence if a check finds damage to", rule.rests_on),
    ):
        if kinds:
            lines.append(f"* {words}: {', '.join(f'`{kind}`' for kind in kinds)}.")
    return [*lines, ""]


def threshold_line(threshold: Threshold) -> str:
    """The name, number and source of a threshold."""
    name = f"{threshold.name[:1].upper()}{threshold.name[1:]}"
    return f"{name}: **{WORDS[threshold.unit](threshold.value)}** ({threshold.source})."
