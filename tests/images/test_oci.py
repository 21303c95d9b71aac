"""Container images as archives: one layer, named for containerd, and the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

from steelyard.images import oci
from steelyard.images.layers import Entry
from steelyard.images.oci import ContainerImage

EPOCH = 1_700_000_000
PAUSE = ContainerImage("registry.k8s.io/pause:3.10.1", (Entry("/pause", b"program"),), ("/pause",), "65535:65535")


def contents(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        found: dict[str, bytes] = {}
        for member in opened:
            content = opened.extractfile(member)
            assert content is not None
            found[member.name] = content.read()
        return found


def test_the_same_image_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first.tar", tmp_path / "second.tar"
    assert oci.write(PAUSE, first, EPOCH) == oci.write(PAUSE, second, EPOCH)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.tar", "second.tar"]


def test_each_blob_is_what_its_name_says(tmp_path: Path) -> None:
    oci.write(PAUSE, tmp_path / "x.tar", EPOCH)
    for name, content in contents(tmp_path / "x.tar").items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(content).hexdigest() == name.removeprefix("blobs/sha256/")


def test_from_the_index_one_finds_name_configuration_and_layer(tmp_path: Path) -> None:
    archived = oci.write(PAUSE, tmp_path / "x.tar", EPOCH)
    found = contents(tmp_path / "x.tar")

    def blob(described: dict[str, Any]) -> bytes:
        content = found["blobs/" + str(described["digest"]).replace(":", "/")]
        assert len(content) == described["size"]
        return content

    assert json.loads(found["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (listed,) = json.loads(found["index.json"])["manifests"]
    assert listed["annotations"]["io.containerd.image.name"] == "registry.k8s.io/pause:3.10.1"
    assert listed["digest"] == archived.manifest
    described = json.loads(blob(listed))
    config = json.loads(blob(described["config"]))
    (layer,) = described["layers"]
    assert layer["digest"] == archived.layer == config["rootfs"]["diff_ids"][0]
    assert config["config"]["Entrypoint"] == ["/pause"]
    assert config["config"]["User"] == "65535:65535"
    assert (config["os"], config["architecture"]) == ("linux", "amd64")
    assert config["created"] == "2023-11-14T22:13:20Z"
    assert b"program" in blob(layer)
