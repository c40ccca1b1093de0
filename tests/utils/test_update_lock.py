"""One process at a time updates a file; a killed one does not hold others back."""

import os
import signal
import subprocess
import sys
import time

import pytest

from openset.utils import atomic_write, update_lock

_HOLD = """
import sys, time
from openset.utils import update_lock
with update_lock(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    path = tmp_path / "state"
    path.write_text("0")
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "locked\n"
    yield path, process
    process.kill()
    process.communicate()


def test_refuses_clearly_while_another_process_updates(holder):
    path, _ = holder
    with pytest.raises(TimeoutError, match=r"another process has been updating .*state for 0 s"):
        with update_lock(path, wait=0.1):
            pass


def test_a_killed_process_holds_nobody_back(holder):
    path, process = holder
    os.kill(process.pid, signal.SIGKILL)
    with update_lock(path, wait=10):
        pass
    assert os.listdir(path.parent) == ["state"]


def test_waits_for_the_file_that_replaces_the_locked_one(tmp_path):
    path = tmp_path / "state"
    path.write_text("0")
    count = (
        "import sys; from openset.utils import *\n"
        "for _ in range(50):\n"
        "    with update_lock(sys.argv[1]), atomic_write(sys.argv[1]) as t:\n"
        "        t.write_text(str(int(open(sys.argv[1]).read()) + 1))"
    )
    processes = [subprocess.Popen([sys.executable, "-c", count, str(path)]) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert path.read_text() == "150"


def test_without_locks_there_is_a_warning(tmp_path, monkeypatch):
    path = tmp_path / "state"
    path.write_text("0")
    monkeypatch.setattr("openset.utils._files.fcntl", None)
    with pytest.warns(UserWarning, match="state cannot be locked .*make sure that no other"):
        with update_lock(path), atomic_write(path) as temporary:
            temporary.write_text("1")


def test_a_lock_is_released_after_an_error(tmp_path):
    path = tmp_path / "state"
    path.write_text("0")
    with pytest.raises(KeyError):
        with update_lock(path):
            raise KeyError
    begin = time.monotonic()
    with update_lock(path):
        pass
    assert time.monotonic() - begin < 1
