"""The images that machines are made from: found, read through once, and known again as long as the file is the same.

An image is used only if it is a plain file of its own: one that names another file, as a base or as the place of its
data, would bring that into a machine. Where a checksum is known, by the KVMMachine or by the manifest beside the image,
the file must have it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from steelyard.api.kvmhost import KVMHostSpec
from steelyard.frozen import frozen
from steelyard.providers.kvm import allowed
from steelyard.providers.kvm.refusals import Refused

_MAGIC: Final = b"QFI\xfb"
_HEADER: Final = struct.Struct(">4sIQIIQ")
_FEATURES: Final = struct.Struct(">Q")
_FEATURES_AT: Final = 72
_EXTERNAL_DATA: Final = 1 << 2
_LARGEST_MANIFEST: Final = 1 << 20
_SECTOR: Final = 512
_CHUNK: Final = 4 << 20


@frozen
class Base:
    path: str
    format: Literal["qcow2", "raw"]
    size: int
    """Of the disk that it is, in bytes."""


class BadImage(ValueError):
    """The file cannot be what machines are made from; the message says why."""


class Images:
    """Those of the host that the platform runs on."""

    def __init__(self) -> None:
        self._checksums: dict[tuple[str, int, int, int], str] = {}
        self._reading = asyncio.Lock()

    async def find(self, host: KVMHostSpec, image: str) -> Base:
        """Raises Refused."""
        candidates = allowed.images(host, image)
        wanted = image.partition("@sha256:")[2]
        if not allowed.is_local(host):
            if wanted:
                raise Refused(
                    "ImageNotChecked",
                    f"spec.image {image}: checksums of images on hosts elsewhere cannot be checked; leave @sha256 out, "
                    "and verify the image on the host",
                )
            path = candidates[0]
            return Base(path, "raw" if path.endswith((".raw", ".img")) else "qcow2", 0)
        # One after the other: two that read gigabytes at once are slower than that.
        async with self._reading:
            return await asyncio.to_thread(self._judged, host, candidates, wanted)

    def _judged(self, host: KVMHostSpec, candidates: Sequence[str], wanted: str) -> Base:
        path = next((each for each in candidates if os.path.exists(each)), None)
        if path is None:
            raise Refused(
                "ImageMissing",
                f"there is no image {' nor '.join(candidates)}: build it with steelyard image build, or copy it there",
            )
        try:
            real = allowed.judged_image(host, path, os.path.realpath)
            base = inspected(real)
            known = wanted or _sum_in_manifest(path)
            if known:
                self._compare(path, real, known)
        except (OSError, BadImage) as error:
            raise Refused("ImageNotUsable", f"image {path}: {error}") from error
        return base

    def _compare(self, path: str, real: str, known: str) -> None:
        found = self._checksum(real)
        if found != known:
            raise Refused(
                "ImageChecksumMismatch",
                f"image {path} has the checksum {found}, and should have {known}: it is damaged or another one; build "
                "or copy it again",
            )

    def _checksum(self, path: str) -> str:
        seen = os.stat(path)
        identity = (path, seen.st_size, seen.st_mtime_ns, seen.st_ino)
        if identity not in self._checksums:
            for other in [each for each in self._checksums if each[0] == path]:
                del self._checksums[other]
            hashed = hashlib.sha256()
            with open(path, "rb") as file:
                while chunk := file.read(_CHUNK):
                    hashed.update(chunk)
            self._checksums[identity] = hashed.hexdigest()
        return self._checksums[identity]


def inspected(path: str) -> Base:
    """Raises BadImage and OSError."""
    seen = os.stat(path)
    if not stat.S_ISREG(seen.st_mode):
        raise BadImage("it is no file")
    with open(path, "rb") as file:
        head = file.read(_FEATURES_AT + _FEATURES.size)
    if not head.startswith(_MAGIC):
        return Base(path, "raw", seen.st_size - seen.st_size % _SECTOR)
    if len(head) < _HEADER.size:
        raise BadImage("its header is cut off")
    _, version, backing, _, _, size = _HEADER.unpack_from(head)
    if backing:
        raise BadImage(
            "it lies over another image: convert it to one that stands alone, with qemu-img convert -O qcow2"
        )
    if version >= 3 and _FEATURES.unpack_from(head, _FEATURES_AT)[0] & _EXTERNAL_DATA:
        raise BadImage(
            "its data is in another file: convert it to one that stands alone, with qemu-img convert -O qcow2"
        )
    return Base(path, "qcow2", size)


def _manifest(path: str) -> Path | None:
    beside = (Path(f"{path}.json"), Path(path).with_suffix(".json"))
    return next((each for each in beside if each.is_file()), None)


def _sum_in_manifest(path: str) -> str:
    """Empty where there is no manifest."""
    manifest = _manifest(path)
    if manifest is None:
        return ""
    if manifest.stat().st_size > _LARGEST_MANIFEST:
        raise BadImage(f"its manifest {manifest} is too large to be one")
    try:
        read: Any = json.loads(manifest.read_text())
        said = str(read["sha256"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadImage(f"its manifest {manifest} has no sha256: {error}") from error
    return said.removeprefix("sha256:")
