"""A file is replaced as a whole or left as it was."""

import errno
import os
import stat
import subprocess
import sys

import pytest

from openset.utils import atomic_write


def test_replaces(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_permissions_are_those_of_an_ordinary_file(tmp_path):
    (tmp_path / "plain").write_text("")
    with atomic_write(tmp_path / "ours"):
        pass
    mode = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "ours")]
    assert mode[0] == mode[1]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failure_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error), atomic_write(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere; make it first"):
        with atomic_write(tmp_path / "nowhere" / "a.txt"):
            pass


def test_an_existing_file_keeps_its_mode(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o640)
    with atomic_write(path) as temporary:
        temporary.write_text("new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o666, 0o755])
def test_the_temporary_file_is_never_more_open_than_the_old_one(tmp_path, monkeypatch, mode):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(mode)
    created, create = [], os.open

    def watched(name, flags, *given, **options):
        opened = create(name, flags, *given, **options)
        if flags & os.O_CREAT:
            created.append(stat.S_IMODE(os.fstat(opened).st_mode))
        return opened

    monkeypatch.setattr(os, "open", watched)
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        created.append(stat.S_IMODE(temporary.stat().st_mode))
    assert [found & ~(mode | 0o600) for found in created] == [0, 0]
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_symbolic_link_is_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "a.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_write(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_the_umask_is_never_changed(tmp_path, monkeypatch):
    # It belongs to the whole process: another thread would create its files with a wrong mode.
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("os.umask was called"))
    with atomic_write(tmp_path / "a.txt"):
        pass


@pytest.mark.parametrize("length", [251, 255])
def test_long_names(tmp_path, length):
    path = tmp_path / ("n" * (length - 4) + ".csv")
    with atomic_write(path) as temporary:
        assert temporary.suffix == ".csv"
        temporary.write_text("new")
    assert path.read_text() == "new"


def test_leftovers_of_killed_writers_are_removed(tmp_path):
    code = (
        "import os, sys; from openset.utils import atomic_write\n"
        "with atomic_write(sys.argv[1]) as t: t.write_text('half'); os.kill(os.getpid(), 9)"
    )
    path = tmp_path / "a.txt"
    subprocess.run([sys.executable, "-c", code, str(path)])
    assert len(list(tmp_path.iterdir())) == 1
    with atomic_write(tmp_path / "b.txt"):
        pass
    assert len(list(tmp_path.iterdir())) == 2  # it belongs to another file
    with atomic_write(path) as mine:
        with atomic_write(path) as other:  # a writer that lives is left alone
            other.write_text("first")
        assert mine.exists()
        mine.write_text("second")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b.txt"]
    assert path.read_text() == "second"


def test_a_full_disk_names_the_file(tmp_path):
    path = tmp_path / "a.txt"
    with pytest.raises(OSError, match=r"No space left on device.*a\.txt"):
        with atomic_write(path):
            raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="other") as caught:
        with atomic_write(path):
            raise OSError(errno.EIO, "input", "other.csv")  # of a file that is read
    assert caught.value.filename == "other.csv"


def test_devices_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FileExistsError, match="no ordinary file"):
        with atomic_write(tmp_path / "fifo"):
            pass
