"""Files that are whole and private, whatever happens while they are written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from steelyard import durable


def test_a_file_is_its_owners_alone_from_the_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    before = os.umask(0)
    try:
        durable.write(tmp_path / "key", b"secret")
    finally:
        os.umask(before)
    assert (tmp_path / "key").read_bytes() == b"secret"
    assert modes[0] == 0o600
    assert len(modes) == 2, "the file and the directory that names it"
    assert os.listdir(tmp_path) == ["key"]


def test_what_a_killed_process_left_is_written_over_and_never_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    (tmp_path / f"key{durable.UNFINISHED}").symlink_to(elsewhere)
    durable.write(tmp_path / "key", b"secret")
    assert elsewhere.read_text() == "untouched"
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "key"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable.write(tmp_path / "key", b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        durable.write(tmp_path / "key", b"new")
    assert (tmp_path / "key").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["key"]


def test_a_new_file_is_durable_and_its_owners_alone_and_never_takes_anothers_place(tmp_path: Path) -> None:
    with durable.new(tmp_path / "archive") as file:
        file.write(b"whole")
    assert (tmp_path / "archive").read_bytes() == b"whole"
    assert stat.S_IMODE((tmp_path / "archive").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError), durable.new(tmp_path / "archive"):
        pass
