"""Headers of qcow2 files, those of real ones among them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from steelyard.images import qcow2
from steelyard.images.qcow2 import BadHeader, Header
from tests.images import examples


def test_a_disk_that_stands_alone_has_no_backing(tmp_path: Path) -> None:
    assert qcow2.read(examples.qcow2(tmp_path / "x", size=123 << 20)) == Header(123 << 20)


@pytest.mark.parametrize("version", [2, 3])
def test_the_file_that_a_disk_lies_over_is_read(tmp_path: Path, version: int) -> None:
    path = examples.qcow2(tmp_path / "x", backing="/images/base.qcow2", version=version)
    assert qcow2.read(path) == Header(1 << 30, "/images/base.qcow2")


def test_another_kind_of_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(bytes(4096))
    (tmp_path / "empty").touch()
    assert qcow2.read(tmp_path / "raw") is None
    assert qcow2.read(tmp_path / "empty") is None


@pytest.mark.parametrize(
    ("length", "why"), [(10, "its header is cut off"), (520, "the name of what it lies over is cut off")]
)
def test_a_file_that_was_cut_off_is_told(tmp_path: Path, length: int, why: str) -> None:
    path = examples.qcow2(tmp_path / "x", backing="/images/base.qcow2")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BadHeader, match=why):
        qcow2.read(path)


def test_a_version_or_a_length_that_none_has_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadHeader, match="it is of version 9"):
        qcow2.read(examples.qcow2(tmp_path / "x", version=9))
    with pytest.raises(BadHeader, match="has 2000 bytes"):
        qcow2.read(examples.qcow2(tmp_path / "y", backing="x" * 2000))


@pytest.mark.parametrize(
    ("backing", "meant"),
    [
        pytest.param("/images/base.qcow2", "/images/base.qcow2", id="absolute"),
        pytest.param("base.qcow2", "/machines/one/base.qcow2", id="beside the overlay"),
        pytest.param("file:/images/base.qcow2", "/images/base.qcow2", id="with its protocol"),
        pytest.param('json:{"driver":"qcow2","file":{"driver":"file","filename":"/i/b"}}', "/i/b", id="described"),
        pytest.param('json:{"file.filename":"/i/b"}', "/i/b", id="described in one level"),
        pytest.param("nbd://server/export", None, id="of a server"),
        pytest.param('json:{"driver":"null-co"}', None, id="no file at all"),
        pytest.param("json:{", None, id="nonsense"),
    ],
)
def test_a_backing_name_means_a_file(backing: str, meant: str | None) -> None:
    found = qcow2.backing_path(Path("/machines/one/root.qcow2"), backing)
    assert found == (None if meant is None else Path(meant))


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="needs qemu-img, of Debian's package qemu-utils")
def test_what_qemu_writes_is_understood(tmp_path: Path) -> None:
    base, over = tmp_path / "base.qcow2", tmp_path / "over.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(base), "16M"], check=True)
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", "qcow2", str(over), "32M"], check=True
    )
    assert qcow2.read(base) == Header(16 << 20)
    assert qcow2.read(over) == Header(32 << 20, str(base))
