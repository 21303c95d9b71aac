"""One layer of a container image: the same bytes for the same files, with what links lead to."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from steelyard.images import layers
from steelyard.images.failing import BuildFailed
from steelyard.images.layers import Entry

EPOCH = 1_700_000_000


def written(*entries: Entry) -> bytes:
    target = io.BytesIO()
    layers.write(entries, target, EPOCH)
    return target.getvalue()


def members(content: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {member.name: member for member in archive}


def test_the_order_in_which_files_are_given_makes_no_difference() -> None:
    one, other = Entry("/b", b"two"), Entry("/a/c", b"one", mode=0o644)
    assert written(one, other) == written(other, one)


def test_directories_on_the_way_are_there_before_what_is_in_them() -> None:
    assert list(members(written(Entry("/usr/local/bin/etcd", b"x")))) == [
        "usr",
        "usr/local",
        "usr/local/bin",
        "usr/local/bin/etcd",
    ]


def test_a_directory_that_is_given_keeps_its_mode() -> None:
    found = members(written(Entry("/tmp/x", b""), Entry("/tmp", is_directory=True, mode=0o1777)))
    assert found["tmp"].mode == 0o1777


def test_everything_is_roots_and_of_one_time(tmp_path: Path) -> None:
    source = tmp_path / "program"
    source.write_bytes(b"program")
    os.utime(source, (1, 1))
    found = members(written(Entry("/bin/program", source=source), Entry("/link", link="bin/program")))
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in found.values()} == {(0, 0, "", EPOCH)}
    assert found["bin/program"].mode == 0o755
    assert found["link"].linkname == "bin/program"


def test_a_program_that_binds_ports_has_the_capability_for_it() -> None:
    found = members(written(Entry("/coredns", b"x", binds_ports=True)))
    value = found["coredns"].pax_headers["SCHILY.xattr.security.capability"].encode()
    assert value == bytes.fromhex("0100000200040000000000000000000000000000")


@pytest.mark.parametrize("path", ["relative", "/a/../etc/passwd"])
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(BuildFailed, match="no absolute path"):
        written(Entry(path, b""))


def test_files_of_a_tree_come_with_what_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "usr/sbin").mkdir(parents=True)
    (tmp_path / "usr/sbin/xtables-nft-multi").write_bytes(b"program")
    (tmp_path / "usr/sbin/xtables-nft-multi").chmod(0o755)
    (tmp_path / "usr/sbin/iptables-nft").symlink_to("xtables-nft-multi")
    (tmp_path / "etc/alternatives").mkdir(parents=True)
    (tmp_path / "etc/alternatives/iptables").symlink_to("/usr/sbin/iptables-nft")
    (tmp_path / "usr/sbin/iptables").symlink_to("/etc/alternatives/iptables")
    (tmp_path / "sbin").symlink_to("usr/sbin")
    found = {entry.path: entry for entry in layers.from_tree(tmp_path, ["/sbin/iptables"])}
    assert set(found) == {
        "/sbin",
        "/usr/sbin/iptables",
        "/etc/alternatives/iptables",
        "/usr/sbin/iptables-nft",
        "/usr/sbin/xtables-nft-multi",
    }
    assert found["/usr/sbin/xtables-nft-multi"].source == tmp_path / "usr/sbin/xtables-nft-multi"
    assert found["/usr/sbin/iptables"].link == "/etc/alternatives/iptables"


def test_what_is_no_file_cannot_be_part_of_an_image(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BuildFailed, match="/pipe of the operating system is no file"):
        layers.from_tree(tmp_path, ["/pipe"])
