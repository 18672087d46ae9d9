"""`summary`: one sentence on what limits a step, and the numbers behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepscope.base.chosen_numbers import numbers_text
from stepscope.base.path_names import file_of
from stepscope.base.units import bytes_text, count_text, plural, time_text
from stepscope.formats.evidence import EVERYTHING, SUBJECTS
from stepscope.formats.vocabulary import unknown_model
from stepscope.query.declare import Column, question
from stepscope.query.rows import ArrowTable, Row, answer_dicts
from stepscope.query.scope import Scope

if TYPE_CHECKING:
    from stepscope.analysis.overview import Times
    from stepscope.findings.engine import RankedFinding
    from stepscope.findings.facts import Facts

TOP = 10
TOP_FINDINGS = 5
ALL_RULES_UP_TO = 500_000
"""Up to this many events all rules run; above, only the quick ones, to answer within a second."""

_COLUMNS = (
    Column(
        "section",
        "text",
        "verdict, recorded, step time, phases, breakdown, device, findings, bounds, operators, kernels, modules or checks",
    ),
    Column("item", "text", "what the row is about"),
    Column("rank", "int", "rank, if the row is about one"),
    Column("time_ns", "int", "time"),
    Column("share_ratio", "float", "fraction of the step, of the device's span, or of what the section lists"),
    Column("count", "int", "number of calls, ranks, steps, devices, events", "count"),
    Column("severity", "text", "severity of a finding; empty for other rows"),
    Column("text", "text", "words", advises=True),
)


@question(
    "summary",
    "Where does the step time go, and what should I look at next?",
    _COLUMNS,
    group="steps",
    rests_on=EVERYTHING,
    about="recording",
    drawing="overview",
    on_overview=True,
)
def summary(scope: Scope) -> ArrowTable:
    """The first page: a verdict with its evidence and what to look at next, then what was recorded, step times, the
    step breakdown, the use of the device, and the operators, kernels and modules that take most.

    The **verdict** is the first of `findings`, in the same words, with what to look at next; other findings that say
    what limits the step follow it. It rests on the mean breakdown of the steps that count, in which a moment belongs to
    the first activity in the list (see `steps`), so that every part is time that nothing else hides; for a job's own
    phases, on their means. Each loss has one name and one threshold, and [the rules](../findings.md) name its source.
    The largest loss leads if it is above 15 % of the step, or if kernels (operators on the host, or forward, backward
    and optimizer, without a device) fill less than half of it; otherwise the verdict says what fills the step. What
    prevents judging comes before both: nothing recorded, no host side, or checks that invalidate the times of steps.
    Failing checks that concern these are shown with any other verdict.

    **Phases** are those that the job itself measured in every step (see `phases`), on the host, as means over ranks.
    Steps in which a trace was recorded are not among them.

    If no steps are found, the verdict covers the time from the device's first work to its last, because the device does
    not wait before a program starts or after it is done.

    **Findings** are the first five others of `findings`, with the most that each could save. In a recording of more
    than half a million events only rules that need just the step times are run; `findings` runs them all.

    A rank whose recording is damaged is in none of these numbers if another is not damaged; the row `ranks` names it,
    and `--ranks` selects it alone.

    **Step times** are of the steps that count of all other requested ranks and recordings (see `steps`; the row `left
    out` names the others); percentiles are interpolated linearly. If no steps are found there are none, and the
    breakdown is of the entire recording.

    If phases cover steps that were not traced, the mean of these is the row `not traced`, with the ratio of traced
    steps to it; the other step times are then those of traced steps, and the throughput says which steps it is of.

    **Device** numbers are those of `utilization` and `device-time` over all devices together. The ratio of computation,
    exposed communication, exposed copies and idle is to the devices' spans. Operators and modules are ranked by device
    self time; if no device work could be linked to them, by self time on the host.
    """
    events = scope.value("SELECT sum(events_read) FROM source") or 0
    if events <= ALL_RULES_UP_TO:  # reading all events of a long recording takes longer than the quick rules' queries
        scope.preload()
    from stepscope.analysis.overview import top_kernels, top_modules, top_operators
    from stepscope.findings.engine import judge, undamaged_facts
    from stepscope.findings.facts import Facts
    from stepscope.findings.rules import all_rules, quick
    from stepscope.findings.rules.data_quality import hides_idle

    facts = scope.cached(Facts, lambda: Facts(scope))
    findings = judge(facts, all_rules() if events <= ALL_RULES_UP_TO else quick())
    checks = scope.sql(
        """
        SELECT "check", severity, string_agg(DISTINCT affects, ',') AS affects,
            arg_max(explanation, (count, -rank, -span)) AS explanation, count(*) AS recordings,
            CASE WHEN count(DISTINCT rank) = 1 THEN any_value(rank) END AS rank,
            sum(count)::BIGINT AS count
        FROM data_check WHERE severity <> 'ok' GROUP BY "check", severity
        ORDER BY coalesce(list_position(['error', 'warning'], severity), 3), "check"
        """
    ).to_pylist()
    with undamaged_facts(facts) as judged:
        valid_scope, times = judged.scope, judged.times
        sections: tuple[tuple[str, list[Row]], ...] = (
            ("verdict", list(_verdict(findings))),
            ("recorded", list(_recorded(scope, judged))),
            ("step time", [*_step_time(judged), *_throughput(valid_scope)]),
            ("phases", list(_phases(judged))),
            ("breakdown", list(_breakdown(times))),
            ("device", [] if hides_idle(judged) else list(_device(times))),
            ("findings", list(_worth_changing(findings))),
            ("bounds", list(_bounds(findings))),
            ("operators", top_operators(valid_scope, TOP)),
            ("kernels", top_kernels(valid_scope, TOP)),
            ("modules", top_modules(valid_scope, TOP)),
            ("checks", [_check(check, scope) for check in checks]),
        )
    listed = ({"section": section, **row} for section, rows in sections for row in rows)
    return answer_dicts(_COLUMNS, listed)


def _throughput(scope: Scope) -> Iterator[Row]:
    from stepscope.analysis.job.throughput import throughput_words

    words = throughput_words(scope)
    if words:
        yield {"item": "throughput", "text": words}


def _verdict(findings: list[RankedFinding]) -> Iterator[Row]:
    limits = [ranked for ranked in findings if ranked.limits]
    for place, ranked in enumerate(limits):
        share = ranked.finding.share
        yield {
            "item": ranked.rule.id,
            "severity": ranked.severity,
            "text": ranked.finding.title,
            "share_ratio": share,
            "time_ns": None if share is None else round(share * ranked.step_ns),
        }
        if place == 0:
            yield {"item": "next", "text": ranked.finding.advice}


def _recorded(scope: Scope, facts: Facts) -> Iterator[Row]:
    from stepscope.analysis.counted import left_out_of_means
    from stepscope.analysis.overview import devices

    sources = _sources(scope)
    tools = dict.fromkeys(" ".join(word for word in (row["tool"], row["tool_version"]) if word) for row in sources)
    yield {"item": "tool", "text": ", ".join(filter(None, tools)) or None}
    yield {
        "item": "files",
        "count": len({file_of(row["path"]) for row in sources}),
        "text": _damage(sources) or "all events read",
    }
    yield {"item": "events", "count": sum(row["events_read"] for row in sources), "text": _chosen_events(scope)}
    yield _ranks(scope, facts)
    yield from _clocks(scope)
    spans = len({(row["rank"], row["span"]) for row in sources})
    if spans > len(scope.ranks):
        yield {"item": "recordings", "count": spans, "text": "several recordings of a rank"}
    for row in devices(scope):
        text = ", ".join(("device", *_capabilities(row)))
        yield {"item": row["name"] or unknown_model(row["kind"]), "count": row["devices"], "text": text}
    valid_scope = facts.scope
    rules = valid_scope.sql("SELECT DISTINCT rule FROM step ORDER BY rule").column("rule").to_pylist()
    numbers = valid_scope.sql("SELECT DISTINCT step FROM step").column("step").to_pylist()
    times = facts.times
    count = times.steps
    if rules == ["whole recording"]:
        words = "none found: the complete recording counts as one"
    elif facts.phases_alone is not None and not rules:
        words, count = "their phases timed by the job itself", facts.phases_alone.total("steps")
    else:
        words = f"{', '.join(rules)} {numbers_text(numbers)}" if rules else "no steps"
    yield {"item": "steps", "count": count, "text": words}
    if left_out := left_out_of_means(facts.scope):
        count = times.steps - len(times.step_ns)
        yield {"item": "left out", "count": count, "text": left_out}
    # For chosen steps their own time is more informative, and a store may have only these.
    longest = max(times.recorded_ns.values(), default=None) if scope.steps is None else None
    yield {"item": "duration", "time_ns": longest, "text": "of the rank recorded longest"}


def _sources(scope: Scope) -> list[Row]:
    """The files of the requested recordings: if steps were chosen, of those that have them."""
    sources: list[Row] = scope.sql("SELECT * FROM source ORDER BY rank, span, path").to_pylist()
    if scope.steps is None:
        return sources
    steps = scope.sql("SELECT DISTINCT rank, span FROM step").to_pylist()
    having = {(row["rank"], row["span"]) for row in steps}
    return [row for row in sources if (row["rank"], row["span"]) in having] or sources


def _chosen_events(scope: Scope) -> str | None:
    """How many events of the host and the device belong to the chosen steps; None if none were chosen."""
    if scope.steps is None:
        return None
    count = scope.value("SELECT (SELECT count(*) FROM host_event) + (SELECT count(*) FROM device_event)")
    return f"{count_text(count)} of them in the chosen {plural(len(scope.steps), 'step')}"


def _capabilities(device: Row) -> Iterator[str]:
    if device["memory_bytes"] is not None:
        yield f"{bytes_text(device['memory_bytes'])} memory"
    if device["kind"] == "cuda" and device["compute_major"] is not None:
        yield f"compute capability {device['compute_major']}.{device['compute_minor'] or 0}"


def _ranks(scope: Scope, facts: Facts) -> Row:
    size = scope.value("SELECT max(world_size) FROM rank")
    present = scope.ranks
    text = numbers_text(present)
    if size is not None:
        missing = sorted(set(range(size)) - set(scope.store.ranks))
        text += f" of {size}" + (f"; missing: {numbers_text(missing)}" if missing else "")
    if facts.left_out:
        text += f"; damaged, in no figure of steps, devices and findings: {numbers_text(facts.left_out)}"
    return {"item": "ranks", "count": len(facts.scope.ranks), "text": text}


def _clocks(scope: Scope) -> Iterator[Row]:
    rows = scope.sql("SELECT * FROM rank WHERE clock_rule IN ('same host', 'epoch', 'collectives')").to_pylist()
    aligned = [row for row in rows if row["clock_uncertainty_ns"] is not None]
    shared = not aligned and all(row["clock_rule"] == "same host" for row in rows)
    if len(rows) < 2 or shared or not scope.value("SELECT count(*) FROM step"):
        return
    worst = max((row["clock_uncertainty_ns"] for row in aligned), default=None)
    ahead = [row["clock_offset_ns"] or 0 for row in rows]
    words = []
    if worst is not None:
        words.append(f"ends of matched collectives agree to within {time_text(worst)}")
    if any(ahead):
        words.append(f"clocks up to {time_text(max(ahead) - min(ahead))} apart were aligned")
    if unknown := len(rows) - len(aligned):
        whose = "the ranks" if not aligned else f"{unknown} of {len(rows)} ranks"
        words.append(f"no collective tells how far the clocks of {whose} are off")
    yield {"item": "clocks", "count": len(rows), "time_ns": worst, "text": "; ".join(words)}


def _damage(sources: list[Row]) -> str:
    repaired = sum(row["events_repaired"] for row in sources)
    dropped = sum(row["events_dropped"] for row in sources)
    cut = sum(row["truncated"] for row in sources)
    unknown = {name for row in sources for name in json.loads(row["unknown_categories"] or "{}")}
    parts = (
        (dropped, f"{dropped} {plural(dropped, 'event')} could not be read"),
        (repaired, f"{repaired} {plural(repaired, 'event')} repaired"),
        (cut, "cut off before the end" if len(sources) == 1 else f"{cut} cut off before the end"),
        (len(unknown), f"unknown categories: {', '.join(sorted(unknown))}"),
    )
    return "; ".join(text for number, text in parts if number)


def _step_time(facts: Facts) -> Iterator[Row]:
    import numpy as np

    from stepscope.analysis.job.phase_times import has_untraced_phases

    times = facts.times
    if facts.phases_alone is not None:
        count = facts.phases_alone.total("steps")
        yield {"item": "mean", "time_ns": facts.step_ns, "count": count}
    if not times.marked or not times.step_ns:
        return
    steps = len(times.step_ns)
    traced_ns = float(np.mean(times.step_ns))
    yield {"item": "mean", "time_ns": round(traced_ns), "count": steps}
    for item, percentile in (("p50", 50), ("p95", 95)):
        value = float(np.percentile(times.step_ns, percentile))
        yield {"item": item, "time_ns": round(value), "count": steps}
    if len(times.mean_of_rank) > 1:
        by_time = sorted(times.mean_of_rank.items(), key=lambda pair: (pair[1], pair[0]))
        for item, (rank, mean) in (("fastest rank", by_time[0]), ("slowest rank", by_time[-1])):
            yield {"item": item, "rank": rank, "time_ns": round(mean)}
    if facts.phases is not None and facts.phases.step_ns and has_untraced_phases(facts.scope):
        count, untraced_ns = facts.phases.total("steps"), facts.phases.step_ns
        yield {
            "item": "not traced",
            "time_ns": round(untraced_ns),
            "count": count,
            "text": f"not traced: mean {time_text(untraced_ns)} ({count_text(count)} steps); traced steps take "
            f"{traced_ns / untraced_ns:.3g} times that",
        }


def _phases(facts: Facts) -> Iterator[Row]:
    """The phases that the job itself measured in each counted step, over the entire run."""
    from stepscope.analysis.job.phase_times import OTHER_STEPS
    from stepscope.base.step_phases import PHASES

    means = facts.phases
    if means is None:
        return
    count, step_ns = means.total("steps"), means.step_ns
    for phase in ("step", *PHASES):
        time_ns = means.phase_ns(phase)
        yield {
            "item": phase,
            "time_ns": None if time_ns is None else round(time_ns),
            "share_ratio": None if time_ns is None or not step_ns else time_ns / step_ns,
            "count": count,
        }
    if (rest_ns := means.phase_ns(OTHER_STEPS)) is not None:
        share = rest_ns / step_ns if step_ns else None
        yield {"item": OTHER_STEPS, "time_ns": round(rest_ns), "share_ratio": share, "count": count}


def _breakdown(times: Times) -> Iterator[Row]:
    mean = times.mean()
    total = sum(part or 0 for part in mean.values())
    if not times.step_ns:
        return
    for activity, time_ns in mean.items():
        share = None if time_ns is None or not total else time_ns / total
        yield {"item": activity, "time_ns": time_ns, "share_ratio": share}
    yield {"item": "total", "time_ns": total, "share_ratio": 1.0 if total else None}


def _device(times: Times) -> Iterator[Row]:
    if not times.device:
        return
    names = ("GPU utilisation", "est. SM efficiency", "est. achieved occupancy")
    for item, ratio in zip(names, times.overall_use(), strict=True):
        yield {"item": item, "share_ratio": ratio}
    if len(times.use_of_rank) > 1:
        by_use = sorted(times.use_of_rank.items(), key=lambda pair: (pair[1], pair[0]))
        for item, (rank, use) in (("lowest utilisation", by_use[0]), ("highest utilisation", by_use[-1])):
            yield {"item": item, "rank": rank, "share_ratio": use}
    if times.overall_use()[0] is None:
        return  # the durations of kernels were not recorded, nor was any part of this split
    span = times.device["span_ns"]
    for item in ("computation", "exposed_communication", "exposed_copy", "idle"):
        time_ns = times.device[f"{item}_ns"]
        yield {"item": item.replace("_", " "), "time_ns": time_ns, "share_ratio": time_ns / span if span else None}
    work = times.device["work_ns"]
    yield {
        "item": "without a known launch",
        "time_ns": times.device["unlinked_ns"],
        "share_ratio": times.device["unlinked_ns"] / work if work else None,
    }


def _savings(findings: list[RankedFinding]) -> list[RankedFinding]:
    worth = [ranked for ranked in findings if not ranked.limits and ranked.finding.saving_ns is not None]
    return worth[:TOP_FINDINGS]


def _worth_changing(findings: list[RankedFinding]) -> Iterator[Row]:
    """The largest losses besides what the verdict names, with what a cure could save at most."""
    for ranked in _savings(findings):
        high = ranked.finding.saving_ns or 0.0
        yield {
            "item": ranked.rule.id,
            "severity": ranked.severity,
            "rank": ranked.finding.rank,
            "time_ns": round(high),
            "share_ratio": ranked.saving_share,
            "text": ranked.finding.title,
        }


def _bounds(findings: list[RankedFinding]) -> Iterator[Row]:
    from stepscope.findings.declare import WITH_HOST, WITH_OTHERS

    listed = _savings(findings)
    advice = "".join(ranked.finding.advice for ranked in listed)
    if WITH_HOST in advice:
        yield {"item": "host", "text": "Upper bounds: they include waits that may not shrink."}
    if WITH_OTHERS in advice:
        yield {"item": "others", "text": "They are of ranks' own time." + WITH_OTHERS}
    for caveat in dict.fromkeys(ranked.caveat for ranked in listed if ranked.caveat):
        of = ", ".join(ranked.rule.id for ranked in listed if ranked.caveat == caveat)
        yield {"item": of, "text": f"{of}:{caveat}"}


def _check(check: Row, scope: Scope) -> Row:
    """Merges a check of all recordings into one row: the text is that of the worst one, the rank is that of several."""
    text = f"{check['severity']}: {check['explanation']}"
    if check["recordings"] > 1:
        text += f" Found in {check['recordings']} recordings; the figures are of the worst."
    return {
        "item": check["check"],
        "rank": None if SUBJECTS.get(check["check"]) == "job" or len(scope.ranks) == 1 else check["rank"],
        "count": check["count"],
        "text": text,
    }
