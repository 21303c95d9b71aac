"""What the header of a qcow2 file says, read without QEMU: how large the disk is, and what file it lies over."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Final, cast

from steelyard.frozen import frozen

_MAGIC: Final = b"QFI\xfb"
_HEADER: Final = struct.Struct(">4sIQIIQ")
"""Magic, version, where the name of the backing file is, how long that is, bits of a cluster, size of the disk."""
_VERSIONS: Final = (2, 3)
_LONGEST_NAME: Final = 1023
"""As QEMU has it."""


class BadHeader(Exception):
    """The file says that it is qcow2, and cannot be read as such."""


@frozen
class Header:
    size: int
    """Of the disk, in bytes."""
    backing: str = ""
    """The file that it lies over, as it is written there; empty where it stands alone."""


def read(path: Path) -> Header | None:
    """None where it is another kind of file. Raises BadHeader and OSError."""
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        if not head.startswith(_MAGIC):
            return None
        if len(head) < _HEADER.size:
            raise BadHeader("its header is cut off")
        _, version, place, length, _, size = _HEADER.unpack(head)
        if version not in _VERSIONS:
            raise BadHeader(f"it is of version {version}")
        if not place:
            return Header(size)
        if not 0 < length <= _LONGEST_NAME:
            raise BadHeader(f"the name of what it lies over has {length} bytes")
        file.seek(place)
        name = file.read(length)
        if len(name) < length:
            raise BadHeader("the name of what it lies over is cut off")
        return Header(size, name.decode(errors="surrogateescape"))


def backing_path(overlay: Path, backing: str) -> Path | None:
    """The file that a backing name means: relative ones are beside the overlay. None where it is no local file."""
    name = _named(backing)
    if name is None or ("://" in name):
        return None
    return overlay.parent / name.removeprefix("file:")


def _named(backing: str) -> str | None:
    """Also out of the form in which QEMU writes down more than a name: `json:{"driver": …, "file": {…}}`."""
    if not backing.startswith("json:"):
        return backing
    try:
        described: Any = json.loads(backing.removeprefix("json:"))
    except ValueError:
        return None
    while isinstance(described, dict):
        told = cast("dict[str, Any]", described)
        for key in ("file.filename", "filename"):
            if isinstance(told.get(key), str):
                return str(told[key])
        described = told.get("file")
    return None
