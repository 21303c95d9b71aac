"""Small images for tests: files with qcow2 headers, manifests that fit them, and disks of machines over them."""

from __future__ import annotations

import struct
from pathlib import Path

from steelyard.images import catalogue, manifest
from steelyard.images.manifest import Manifest, OperatingSystem

NAME = "debian-12-kubernetes-v1.34.4.qcow2"


def qcow2(path: Path, *, backing: str = "", size: int = 1 << 30, version: int = 3) -> Path:
    """A file with the header of a disk, and nothing in it."""
    name = backing.encode(errors="surrogateescape")
    head = struct.pack(">4sIQIIQ", b"QFI\xfb", version, 512 if name else 0, len(name), 16, size)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head.ljust(512, b"\0") + name)
    return path


def described(image: Path, **changed: object) -> Manifest:
    """A manifest that is true of the file, but for what is `changed`."""
    facts: dict[str, object] = {
        "name": image.name,
        "sha256": catalogue.digest(image),
        "size": image.stat().st_size,
        "virtual_size": 4 << 30,
        "inputs": "0" * 64,
        "kubernetes": "v1.34.4",
        "operating_system": OperatingSystem(name="Debian GNU/Linux 12 (bookworm)", version="12.15", kernel="6.1.0-55"),
        "programs": {},
        "plug_ins": {},
        "images": (),
        "packages": {"systemd": "252.39-1"},
    }
    return Manifest.model_validate(facts | changed)


def image(root: Path, name: str = NAME, **changed: object) -> Path:
    """An image with its manifest."""
    made = qcow2(root / name)
    manifest.write(described(made, **changed), manifest.path_of(made))
    return made


def overlay(machines: Path, machine: str, base: Path | str) -> Path:
    return qcow2(machines / machine / "root.qcow2", backing=str(base))
