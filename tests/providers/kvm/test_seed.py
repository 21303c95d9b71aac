"""What machines are told at their start: a disk that Linux reads, files that cloud-init reads, a script that runs."""

from __future__ import annotations

import dataclasses
import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import yaml

from steelyard.providers.kvm.seed import files, iso9660, vendordata
from steelyard.providers.kvm.seed.vendordata import Mounted, Router, Told

UUID = "0b1e4b4c-6c7e-4f0e-9a53-3d4b8d1f2a60"
MAC = "52:54:00:01:02:03"
EVERYTHING = Told(
    "one",
    MAC,
    UUID,
    disks=("containers", "kubelet", "etcd"),
    shares=(Mounted("hostvolume0", "/data", is_read_only=True),),
    dns_servers=("10.0.0.53", "fd00::53"),
    ntp_servers=("ntp.example.org",),
    initiator="iqn.2026-01.org.example:one",
    router=Router("10.200.3.10", 6443, 51, 120),
)


def read(image: bytes, *, is_joliet: bool) -> dict[str, bytes]:
    """The files of an image by their names, as a reader that knows nothing of the writer finds them."""
    kind = 2 if is_joliet else 1
    sector = next(
        number for number in range(16, 32) if image[number * 2048 : number * 2048 + 6] == bytes((kind,)) + b"CD001"
    )
    descriptor = image[sector * 2048 : (sector + 1) * 2048]
    assert struct.unpack_from("<I", descriptor, 80)[0] * 2048 == len(image)
    extent, _, size = struct.unpack_from("<III", descriptor, 156 + 2)
    directory = image[extent * 2048 : extent * 2048 + size]
    found: dict[str, bytes] = {}
    offset = 0
    while directory[offset]:
        length, name_length = directory[offset], directory[offset + 32]
        start, _, bytes_ = struct.unpack_from("<III", directory, offset + 2)
        name = directory[offset + 33 : offset + 33 + name_length]
        if name not in (b"\0", b"\1"):
            text = name.decode("utf-16-be") if is_joliet else name.decode().lower().removesuffix(";1").rstrip(".")
            found[text] = image[start * 2048 : start * 2048 + bytes_]
        offset += length
    return found


def seed(user_data: bytes = b"#cloud-config\n", *, at_least: int = 0) -> bytes:
    return files.seed(
        UUID,
        "one",
        user_data=user_data,
        vendor_data=vendordata.script(EVERYTHING),
        network=files.network(MAC, ["10.0.0.53"]),
        at_least=at_least,
    )


@pytest.mark.parametrize("is_joliet", [True, False], ids=["as Linux reads it", "as older readers do"])
def test_a_seed_has_its_files(is_joliet: bool) -> None:
    made = seed(b"#cloud-config\n" + bytes(range(256)) * 30)
    found = read(made, is_joliet=is_joliet)

    assert set(found) == {"meta-data", "user-data", "vendor-data", "network-config"}
    assert found["user-data"] == b"#cloud-config\n" + bytes(range(256)) * 30, "as it was given"
    about = yaml.safe_load(found["meta-data"])
    assert about == {"instance-id": UUID, "local-hostname": "one", "hostname": "one"}
    network = json.loads(found["network-config"])["ethernets"]["eth0"]
    assert network["match"] == {"macaddress": MAC}
    assert network["dhcp4"] is True
    assert made == seed(b"#cloud-config\n" + bytes(range(256)) * 30), "the same always"


@pytest.mark.skipif(shutil.which("blkid") is None, reason="blkid is not installed")
def test_cloud_init_finds_a_seed_by_its_label(tmp_path: Path) -> None:
    (tmp_path / "seed.iso").write_bytes(seed())
    told = subprocess.run(["blkid", "-o", "export", str(tmp_path / "seed.iso")], capture_output=True, text=True)
    assert {"LABEL=CIDATA", "TYPE=iso9660"} <= set(told.stdout.splitlines())


def test_a_spent_seed_fits_into_the_place_of_the_one_before() -> None:
    before = seed(b"x" * 40_000)
    spent = seed(files.NOTHING, at_least=len(before))
    assert len(spent) == len(before)
    assert read(spent, is_joliet=True)["user-data"] == files.NOTHING
    assert b"xxxx" not in spent


def test_too_many_files_are_refused_rather_than_lost() -> None:
    with pytest.raises(ValueError, match="too many files"):
        iso9660.image("CIDATA", {f"file-{number:02}": b"" for number in range(60)})


def test_emulated_control_planes_are_asked_less_often_whether_they_are_well() -> None:
    assert "interval 3\n" in vendordata.script(EVERYTHING)
    assert "interval 12\n" in vendordata.script(dataclasses.replace(EVERYTHING, is_emulated=True))


@pytest.mark.parametrize("told", [EVERYTHING, Told("one", MAC, UUID)], ids=["everything", "nothing but the name"])
def test_the_script_is_one_that_a_shell_understands(told: Told, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(vendordata.script(told))
    checked = subprocess.run(["sh", "-n", str(tmp_path / "script")], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_script_can_be_run_again_at_any_point(tmp_path: Path) -> None:
    """With commands that only say what they were asked for, in a directory that stands for the machine's."""
    for name in (
        "mount",
        "umount",
        "mkfs.ext4",
        "blkid",
        "udevadm",
        "systemctl",
        "systemd-run",
        "modprobe",
        "mountpoint",
    ):
        command = tmp_path / "bin" / name
        command.parent.mkdir(exist_ok=True)
        status = {"mountpoint": 1, "blkid": 2}.get(name, 0)
        command.write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/said\nexit {status}\n')
        command.chmod(0o755)
    for folder in ("etc/dhcp", "var/lib", "run"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/fstab").touch()
    (tmp_path / "etc/dhcp/dhclient.conf").touch()
    script = vendordata.script(EVERYTHING).replace("export PATH=", f"PATH={tmp_path}/bin:$PATH #")
    for place in ("/etc/", "/var/lib/", "/run/steelyard", "/data"):
        script = script.replace(place, f"{tmp_path}{place}")
    (tmp_path / "script").write_text(script)
    for _ in range(2):
        done = subprocess.run(["sh", str(tmp_path / "script")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    mounts = [line.split()[:3] for line in (tmp_path / "etc/fstab").read_text().splitlines()]
    assert [(source, kind) for source, _, kind in mounts] == [
        ("LABEL=sy-containers", "ext4"),
        ("LABEL=sy-kubelet", "ext4"),
        ("LABEL=sy-etcd", "ext4"),
        ("hostvolume0", "9p"),
    ], "each once"
    keepalived = (tmp_path / "etc/keepalived/keepalived.conf").read_text()
    assert "10.200.3.10/32" in keepalived
    assert "virtual_router_id 51" in keepalived
    assert (tmp_path / "etc/iscsi/initiatorname.iscsi").read_text() == "InitiatorName=iqn.2026-01.org.example:one\n"
    assert (tmp_path / "etc/dhcp/dhclient.conf").read_text().count("supersede") <= 1
    said = (tmp_path / "said").read_text()
    assert said.count("mkfs.ext4 -q -L sy-etcd") == 2, "as long as there is no file system"
    assert "systemctl enable keepalived.service" in said
