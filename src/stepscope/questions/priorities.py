"""`priorities`: the kernels that are most worth making faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.analysis.operators.attainable import CAUSAL, LIMITS, conventions, roofs_of
from stepscope.formats.evidence import LAUNCHED_WORK
from stepscope.query.declare import Column, question
from stepscope.query.rows import answer_dicts, noted

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.query.scope import Scope

UNKNOWN_GAP = 0.3
"""Share of its time that a kernel is assumed to gain if nothing is known about it: TraceLens'
middle estimate for operators without an efficiency."""

_COLUMNS = (
    Column("priority", "float", "0 to 100: 100 is the kernel most worth making faster"),
    Column("kernel", "text", "name of the kernel", kernels=True),
    Column("class", "text", "class of its work"),
    Column("operator", "text", "operator that spends most time in it"),
    Column("count", "int", "how often it ran", "count"),
    Column("device_ns", "int", "summed duration", sums=True),
    Column("share_ratio", "float", "part of all device work"),
    Column(
        "occupancy_ratio",
        "float",
        "achieved occupancy, by duration: as counters measured it, else as the recorder estimates it",
    ),
    Column("attainable_ratio", "float", "attainable time as a part of its time"),
    Column("bound", "text", "what limits it: compute, memory, link or host link"),
    Column("saving_ns", "int", "time that would go if it ran at the limit", sums=True),
    Column("limiter", "text", "part of the device that counters show closest to its peak", shown="varying"),
    Column("limiter_ratio", "float", "how close, of its peak", shown="varying"),
    Column("basis", "text", "what the priority is judged by: limit, counters, occupancy or only time"),
)


@question(
    "priorities",
    "Which kernels are most worth making faster?",
    _COLUMNS,
    rests_on=LAUNCHED_WORK,
    about="events",
    parameters=(LIMITS, CAUSAL),
    needs="device",
    fills="Record with torch.profiler.ProfilerActivity.CUDA and record_shapes=True.",
)
def priorities(scope: Scope, limits: str = "datasheet", causal: str = "masked") -> pa.Table:
    """NVIDIA's Visual Profiler orders kernels by "optimization importance, based on execution time
    and achieved occupancy", from 100 down. This ranking has the same form but uses the
    distance from the limit first.

    A kernel's importance is its device time multiplied by the share of it that could be saved:

    * if its work is counted and the device's limits are known (`limit`), everything above the
      roofline's attainable time;
    * else, if its hardware counters lie beside the recording (`counters`), the distance to the peak of the
      part of the device that is closest to its peak, `limiter` (`metrics` has them);
    * else, if its occupancy is known and is less than seven tenths (`occupancy`), 1 minus the
      occupancy, which ranks and promises nothing;
    * else (`time`), three tenths, TraceLens' estimate for operators of unknown efficiency: a full device
      may still be slow, as a kernel that moves a tensor from one layout to another is.

    A kernel may be at the peak of a memory and still move more than it must: counters do not show that, so a limit
    comes before them. Occupancy is the measured one if counters have it.

    `priority` is the importance in per cent of the largest. `saving_ns` is given only for the first
    kind: the time saved at 100 % of the limit, which no kernel reaches, so it is an
    upper bound. It is a sum of kernel durations: if kernels overlap or the host is late, the
    step gains less. Copies, fills and communication are not kernels to optimise: `copies` and
    `roofline` have them.
    """
    import numpy as np

    from stepscope.analysis.kernels.counters import limiter
    from stepscope.analysis.kernels.measured import joined_note
    from stepscope.analysis.operators.work import classes_of, device_work_of
    from stepscope.costs import CLASSES
    from stepscope.questions.roofline import totals

    asked = conventions(causal)
    found = device_work_of(scope, asked)
    roofs = roofs_of(found.variants, limits, asked)
    measured = _measured(scope)
    rows = found.rows
    computing = rows["work"] == 0
    group = np.where(computing, rows["kernel"], len(found.kernels))
    class_of_kernel: dict[int, tuple[int, int]] = {}
    for kernel, place, ns in zip(group.tolist(), classes_of(found).tolist(), rows["device_ns"].tolist(), strict=True):
        class_of_kernel[kernel] = max(class_of_kernel.get(kernel, (-1, 0)), (ns, place))
    parts: list[list[Any]] = [[] for _ in range(len(found.kernels) + 1)]
    for part in found.parts(group):
        parts[part.group].append(part)
    whole = found.device_ns
    judged: list[dict[str, Any]] = []
    for kernel, own in enumerate(parts[:-1]):
        if not own:
            continue
        device_ns = sum(part.device_ns for part in own)
        total = totals(own, roofs)
        occupied = sum(part.occupied_ns for part in own)
        occupancy = sum(part.occupancy_ns for part in own) / occupied if occupied else None
        attained = saving = bound = None
        told = measured.get(found.kernels[kernel], {})
        if "achieved_occupancy" in told:
            occupancy = told["achieved_occupancy"] / 100
        closest = limiter(told)
        gap, basis = UNKNOWN_GAP, "time"
        if occupancy is not None and 1 - occupancy > UNKNOWN_GAP:
            gap, basis = 1 - occupancy, "occupancy"
        if closest is not None:
            gap, basis = 1 - closest[1] / 100, "counters"
        if total.attainable_ns is not None and total.bounded_ns:
            attained = min(1.0, total.attainable_ns / total.bounded_ns)
            bound = roofs.of[own[0].variant].bound or None
            saving = max(0, total.bounded_ns - round(total.attainable_ns))
            gap, basis = 1 - attained, "limit"
        judged.append(
            {
                "priority": device_ns * max(0.0, gap),
                "kernel": found.kernels[kernel],
                "class": CLASSES[class_of_kernel[kernel][1]],
                "operator": found.variants[own[0].variant].name,
                "count": sum(part.events for part in own),
                "device_ns": device_ns,
                "share_ratio": device_ns / whole if whole else None,
                "occupancy_ratio": occupancy,
                "attainable_ratio": attained,
                "bound": bound,
                "saving_ns": saving,
                "limiter": None if closest is None else closest[0],
                "limiter_ratio": None if closest is None else closest[1] / 100,
                "basis": basis,
            }
        )
    judged.sort(key=lambda row: (-row["priority"], -row["device_ns"], row["kernel"]))
    most = max((row["priority"] for row in judged), default=0.0) or 1.0
    for row in judged:
        row["priority"] = 100 * row["priority"] / most
    note = " ".join(filter(None, (found.not_recorded, roofs.note, joined_note(scope))))
    return noted(answer_dicts(_COLUMNS, judged), note)


def _measured(scope: Scope) -> dict[str, dict[str, float]]:
    """Counters of each kernel by name, averaged over its grids and blocks by time."""
    from stepscope.analysis.kernels.counters import weighted_means
    from stepscope.analysis.kernels.measured import joined_kernels
    from stepscope.analysis.recording import every_step

    with every_step(scope) as whole:
        kernels = [one for one in joined_kernels(whole).kernels if one.rule is not None]
    names = dict.fromkeys(one.name for one in kernels)
    return {
        name: weighted_means((one.values, float(one.device_ns or 0)) for one in kernels if one.name == name)
        for name in names
    }
