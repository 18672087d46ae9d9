"""`stepscope trigger`: what it says when ranks did not record."""

import pytest

from stepscope.record.on_demand import trigger
from stepscope.record.on_demand.request import Answer


@pytest.mark.parametrize(
    ("state", "why", "hint"),
    [
        ("ended", "the job stopped listening", "the job was over first"),
        ("skipped", "it was in step 9 already", "a longer --lead"),
    ],
)
def test_a_rank_that_did_not_record_is_named_with_what_helps(run, tmp_path, monkeypatch, state, why, hint):
    def agreed(_directory, request, **_options):
        return request

    def answers(_directory, request, **_options):
        return [Answer(request.id, 0, 1, "node.a", 1, 3, 0.1, state, why)]

    monkeypatch.setattr(trigger, "agree", agreed)
    monkeypatch.setattr(trigger, "wait_until_done", answers)
    done = run("trigger", str(tmp_path), "--at", "7")
    assert done.code == 1
    assert f"not every rank recorded step 7: rank 0 {state} ({why})" in done.err
    assert hint in done.err
