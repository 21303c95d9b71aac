"""The archive by itself: what goes in comes out, and nothing else does."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
from pathlib import Path
from typing import IO

import pytest

from steelyard.installation.backup import archive
from steelyard.installation.backup.archive import BadArchive


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


def forged(target: Path, database: bytes | int, **others: bytes) -> None:
    """An archive with right checksums over whatever it holds; a number is a hole of that size."""
    size = database if isinstance(database, int) else len(database)
    digest = hashlib.sha256()
    if isinstance(database, int):
        for _ in range(size >> 20):
            digest.update(bytes(1 << 20))
    else:
        digest.update(database)
    files = {"steelyard.db": {"size": size, "sha256": digest.hexdigest()}}
    files |= {name: {"size": len(each), "sha256": hashlib.sha256(each).hexdigest()} for name, each in others.items()}
    manifest = json.dumps(
        {"kind": "steelyard-backup", "format": 1, "version": "", "time": "", "revision": 1, "files": files}
    ).encode()
    with target.open("wb") as file:
        for name, content in (("manifest.json", manifest), ("manifest.sha256", hashlib.sha256(manifest).hexdigest())):
            _member(file, name, content if isinstance(content, bytes) else content.encode())
        if isinstance(database, int):
            info = tarfile.TarInfo("steelyard.db")
            info.size = database
            file.write(info.tobuf(tarfile.GNU_FORMAT))
            file.seek(database, os.SEEK_CUR)
        else:
            _member(file, "steelyard.db", database)
        for name, content in others.items():
            _member(file, name, content)
        file.write(bytes(1024))


def _member(file: IO[bytes], name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    file.write(info.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512))


def test_a_hole_is_refused_before_it_is_written_out(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.tar"
    forged(bomb, 1 << 30)
    assert bomb.stat().st_blocks * 512 < 1 << 20
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(BadArchive, match="hole"):
        archive.unpack(bomb, out)
    assert sum(path.stat().st_size for path in out.rglob("*")) == 0


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        pytest.param(tarfile.GNUTYPE_SPARSE, "no plain file", id="sparse"),
        pytest.param(tarfile.XHDTYPE, "no plain file", id="an extended header, of any size"),
        pytest.param(tarfile.GNUTYPE_LONGNAME, "no plain file", id="a long name, of any size"),
        pytest.param(tarfile.SYMTYPE, "no plain file", id="a link"),
        pytest.param(tarfile.REGTYPE, "ends within", id="more than there is"),
    ],
)
def test_what_no_backup_holds_is_refused_by_its_header(tmp_path: Path, kind: bytes, problem: str) -> None:
    target = tmp_path / "forged.tar"
    info = tarfile.TarInfo("manifest.json")
    info.type = kind
    info.size = 1 << 40
    info.linkname = "/etc/passwd"
    target.write_bytes(info.tobuf(tarfile.GNU_FORMAT)[:512] + bytes(4096))
    with pytest.raises(BadArchive, match=problem):
        archive.verify(target)


def test_more_or_larger_files_than_a_backup_has_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "forged.tar"
    forged(target, b"x", **{f"pki/{number}": b"x" for number in range(200)})
    with pytest.raises(BadArchive, match="more files"):
        archive.verify(target)
    forged(target, b"x", kubeconfig=b"x" * (2 << 20))
    with pytest.raises(BadArchive, match="larger ones"):
        archive.verify(target)
    forged(target, b"x", kubeconfig=b"x")
    assert archive.verify(target).revision == 1
