"""A disk image in the format of CDs, with a few files in its root directory.

Every Linux reads it, and blkid finds it by its label. Names are kept as they are in the Joliet half; a kernel that
knows only the other half shows them in lower case, which ours are. The same files give the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

SECTOR: Final = 2048
_DESCRIPTORS: Final = 16
"""The sector of the first; what is before it is nobody's."""
_PATHS, _JOLIET_PATHS = 19, 21
_ROOT, _JOLIET_ROOT, _FIRST_FILE = 23, 24, 25
_DATE: Final = bytes((80, 1, 1, 0, 0, 0, 0))
_LONG_DATE: Final = b"0" * 16 + b"\0"
_JOLIET_LEVEL_3: Final = b"%/E"
_DIRECTORY: Final = 2
_PATH_TABLE_SIZE: Final = 10


def image(label: str, files: Mapping[str, bytes], *, at_least: int = 0) -> bytes:
    """`at_least` bytes: zeros make up for what is missing.

    File names must be lower case, without dots, and short enough for the root directory to fit into a sector.
    """
    placed: dict[str, tuple[int, int]] = {}
    content: list[bytes] = []
    sector = _FIRST_FILE
    for name, data in sorted(files.items()):
        placed[name] = (sector, len(data))
        content.append(_padded(data))
        sector += len(content[-1]) // SECTOR
    size = max(sector, -(-at_least // SECTOR))
    head = [
        bytes(SECTOR * _DESCRIPTORS),
        _descriptor(1, label, size, _PATHS, _ROOT, is_joliet=False),
        _descriptor(2, label, size, _JOLIET_PATHS, _JOLIET_ROOT, is_joliet=True),
        _padded(b"\xffCD001\x01"),
        _padded(struct.pack("<BBIH2x", 1, 0, _ROOT, 1)),
        _padded(struct.pack(">BBIH2x", 1, 0, _ROOT, 1)),
        _padded(struct.pack("<BBIH2x", 1, 0, _JOLIET_ROOT, 1)),
        _padded(struct.pack(">BBIH2x", 1, 0, _JOLIET_ROOT, 1)),
        _directory(_ROOT, {f"{name.upper()}.;1".encode(): place for name, place in placed.items()}),
        _directory(_JOLIET_ROOT, {name.encode("utf-16-be"): place for name, place in placed.items()}),
    ]
    made = b"".join((*head, *content))
    return made.ljust(max(size * SECTOR, at_least), b"\0")


def _padded(data: bytes) -> bytes:
    return data.ljust(-(-len(data) // SECTOR) * SECTOR, b"\0")


def _both16(number: int) -> bytes:
    return struct.pack("<H", number) + struct.pack(">H", number)


def _both32(number: int) -> bytes:
    return struct.pack("<I", number) + struct.pack(">I", number)


def _directory(sector: int, files: Mapping[bytes, tuple[int, int]]) -> bytes:
    own = [_record(b"\0", sector, SECTOR, _DIRECTORY), _record(b"\1", sector, SECTOR, _DIRECTORY)]
    made = b"".join((*own, *(_record(name, start, size, 0) for name, (start, size) in sorted(files.items()))))
    if len(made) > SECTOR:
        raise ValueError("too many files for one sector")
    return _padded(made)


def _record(name: bytes, sector: int, size: int, flags: int) -> bytes:
    body = _both32(sector) + _both32(size) + _DATE + bytes((flags, 0, 0)) + _both16(1) + bytes((len(name),)) + name
    if len(name) % 2 == 0:
        body += b"\0"
    return bytes((len(body) + 2, 0)) + body


def _descriptor(kind: int, label: str, size: int, paths: int, root: int, *, is_joliet: bool) -> bytes:
    def text(value: str, length: int) -> bytes:
        if is_joliet:
            return (value.encode("utf-16-be") + b"\0 " * length)[: length - length % 2].ljust(length, b"\0")
        return value.encode("ascii").ljust(length)

    made = b"".join(
        (
            bytes((kind,)) + b"CD001\x01\0",
            text("LINUX", 32),
            text(label, 32),
            bytes(8),
            _both32(size),
            _JOLIET_LEVEL_3.ljust(32, b"\0") if is_joliet else bytes(32),
            _both16(1),
            _both16(1),
            _both16(SECTOR),
            _both32(_PATH_TABLE_SIZE),
            struct.pack("<II", paths, 0),
            struct.pack(">II", paths + 1, 0),
            _record(b"\0", root, SECTOR, _DIRECTORY),
            text("", 128) * 4,
            text("", 37) * 3,
            _LONG_DATE * 4,
            b"\x01\0",
        )
    )
    return _padded(made)
