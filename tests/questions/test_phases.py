from __future__ import annotations

STEP = {"phase": "step", "steps": 4, "mean_ns": 100.0}
FORWARD = {"phase": "forward", "steps": 4, "mean_ns": 40.0}


def test_phases_stand_in_the_order_of_a_step_with_their_share_of_it(diff):
    diff(
        "phases",
        {
            "phase": [
                {**FORWARD, "phase": "residual", "mean_ns": 10.0},
                FORWARD,
                {**FORWARD, "phase": "input_wait", "mean_ns": 50.0, "median_ns": 45.0},
                {**STEP, "peak_bytes": 512, "verdict": "input-bound: 50% of the step"},
            ]
        },
        """
        rank,phase,mean_ns,share_ratio,median_ns,peak_bytes,verdict
        0,step,100.0,1.0,,512,input-bound: 50% of the step
        0,input_wait,50.0,0.5,45.0,,
        0,forward,40.0,0.4,,,
        0,residual,10.0,0.1,,,
        """,
    )


def test_ranks_are_held_against_the_fastest(diff):
    diff(
        "phases",
        {"phase": [{**FORWARD, "rank": 0}, {**FORWARD, "rank": 1, "mean_ns": 60.0}]},
        """
        rank,phase,share_ratio,over_fastest_ratio
        0,forward,,1.0
        1,forward,,1.5
        """,
    )


def test_a_recording_without_phases_says_how_to_get_them(answer):
    table = answer("phases", {"host_event": [{"name": "aten::mm"}]})
    assert len(table) == 0
    assert "stepscope record --phases" in table.note
