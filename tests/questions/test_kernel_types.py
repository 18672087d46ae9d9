"""Which types of work ran on the devices, alone and at once."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.store.open import Store


def work(kind: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "start_ns": start, "dur_ns": end - start, **more}


def test_types_that_run_at_once_are_a_row_of_their_own(diff: Any) -> None:
    diff(
        "kernel-types",
        {
            "device_event": [
                work("computation", 0, 50),
                work("fill", 50, 60),
                work("communication", 30, 80),
                work("copy", 40, 90),
                work("copy", 95, 100),
            ]
        },
        """
        types,time_ns,span_ratio
        computation,30,0.3
        computation + communication + copy,20,0.2
        communication + copy,20,0.2
        copy,15,0.15
        computation + communication,10,0.1
        idle,5,0.05
        """,
    )


EVENTS = st.lists(
    st.tuples(st.sampled_from(["computation", "fill", "communication", "copy"]), st.integers(0, 30), st.integers(0, 9)),
    min_size=1,
    max_size=7,
)


@examples(25)
@given(EVENTS)
def test_types_are_what_counting_at_every_nanosecond_gives(events: list[Any]) -> None:
    rows = [work(kind, start, start + length) for kind, start, length in events]
    with Store.from_rows({"device_event": rows}) as store:
        answered = {row["types"]: row["time_ns"] for row in ask(find("kernel-types"), store).rows()}
    first, last = min(e[1] for e in events), max(e[1] + e[2] for e in events)
    counted: dict[str, int] = {}
    for moment in range(first, last):
        ran = {k.replace("fill", "computation") for k, at, ns in events if at <= moment < at + ns}
        types = " + ".join(t for t in ("computation", "communication", "copy") if t in ran)
        counted[types or "idle"] = counted.get(types or "idle", 0) + 1
    counted.setdefault("idle", 0)
    assert answered == counted
