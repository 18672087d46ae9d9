"""Where the user's files are, also where the user has no home."""

from pathlib import Path

from stepscope.base.folders import user_folder


def test_variable_goes_before_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert user_folder("XDG_CACHE_HOME", ".cache") == tmp_path / ".cache" / "stepscope"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert user_folder("XDG_CACHE_HOME", ".cache") == Path("/elsewhere/stepscope")


def test_user_without_a_home_has_no_files_and_gets_none(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    folder = user_folder("XDG_CACHE_HOME", ".cache")
    assert not folder.exists()
    assert not folder.parent.is_dir()
