"""Idle time: where the gaps are, why, and that they add up to what device time says."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

from stepscope.query.ask import ask
from stepscope.questions import find


def launched(launch: int, start: int, dur: int, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A launch call and the kernel that it launched."""
    call = {"id": launch, "kind": "runtime", "role": "launch", "start_ns": launch, "dur_ns": 1}
    return call, {"start_ns": start, "dur_ns": dur, "launch_id": launch, **more}


def trace(*pairs: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return {"host_event": [p[0] for p in pairs], "device_event": [p[1] for p in pairs]}


CAUSES = "stream,cause,gaps,idle_ns,max_gap_ns"


def test_the_cause_follows_from_the_next_launch_and_the_gaps_length(diff: Any) -> None:
    rows = trace(
        launched(0, 10, 90),
        launched(150, 160, 40),  # launched after the end at 100: host wait
        launched(170, 220, 30),  # launched before, 20 ns: kernel wait
        launched(180, 350, 50),  # launched before, 100 ns: other
    )
    rows["device_event"].append({"start_ns": 401, "dur_ns": 1})
    diff(
        "idle",
        rows,
        f"""
        {CAUSES},share_ratio
        ,other,1,100,100,{100 / 181}
        ,host wait,1,60,60,{60 / 181}
        ,kernel wait,1,20,20,{20 / 181}
        ,unlinked,1,1,1,{1 / 181}
        0,other,1,100,100,{100 / 181}
        0,host wait,1,60,60,{60 / 181}
        0,kernel wait,1,20,20,{20 / 181}
        0,unlinked,1,1,1,{1 / 181}
        """,
        kernel_wait_ns=30,
    )


def test_a_launch_call_that_fills_the_gap_makes_it_a_wait_for_the_host(diff: Any) -> None:
    def one(took: int, **of_work: Any) -> dict[str, Any]:
        """A kernel that ends at 100,000, and work launched before, by a call that takes so long."""
        rows = trace(launched(0, 10, 99_990), launched(90_000, 200_000, 50, **of_work))
        rows["host_event"][1]["dur_ns"] = took
        return rows

    def cause(name: str) -> str:
        return f"{CAUSES}\n,{name},1,100000,100000\n0,{name},1,100000,100000"

    diff("idle", one(60_000), cause("host wait"))  # 50,000 of 100,000 are in the call
    diff("idle", one(109_000), cause("host wait"))
    diff("idle", one(59_999), cause("other"))
    diff("idle", one(5), cause("other"))
    diff("idle", one(109_000, kind="copy"), cause("other"))  # it may have waited for the copy
    diff("idle", one(109_000), cause("host wait"), kernel_wait_ns=1_000_000)


def test_a_launch_call_that_overruns_a_short_gap_is_no_wait_for_the_host(diff: Any) -> None:
    rows = trace(launched(0, 10, 90), launched(95, 120, 50))
    rows["host_event"][1]["dur_ns"] = 60_000
    diff("idle", rows, f"{CAUSES}\n,kernel wait,1,20,20\n0,kernel wait,1,20,20")


def test_a_gap_of_the_threshold_is_no_kernel_wait(diff: Any) -> None:
    rows = trace(launched(0, 10, 10), launched(1, 50, 10), launched(2, 89, 10))
    expected = f"""
        {CAUSES}
        ,other,1,30,30
        ,kernel wait,1,29,29
        1,other,1,69,69
        """
    rows["device_event"][0]["stream"] = rows["device_event"][2]["stream"] = 1
    diff("idle", rows, expected, kernel_wait_ns=30)


def test_gaps_start_at_the_latest_end_not_at_that_of_the_piece_before(diff: Any) -> None:
    rows = trace(launched(0, 10, 100), launched(1, 20, 10), launched(2, 120, 10))
    diff("idle", rows, f"{CAUSES}\n,kernel wait,1,10,10\n0,kernel wait,1,10,10")


def test_a_stream_waits_while_the_device_works(diff: Any) -> None:
    rows = trace(launched(0, 10, 10, stream=1), launched(1, 20, 50, stream=2), launched(2, 70, 10, stream=1))
    diff("idle", rows, f"{CAUSES}\n1,kernel wait,1,50,50")


def test_what_the_host_did_for_most_of_the_gap(diff: Any) -> None:
    rows = trace(launched(0, 10, 10), launched(100, 120, 10), launched(200, 230, 10))
    rows["host_event"] += [
        {"id": 900, "kind": "annotation", "role": "step", "start_ns": 0, "dur_ns": 240},
        {"id": 901, "kind": "annotation", "role": "dataloader", "start_ns": 30, "dur_ns": 60, "parent_id": 900},
        {"id": 902, "kind": "operator", "start_ns": 130, "dur_ns": 100, "parent_id": 900},
        {"id": 903, "kind": "runtime", "role": "synchronize", "start_ns": 140, "dur_ns": 51, "parent_id": 902},
    ]  # fmt: skip
    expected = """
        stream,cause,host,idle_ns
        ,host wait,dataloader,100
        ,host wait,synchronize,100
        0,host wait,,200
        """
    diff("idle", rows, expected)


def test_the_programs_frame_that_fills_the_longest_gap(diff: Any) -> None:
    rows = trace(launched(0, 10, 90), launched(150, 160, 40), launched(290, 300, 5))
    for number, (name, start, end, role) in enumerate(
        [
            ("train.py(1): main", 0, 400, "program"),
            ("data.py(7): decode", 205, 280, "program"),
            ("zlib.py(3): inflate", 206, 279, None),
            ("data.py(9): crop", 210, 230, "program"),  # less than half of the gap
        ]
    ):
        rows["host_event"].append(
            {"id": 500 + number, "kind": "python", "role": role, "name": name,
             "start_ns": start, "dur_ns": end - start, "depth": number}
        )  # fmt: skip
    expected = """
        stream,cause,frame,gaps,idle_ns,max_gap_ns
        ,host wait,data.py(7): decode,2,160,100
        0,host wait,,2,160,100
        """
    diff("idle", rows, expected)


def test_without_host_events_nothing_is_said_of_the_host(diff: Any) -> None:
    rows = {"device_event": [{"start_ns": 0, "dur_ns": 1}, {"start_ns": 9, "dur_ns": 1}]}
    diff("idle", rows, "stream,cause,host,idle_ns\n,unlinked,,8\n0,unlinked,,8")


def test_recordings_of_a_rank_have_no_gap_between_them(answer: Any) -> None:
    rows = {
        "device_event": [
            {"start_ns": 0, "dur_ns": 1},
            {"start_ns": 9_000, "dur_ns": 1, "span": 1},
            {"start_ns": 50, "dur_ns": 1, "rank": 1},
            {"start_ns": 70, "dur_ns": 1, "device": 1},
        ]
    }
    assert answer("idle", rows).rows() == []


def test_gaps_are_cut_to_chosen_steps(diff: Any) -> None:
    rows = trace(launched(0, 10, 10), launched(100, 130, 10))
    rows["step"] = [{"step": 1, "end_ns": 50}, {"step": 2, "start_ns": 50, "end_ns": 150}]
    expected = """
        stream,cause,gaps,idle_ns
        ,host wait,1,80
        ,no work follows,1,10
        0,host wait,1,80
        0,no work follows,1,10
        """
    diff("idle", rows, expected, steps=[2])


WORK = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 1), st.none() | st.integers(0, 45)), max_size=7
)


