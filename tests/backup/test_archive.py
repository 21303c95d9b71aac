"""The archive by itself: what goes in comes out, and nothing else does."""

from __future__ import annotations

import io
import stat
import tarfile
from pathlib import Path

import pytest

from steelyard.backup import archive
from steelyard.backup.archive import BadArchive


@pytest.fixture
def made(tmp_path: Path) -> Path:
    database = tmp_path / "db"
    database.write_bytes(bytes(range(256)) * 40)
    key = tmp_path / "key"
    key.write_bytes(b"secret")
    target = tmp_path / "backup.tar"
    archive.write(
        target, {archive.DATABASE: database, "pki/ca.key": key}, version="1", time="2026-01-01T00:00:00Z", revision=7
    )
    return target


def test_what_goes_in_comes_out_readable_by_its_owner_only(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    manifest = archive.unpack(made, out)
    assert (manifest.revision, manifest.version, manifest.time) == (7, "1", "2026-01-01T00:00:00Z")
    assert (out / archive.DATABASE).read_bytes() == bytes(range(256)) * 40
    assert (out / "pki" / "ca.key").read_bytes() == b"secret"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE((out / "pki" / "ca.key").stat().st_mode) == 0o600


def test_a_flipped_byte_is_refused_or_changes_nothing(made: Path, tmp_path: Path) -> None:
    whole = made.read_bytes()
    expected = archive.verify(made)
    damaged = tmp_path / "damaged.tar"
    refusals: list[str] = []
    for position in range(0, len(whole), 37):
        damaged.write_bytes(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        try:
            assert archive.verify(damaged) == expected
        except BadArchive as error:
            refusals.append(str(error))
    assert len(refusals) > 200
    assert all("damaged" in each for each in refusals)


@pytest.mark.parametrize("size", [0, 100, 512, 2000, 6000])
def test_a_cut_archive_is_refused(made: Path, tmp_path: Path, size: int) -> None:
    cut = tmp_path / "cut.tar"
    cut.write_bytes(made.read_bytes()[:size])
    with pytest.raises(BadArchive, match="damaged"):
        archive.verify(cut)


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "pki/../../evil", "pki/a/b", "simulated.db"])
def test_a_file_that_no_backup_has_is_refused(tmp_path: Path, name: str) -> None:
    content = tmp_path / "content"
    content.write_bytes(b"x")
    target = tmp_path / "backup.tar"
    archive.write(target, {archive.DATABASE: content, name: content}, version="1", time="", revision=1)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(BadArchive, match="files that no backup has"):
        archive.unpack(target, out)
    assert not any(out.iterdir())


def test_a_file_beside_the_manifest_is_refused(made: Path) -> None:
    with tarfile.open(made, "a") as tar:
        info = tarfile.TarInfo("kubeconfig")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    with pytest.raises(BadArchive, match="not what its manifest lists"):
        archive.verify(made)


def test_something_else_is_named_as_such(tmp_path: Path) -> None:
    other = tmp_path / "other.tar"
    with tarfile.open(other, "w") as tar:
        tar.add(__file__, "a.py")
    with pytest.raises(BadArchive, match="no backup of Steelyard"):
        archive.verify(other)
