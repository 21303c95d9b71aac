from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import threading
from pathlib import Path

import pytest

from steelyard.installation import datadir
from steelyard.installation.datadir import AlreadyRunning, DataDir, Hold, Instance


@pytest.fixture
def directory(tmp_path: Path) -> DataDir:
    made = DataDir(tmp_path / "data")
    made.create()
    return made


def test_the_directory_is_for_its_owner_only(directory: DataDir) -> None:
    assert directory.root.stat().st_mode & 0o777 == 0o700


def test_a_second_platform_is_told_who_is_there(directory: DataDir) -> None:
    hold = Hold(directory)
    hold.describe(Instance(os.getpid(), "https://127.0.0.1:7443", "2026-01-01T00:00:00Z", "0.1.0"))
    with pytest.raises(AlreadyRunning, match=rf"process {os.getpid()} at https://127.0.0.1:7443"):
        Hold(directory)
    hold.release()


def test_a_released_directory_can_be_claimed_again(directory: DataDir) -> None:
    Hold(directory).release()
    assert directory.running() is None
    Hold(directory).release()


def test_whoever_looks_keeps_no_platform_from_starting_and_is_not_taken_for_one(directory: DataDir) -> None:
    Hold(directory).release()
    looking = os.open(directory.pid_file, os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert directory.running() is None
    done = threading.Timer(0.1, os.close, (looking,))
    done.start()
    Hold(directory).release()
    done.join()


def test_what_a_dead_platform_left_does_not_count_as_running(directory: DataDir) -> None:
    directory.pid_file.write_text('{"pid": 1, "url": "https://127.0.0.1:1", "started": "", "version": ""}')
    assert directory.running() is None


def test_a_starting_platform_is_not_taken_for_the_killed_one_before_it(directory: DataDir) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    hold = Hold(directory)
    hold.describe(Instance(dead.pid, "https://127.0.0.1:1", "", "0.1.0"))
    running = directory.running()
    assert running is not None
    assert running.url == ""
    hold.release()


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        pytest.param(Path("/a"), {"STEELYARD_DATA_DIR": "/b"}, Path("/a"), id="the flag wins"),
        pytest.param(None, {"STEELYARD_DATA_DIR": "/b"}, Path("/b"), id="then the variable"),
        pytest.param(None, {"XDG_DATA_HOME": "/c"}, Path("/c/steelyard"), id="then the user's data directory"),
    ],
)
def test_where_the_data_is(given: Path | None, environment: dict[str, str], expected: Path) -> None:
    assert datadir.locate(given, environment).root == expected


def test_a_file_system_without_locks_is_told_as_such(directory: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match=r"No locks available.*must be on a file system with locks"):
        Hold(directory)


def test_claiming_again_needs_no_space(directory: DataDir) -> None:
    """A disk may be full by then: the file is never cut, so that what it takes up stays its own."""
    sizes: set[int] = set()
    for _ in range(2):
        hold = Hold(directory)
        sizes.add(directory.pid_file.stat().st_size)
        hold.describe(Instance(os.getpid(), "https://127.0.0.1:7443", "2026-01-01T00:00:00Z", "0.1.0"))
        sizes.add(directory.pid_file.stat().st_size)
        hold.release()
        sizes.add(directory.pid_file.stat().st_size)
    assert len(sizes) == 1
