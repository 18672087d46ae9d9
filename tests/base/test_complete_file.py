import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.base.complete_file import check_output, complete_output, descriptor_of
from stepscope.base.errors import StepScopeError


def test_what_breaks_off_leaves_the_file_before_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("before")

    def write(error: Exception | None) -> None:
        with complete_output(target) as unfinished:
            unfinished.write_text("after")
            if error is not None:
                raise error

    with pytest.raises(ZeroDivisionError):
        write(ZeroDivisionError())
    with pytest.raises(StepScopeError, match=r"a\.txt: cannot be written \(No space left\)"):
        write(OSError(28, "No space left"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert target.read_text() == "before"
    write(None)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert target.read_text() == "after"


def test_a_file_for_a_folder_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StepScopeError, match="cannot be written") as refused,
        complete_output(tmp_path / "file" / "a.txt", hint="elsewhere") as unfinished,
    ):
        unfinished.write_text("")
    assert (refused.value.slug, refused.value.hint) == ("cannot-write", "elsewhere")


def test_a_pipe_is_written_into_and_a_link_followed(tmp_path: Path) -> None:
    pipe, target, link = tmp_path / "pipe", tmp_path / "a.txt", tmp_path / "link"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    link.symlink_to(target)
    for place in (pipe, link):
        with complete_output(place) as unfinished:
            unfinished.write_text("answer")
    assert os.read(reader, 16) == b"answer"
    os.close(reader)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert target.read_text() == "answer"


def written(place: Path, text: str = "answer") -> None:
    with complete_output(place) as unfinished:
        unfinished.write_text(text)


def refusal(place: Path) -> StepScopeError:
    with pytest.raises(StepScopeError) as refused:
        written(place)
    assert refused.value.slug == "cannot-write"
    return refused.value


def test_a_terminal_and_a_device_are_written_into(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    link = tmp_path / "link"
    link.symlink_to(os.ttyname(theirs))
    for place in (Path(os.ttyname(theirs)), link):
        written(place)
        assert os.read(ours, 16) == b"answer"
        assert stat.S_ISCHR(place.stat().st_mode)
    assert link.is_symlink()
    os.close(ours)
    os.close(theirs)


@pytest.mark.skipif(os.geteuid() != 0, reason="making a device needs root")
@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK])
def test_a_device_stays_one_and_a_disk_is_refused(kind: int, tmp_path: Path) -> None:
    device, link = tmp_path / "device", tmp_path / "link"
    try:
        os.mknod(device, 0o666 | kind, os.makedev(1, 3))  # as a character device it is /dev/null
    except PermissionError:
        pytest.skip("this container makes no devices")
    link.symlink_to(device)
    for place in (device, link):
        if kind == stat.S_IFCHR:
            written(place)
        else:
            assert "it is a disk" in refusal(place).message
    assert stat.S_IFMT(device.lstat().st_mode) == kind
    assert sorted(path.name for path in tmp_path.iterdir()) == ["device", "link"]


def test_what_breaks_off_writes_nothing_into_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def break_off() -> None:
        with complete_output(pipe) as unfinished:
            unfinished.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert os.read(reader, 16) == b""
    os.close(reader)


@pytest.mark.parametrize("opened", [">", ">>"])
@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "{link}"])
def test_stdout_keeps_what_a_shell_has_put_there(place: str, opened: str, tmp_path: Path) -> None:
    log, link = tmp_path / "log", tmp_path / "link"
    log.write_text("before, ")
    link.symlink_to("/dev/stdout")
    code = (
        "import sys; from pathlib import Path\n"
        "from stepscope.base.complete_file import complete_output\n"
        "print('printed', end=', ')\n"
        "with complete_output(Path(sys.argv[1])) as made: made.write_text('answer')\n"
        "print(', and more', end='')\n"
    )
    with log.open("a" if opened == ">>" else "w") as stdout:
        named = [sys.executable, "-c", code, place.format(link=link)]
        subprocess.run(named, check=True, stdout=stdout)
    before = "before, " if opened == ">>" else ""
    assert log.read_text() == f"{before}printed, answer, and more"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "log"]


def test_only_own_descriptors_are_descriptors(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("")
    assert descriptor_of(Path("/dev/stdout")) == 1
    assert descriptor_of(Path("/dev/../dev/fd/7")) == 7
    for place in (tmp_path / "1", Path("/dev/null"), Path("/dev/fd/x"), tmp_path):
        assert descriptor_of(place) is None


def test_links_are_followed_to_where_they_lead(tmp_path: Path) -> None:
    folder, link, dangling = tmp_path / "folder", tmp_path / "link", tmp_path / "dangling"
    folder.mkdir()
    (folder / "a.txt").write_text("before")
    (tmp_path / "second").symlink_to("folder/a.txt")
    link.symlink_to("second")
    dangling.symlink_to(folder / "new.txt")
    for place in (link, dangling):
        written(place)
        assert place.is_symlink()
        assert place.read_text() == "answer"
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "new.txt"]


def test_a_link_in_a_circle_or_into_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "nowhere").symlink_to("absent/a.txt")
    for name in ("circle", "nowhere"):
        refusal(tmp_path / name)
        assert (tmp_path / name).is_symlink()


def test_permissions_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "a.txt", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    for mode in (0o600, 0o644, 0o755):
        target.chmod(mode)
        written(link)
        assert stat.S_IMODE(target.stat().st_mode) == mode


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        written(tmp_path / "a.txt")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_a_file_that_must_not_be_written_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("before")
    # As it is to all but root, who runs tests in containers.
    monkeypatch.setattr(os, "access", lambda place, _: Path(place).name != "a.txt")
    refusal(tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "before"


def test_a_directory_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for name in ("folder", "link"):
        error = refusal(tmp_path / name)
        assert "it is a directory" in error.message
        assert f"{name}/answer" in error.hint
        with pytest.raises(StepScopeError):
            check_output(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link"]
