"""`stepscope diff`, as a shell sees it."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import stepscope


@pytest.fixture
def pair(make_store):
    """Stores of two steps each; in the second, `gemm` takes 30 ns more per step."""

    def rows(gemm, **more):
        return {
            "source": [{"path": "a.json"}],
            "step": [{"step": n, "start_ns": 2000 * n, "end_ns": 2000 * n + 1000 + gemm} for n in (0, 1)],
            "device_event": [{"step": n, "name": "gemm", "start_ns": 2000 * n, "dur_ns": gemm} for n in (0, 1)],
            **more,
        }

    check = {"check": "zero_ts", "severity": "warning", "affects": "device-times", "explanation": "lost"}
    return make_store(rows(100)), make_store(rows(130, data_check=[check]))


def test_the_table_comes_after_the_sentence_and_before_the_warnings(run, pair):
    done = run("diff", *pair, "--names", "old,new")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "⚠ Step 2.7 % slower (+30 ns ± 0 ns): kernel +30 ns."
    assert lines[3].split()[:2] == ["step", "1.100"]
    assert "before: old, 2 steps of 1 rank; after: new, 2 steps of 1 rank." in done.out
    assert lines[-1] == "⚠ zero_ts: after: lost"


def test_markdown_for_a_pull_request_is_data_with_its_gates_and_warnings(run, pair):
    done = run("diff", *pair, "--markdown", "--fail-if", "step_time > +1%")
    assert done.code == 3
    assert done.out.startswith("**⚠ Step 2.7 % slower (+30 ns ± 0 ns): kernel +30 ns.**\n\n- gate ")
    assert "| step | 1.100 µs | 1.130 µs | +30 ns |" in done.out
    assert done.out.endswith("- ⚠ zero\\_ts: after: lost\n")
    assert run("diff", *pair, "--markdown", "--csv").code == 2


def test_as_data_it_is_data_alone(run, pair, tmp_path):
    done = run("diff", *pair, "--by", "kernel", "--json")
    answer = json.loads(done.out)
    assert answer["question"] == "diff"
    assert [row["name"] for row in answer["rows"]] == ["device work", "gemm"]
    csv = run("diff", *pair, "--by", "kernel", "--csv", "--top", "1").out.splitlines()
    assert csv[1].startswith("device work,100,130,30,0.3,")
    assert len(csv) == 2
    file = tmp_path / "diff.parquet"
    assert run("diff", *pair, "--parquet", str(file)).code == 0
    assert pq.read_table(file).column("name")[0].as_py() == "step"


def test_a_failed_gate_is_exit_code_3_after_the_answer(run, pair):
    done = run("diff", *pair, "--fail-if", "step_time > +2%", "--fail-if", "kernel:gemm > +1us")
    assert done.code == 3
    assert "Step 2.7 % slower" in done.out
    assert done.err.splitlines()[:3] == [
        "gate 'step_time > +2%' failed: +30 ns (+2.7 %), 95 % interval +30 ns to +30 ns",
        "gate 'kernel:gemm > +1us' passed: +30 ns (+30.0 %), 95 % interval +30 ns to +30 ns",
        "stepscope: 1 of 2 gates failed [gate-failed]",
    ]


def test_json_has_what_became_of_the_gates(run, pair):
    done = run("diff", *pair, "--json", "--fail-if", "step_time > +2%", "--fail-if", "kernel:gemm < -9%")
    assert done.code == 3
    gates = json.loads(done.out)["gates"]
    assert [(gate["gate"], gate["outcome"], gate["change_ns"]) for gate in gates] == [
        ("step_time > +2%", "failed", 30),
        ("kernel:gemm < -9%", "passed", 30),
    ]
    done = run("diff", *pair, "--json", "--fail-if", "step_time > +3%")
    assert (done.code, [gate["outcome"] for gate in json.loads(done.out)["gates"]]) == (0, ["passed"])
    assert "gates" not in json.loads(run("diff", *pair, "--json").out)


@pytest.mark.parametrize(
    ("options", "code", "slug"),
    [
        (("--fail-if", "step_time > 3%"), 2, "bad-gate"),
        (("--fail-if", "stepp > +3%"), 2, "unknown-gate"),
        (("--by", "phase"), 1, "recorded-differently"),
        (("--names", "one"), 2, "no-runs"),
        (("-c", "colour"), 2, "unknown-column"),
    ],
)
def test_what_cannot_be_meant_is_told(run, pair, options, code, slug):
    done = run("diff", *pair, *options)
    assert (done.code, done.out) == (code, "")
    assert f"[{slug}]" in done.err


def test_python_answers_like_the_command(pair):
    table = stepscope.diff(*pair)
    assert table.rows()[0]["change_ns"] == 30
    assert table.unreliable


def test_columns_are_chosen_as_for_every_question(run, pair):
    done = run("diff", *pair, "-c", "name,change_ns", "--spaces", "--top", "2")
    assert done.out == "name change_ns\nstep 30\nkernel 30\n"


def test_a_wrong_choice_is_refused_before_anything_is_read(run):
    done = run("diff", "absent", "absent", "--by", "colour")
    assert (done.code, "there is: category, operator" in done.err) == (2, True)


def test_of_two_stores_the_damaged_one_is_named(run, pair):
    for file in Path(pair[1]).rglob("step.*.parquet"):
        file.write_bytes(b"PAR1")
    done = run("diff", *pair)
    assert done.code == 1
    assert f"{Path(pair[1]).name}: the store cannot be read" in done.err


def test_a_question_that_compares_is_not_asked_of_one_recording(run, pair):
    done = run("sql", pair[0], "SELECT * FROM answer.diff")
    assert done.code == 2
    assert "diff is asked of two recordings, and this is one [several-recordings]" in done.err
