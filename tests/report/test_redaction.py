"""What tells where a job ran leaves an answer; what events are called stays."""

import pytest

from stepscope.report.redaction import redact_paths


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/ann/train.py(12): forward", "train.py(12): forward"),
        ("in /home/ann/train.py:12 and /tmp/x", "in train.py:12 and x"),
        ("/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py(114): forward",
         "torch/nn/modules/linear.py(114): forward"),
        ("'/home/ann/a.json'", "'a.json'"),
        ("/home/ann//run/a.json", "a.json"),
        ("~//ann//", "ann"),
        ("~/runs/a.json", "a.json"),
        (r"C:\Users\ann\train.py(3): main", "train.py(3): main"),
        ("/data/my runs (old)/b.json: 3 events", "b.json: 3 events"),
    ],
)  # fmt: skip
def test_a_path_keeps_its_end(text, left):
    assert redact_paths([], ["/data/my runs (old)"])(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "aten::mm", "nccl:all_reduce", "void f<a/b>(int*)", "12 GB/s", "bytes/s", "layers/0/attn",
        "`stepscope kernels SRC --name '/sgemm|hgemm/'`", "https://example.org/a/b", "3 / 4",
        "SELECT a // b", "--window 1.5:2", "-> /",
    ],
)  # fmt: skip
def test_what_is_no_path_stays(text):
    assert redact_paths([], ["/runs"])(text) == text


def test_hosts_are_numbered_as_words_of_their_own():
    scrub = redact_paths(["gpu7.cluster", "gpu70"])
    assert scrub("rank 0 on gpu7.cluster, gpu7 and gpu70") == "rank 0 on host 1, host 1 and host 2"
    assert scrub("gpu71 gpu7-ib my-gpu7") == "gpu71 gpu7-ib my-gpu7"


def test_texts_are_found_at_any_depth_and_keys_stay():
    value = {"rows": [{"path": "/a/b/c.json", "n": 3, "none": None, "flag": True}]}
    scrubbed = {"rows": [{"path": "c.json", "n": 3, "none": None, "flag": True}]}
    assert redact_paths(["path"])(value) == scrubbed
