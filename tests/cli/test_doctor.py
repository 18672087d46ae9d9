"""`stepscope doctor` finds tools on the PATH, and says what is wrong."""

from stepscope.launch.preflight import Problem


def test_a_tool_that_is_named_and_missing_is_a_failure(run, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = run("doctor", "--tool", "vtune")
    assert ran.code == 1
    assert "failure: vtune or amplxe-cl is not on the PATH" in ran.out


def test_a_tool_that_nobody_named_may_be_missing(run, monkeypatch, tmp_path) -> None:
    tool = tmp_path / "nsys"
    tool.write_text("#!/bin/sh\necho 2024.1.1.59\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = run("doctor", "-o", str(tmp_path))
    assert ran.code == 0, ran.out
    assert f"nsys        2024.1.1    {tool}\n" in ran.out
    assert "ncu         –           not on the PATH" in ran.out


def test_what_would_record_nothing_fails(run, monkeypatch) -> None:
    wrong = Problem("failure", "/full cannot be written", "name another folder with -o")
    monkeypatch.setattr("stepscope.cli.doctor.problems", lambda *_: [wrong])
    ran = run("doctor", "--tool", "onednn")
    assert ran.code == 1
    assert "failure: /full cannot be written; name another folder with -o\n" in ran.out