@given(WORK, st.integers(0, 30), st.integers(0, 30))
@examples(12)
def test_gaps_add_up_to_the_idle_time_of_device_time(work: list[Any], first: int, length: int) -> None:
    calls = [
        {"id": 100 + i, "kind": "runtime", "start_ns": launch, "dur_ns": 2}
        for i, (_, _, _, launch) in enumerate(work)
        if launch is not None
    ]
    rows = {
        "step": [
            {"step": 1, "start_ns": first, "end_ns": first + 9},
            {"step": 2, "start_ns": first + 9, "end_ns": first + 9 + length},
        ],
        "host_event": calls,
        "device_event": [
            {"start_ns": s, "dur_ns": d, "stream": stream, "launch_id": None if at is None else 100 + i}
            for i, (s, d, stream, at) in enumerate(work)
        ],
    }
    with literal_store(rows) as store:
        for chosen in (None, [1], [2], [1, 2]):
            gaps = ask(find("idle"), store, steps=chosen).rows()
            idle = [row["idle_ns"] for row in ask(find("device-time"), store, steps=chosen).rows()]
            assert sum(row["idle_ns"] for row in gaps if row["stream"] is None) == sum(idle)
        gaps = ask(find("idle"), store).rows()
    for stream in (0, 1):
        own = [(s, s + d) for s, d, on, _ in work if on == stream]
        free = sum(
            not any(s <= at < e for s, e in own)
            for at in range(min((s for s, _ in own), default=0), max((e for _, e in own), default=0))
        )
        assert sum(row["idle_ns"] for row in gaps if row["stream"] == stream) == free
