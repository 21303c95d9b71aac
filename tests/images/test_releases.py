"""Programs as they were released, from a mirror: nothing is used whose checksum is not the published one."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from steelyard.images.failing import BuildFailed
from steelyard.images.releases import Releases

VERSION = "v1.34.4"


class Mirror:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mirror"
        self.said: list[str] = []
        self.releases = Releases(f"file://{self.folder}", folder / "cache", self.said.append)

    def put(self, place: str, content: bytes) -> str:
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return hashlib.sha256(content).hexdigest()

    def kubelet(self, content: bytes = b"kubelet") -> None:
        place = f"dl.k8s.io/{VERSION}/bin/linux/amd64/kubelet"
        self.put(f"{place}.sha256", self.put(place, content).encode())

    def etcd(self, members: dict[str, bytes]) -> None:
        folder = "github.com/etcd-io/etcd/releases/download/v3.6.5"
        digest = self.put(f"{folder}/etcd-v3.6.5-linux-amd64.tar.gz", archive(members))
        others = "0" * 64 + "  etcd-v3.6.5-linux-arm64.tar.gz"
        self.put(f"{folder}/SHA256SUMS", f"{others}\n{digest}  etcd-v3.6.5-linux-amd64.tar.gz\n".encode())

    def plug_ins(self, members: dict[str, bytes]) -> None:
        place = "github.com/containernetworking/plugins/releases/download/v1.7.1/cni-plugins-linux-amd64-v1.7.1.tgz"
        digest = self.put(place, archive(members))
        self.put(f"{place}.sha256", f"{digest}  cni-plugins-linux-amd64-v1.7.1.tgz\n".encode())


def archive(members: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as opened:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return target.getvalue()


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path)


def test_a_program_is_fetched_once(mirror: Mirror) -> None:
    mirror.kubelet()
    path = mirror.releases.kubernetes("kubelet", VERSION)
    assert path.read_bytes() == b"kubelet"
    assert path.stat().st_mode & 0o777 == 0o755
    assert mirror.releases.kubernetes("kubelet", VERSION) == path
    assert len(mirror.said) == 1


def test_a_program_with_another_checksum_is_not_used(mirror: Mirror, tmp_path: Path) -> None:
    mirror.kubelet()
    mirror.put(f"dl.k8s.io/{VERSION}/bin/linux/amd64/kubelet", b"somebody else's")
    with pytest.raises(BuildFailed, match=r"and should have .*: it is not used"):
        mirror.releases.kubernetes("kubelet", VERSION)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_what_was_changed_in_the_cache_is_fetched_again(mirror: Mirror) -> None:
    mirror.kubelet()
    path = mirror.releases.kubernetes("kubelet", VERSION)
    path.write_bytes(b"changed")
    assert mirror.releases.kubernetes("kubelet", VERSION).read_bytes() == b"kubelet"


def test_a_release_that_is_not_there_is_told_with_where_it_was_looked_for(mirror: Mirror) -> None:
    with pytest.raises(BuildFailed, match=r"mirror/dl.k8s.io/v1.34.4/bin/linux/amd64/kubelet.sha256 cannot be reached"):
        mirror.releases.kubernetes("kubelet", VERSION)


def test_a_program_is_taken_out_of_its_archive(mirror: Mirror) -> None:
    mirror.etcd({"etcd-v3.6.5-linux-amd64/etcd": b"etcd", "etcd-v3.6.5-linux-amd64/../../../x": b"elsewhere"})
    path = mirror.releases.etcd("v3.6.5", ("etcd",))["etcd"]
    assert path.read_bytes() == b"etcd"
    assert not list(path.parents[2].rglob("x"))


def test_an_archive_without_the_program_is_told(mirror: Mirror) -> None:
    mirror.etcd({"README.md": b""})
    with pytest.raises(BuildFailed, match="has no etcd in it"):
        mirror.releases.etcd("v3.6.5", ("etcd",))


def test_all_plug_ins_are_in_one_archive(mirror: Mirror) -> None:
    mirror.plug_ins({"./bridge": b"one", "./portmap": b"two", "./LICENSE": b""})
    found = mirror.releases.plug_ins("v1.7.1", ("bridge", "portmap"))
    assert {name: path.read_bytes() for name, path in found.items()} == {"bridge": b"one", "portmap": b"two"}


def test_a_list_without_the_file_is_no_checksum(mirror: Mirror) -> None:
    folder = "github.com/etcd-io/etcd/releases/download/v3.6.5"
    mirror.put(f"{folder}/SHA256SUMS", b"<html>not found</html>\n")
    with pytest.raises(BuildFailed, match=r"has no checksum of etcd-v3.6.5-linux-amd64.tar.gz"):
        mirror.releases.etcd("v3.6.5", ("etcd",))
