"""Images: plain files under the host's roots, with the checksum that they are said to have."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from steelyard.api.kvmhost import KVMHostSpec
from steelyard.providers.kvm.images import Images
from steelyard.providers.kvm.refusals import Refused

pytestmark = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")


def make(path: Path, *options: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *options, str(path), "8M"], check=True)
    return path


def checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def host(tmp_path: Path) -> KVMHostSpec:
    make(tmp_path / "images" / "node.qcow2")
    return KVMHostSpec.model_validate(
        {
            "uri": "qemu:///system",
            "storageRoots": ["/var/lib/steelyard/machines"],
            "imageRoots": [str(tmp_path / "elsewhere"), str(tmp_path / "images")],
            "networks": {},
        }
    )


async def reason(host: KVMHostSpec, image: str, images: Images | None = None) -> str:
    with pytest.raises(Refused) as refused:
        await (images or Images()).find(host, image)
    return refused.value.reason


async def test_an_image_is_found_by_name_or_path_and_known_for_what_it_is(host: KVMHostSpec, tmp_path: Path) -> None:
    found = await Images().find(host, "node.qcow2")
    assert (found.path, found.format, found.size) == (str(tmp_path / "images/node.qcow2"), "qcow2", 8 << 20)
    assert await Images().find(host, str(tmp_path / "images/node.qcow2")) == found
    (tmp_path / "images/node.raw").write_bytes(bytes(4096))
    raw = await Images().find(host, "node.raw")
    assert (raw.format, raw.size) == ("raw", 4096)
    assert await reason(host, "another.qcow2") == "ImageMissing"
    assert await reason(host, "/etc/shadow") == "ImageNotAllowed"


async def test_an_image_with_another_checksum_is_refused(host: KVMHostSpec, tmp_path: Path) -> None:
    path, images = tmp_path / "images/node.qcow2", Images()
    assert await reason(host, f"node.qcow2@sha256:{'0' * 64}") == "ImageChecksumMismatch"
    known = f"node.qcow2@sha256:{checksum(path)}"
    assert (await images.find(host, known)).path == str(path)
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"changed")
    assert await reason(host, known, images) == "ImageChecksumMismatch", "also one that was looked at before"


@pytest.mark.parametrize("manifest", ["node.qcow2.json", "node.json"])
async def test_the_manifest_beside_an_image_is_held_against_it(
    host: KVMHostSpec, tmp_path: Path, manifest: str
) -> None:
    path = tmp_path / "images/node.qcow2"
    beside = tmp_path / "images" / manifest
    beside.write_text(json.dumps({"sha256": checksum(path)}))
    assert (await Images().find(host, "node.qcow2")).path == str(path)
    beside.write_text(json.dumps({"sha256": "0" * 64}))
    assert await reason(host, "node.qcow2") == "ImageChecksumMismatch"
    beside.write_text("{}")
    assert await reason(host, "node.qcow2") == "ImageNotUsable"


async def test_an_image_that_leads_elsewhere_is_refused(host: KVMHostSpec, tmp_path: Path) -> None:
    secret = make(tmp_path / "secret.qcow2")
    images = tmp_path / "images"
    make(images / "over.qcow2", "-b", str(secret), "-F", "qcow2")
    make(images / "apart.qcow2", "-o", f"data_file={tmp_path / 'data.raw'}")
    (images / "link.qcow2").symlink_to(secret)
    (images / "folder.qcow2").mkdir()
    os.mkfifo(images / "pipe.qcow2")
    assert await reason(host, "over.qcow2") == "ImageNotUsable"
    assert await reason(host, "apart.qcow2") == "ImageNotUsable"
    assert await reason(host, "link.qcow2") == "ImageNotAllowed"
    assert await reason(host, "folder.qcow2") == "ImageNotUsable"
    assert await reason(host, "pipe.qcow2") == "ImageNotUsable"
