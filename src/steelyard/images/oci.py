"""Container images as archives of the Open Container Initiative, which containerd imports under the name they have.

One layer, uncompressed: it is unpacked once, while the image of the machine is built.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from steelyard.frozen import frozen
from steelyard.images import layers
from steelyard.images.layers import Entry

_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_NAME: Final = "io.containerd.image.name"
_TAG: Final = "org.opencontainers.image.ref.name"


@frozen
class ContainerImage:
    name: str
    """With its tag, as in `registry.k8s.io/pause:3.10.1`."""
    entries: Sequence[Entry]
    entrypoint: Sequence[str] = ()
    user: str = ""


@frozen
class Archived:
    name: str
    manifest: str
    """Digest that names the image, as in `sha256:…`."""
    layer: str
    size: int
    """Of the layer, in bytes."""


def write(image: ContainerImage, target: Path, epoch: int) -> Archived:
    """The same image gives the same bytes."""
    unnamed = target.with_name(f"{target.name}.layer")
    try:
        with unnamed.open("wb") as file:
            layers.write(image.entries, file, epoch)
        return _assemble(image, unnamed, target, epoch)
    finally:
        unnamed.unlink(missing_ok=True)


def _assemble(image: ContainerImage, layer: Path, target: Path, epoch: int) -> Archived:
    layer_digest, size = file_digest(layer), layer.stat().st_size
    config = _json(_config(image, layer_digest, epoch))
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [{"mediaType": _LAYER, "digest": f"sha256:{layer_digest}", "size": size}],
        }
    )
    named = {_NAME: image.name, _TAG: image.name.rpartition(":")[2]}
    described = _descriptor(MANIFEST, manifest) | {"annotations": named, "platform": _PLATFORM}
    index = _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [described]})
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for content in sorted((config, manifest), key=_digest):
            _add(archive, f"blobs/sha256/{_digest(content)}", content, epoch)
        with layer.open("rb") as file:
            _add_file(archive, f"blobs/sha256/{layer_digest}", file, size, epoch)
        _add(archive, "index.json", index, epoch)
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}), epoch)
    return Archived(image.name, f"sha256:{_digest(manifest)}", f"sha256:{layer_digest}", size)


_PLATFORM: Final = {"architecture": "amd64", "os": "linux"}


def _config(image: ContainerImage, layer: str, epoch: int) -> dict[str, Any]:
    created = datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    run: dict[str, Any] = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
    if image.entrypoint:
        run["Entrypoint"] = list(image.entrypoint)
    if image.user:
        run["User"] = image.user
    history = [{"created": created, "created_by": "steelyard image build"}]
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{layer}"]}
    return {**_PLATFORM, "created": created, "config": run, "rootfs": rootfs, "history": history}


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _descriptor(media: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media, "digest": f"sha256:{_digest(content)}", "size": len(content)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes, epoch: int) -> None:
    _add_file(archive, name, io.BytesIO(content), len(content), epoch)


def _add_file(archive: tarfile.TarFile, name: str, content: Any, size: int, epoch: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, epoch, 0o644
    archive.addfile(member, content)
