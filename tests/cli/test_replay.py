"""`stepscope replay`: what it writes, and what it says."""

import pytest

ROWS = {
    "operator_input": [{"input_id": 0, "dims": "[[8, 4], [4, 2]]", "types": '["float", "float"]'}],
    "host_event": [{"id": 0, "name": "aten::mm", "input_id": 0, "dur_ns": 9, "device_ns": 2}],
    "device_event": [{"name": "gemm", "dur_ns": 2, "operator_id": 0}],
}


@pytest.mark.parametrize("asked", [("--operator", "mm"), ("--kernel", "gemm")])
def test_a_script_is_written(run, make_store, tmp_path, asked):
    out = tmp_path / "one.py"
    ran = run("replay", make_store(ROWS), *asked, "-o", str(out))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"{out}: makes 1 call; run it: python {out}\n"
    compile(out.read_text(), "one.py", "exec")


def test_what_is_wrong_is_said_and_nothing_is_written(run, make_store, tmp_path):
    store, out = make_store(ROWS), tmp_path / "one.py"
    ran = run("replay", store, "--operator", "bmm", "-o", str(out))
    assert ran.code == 2
    assert "the recording has no operator aten::bmm [nothing-to-replay]\n  did you mean aten::mm?" in ran.err
    assert run("replay", store, "-o", str(out)).code == 2
    assert run("replay", store, "--operator", "mm", "--kernel", "gemm", "-o", str(out)).code == 2
    assert not out.exists()


@pytest.mark.traces
def test_the_heaviest_operators_of_real_traces(run, shared_traces, tmp_path):
    out, traces = tmp_path / "one.py", shared_traces / "kineto"
    ask = ("--operator", "*", "--top", "10", "-o", str(out))
    ran = run("replay", str(traces / "bert_small_h100"), *ask)
    assert (ran.code, ran.err) == (0, f"{out}: makes 10 calls; run it: python {out}\n")
    assert "'aten::scaled_dot_product_attention'" in out.read_text()
    # PyTorch 1.9 recorded no strides and paddings.
    ran = run("replay", str(traces / "resnet50_v100"), *ask)
    assert ran.code == 0
    assert ran.err.count("a list that is not recorded: newer versions of PyTorch record it") == 9
    ran = run("replay", str(traces / "nccl_args_a100"), *ask)
    assert ran.code == 2
    assert "no operator of torch with recorded inputs encloses *" in ran.err
