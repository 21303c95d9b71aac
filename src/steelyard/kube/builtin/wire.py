"""The wire format of protocol buffers, as far as Kubernetes uses it: varints, lengths, skipping what is not known."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


class Corrupt(Exception):
    """The bytes are not what the message says they should be. `path` names the field, outermost first."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.path: list[str] = []

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.message}" if self.path else self.message


def varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """The number at a position (64 bits, unsigned) and the position after it."""
    if position < end and data[position] < 0x80:
        return data[position], position + 1
    value = shift = 0
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
        if shift > 63:
            raise Corrupt("a number is longer than 64 bits")
    raise Corrupt("unexpected end of data")


def extent(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Start and end of the length-delimited value at a position."""
    length, start = varint(data, position, end)
    if length > end - start:
        raise Corrupt("unexpected end of data")
    return start, start + length


def skip(data: bytes, position: int, end: int, wire_type: int) -> int:
    """The position after a value nobody asked for."""
    if wire_type == VARINT:
        return varint(data, position, end)[1]
    if wire_type == LENGTH:
        return extent(data, position, end)[1]
    if wire_type in (FIXED64, FIXED32):
        after = position + (8 if wire_type == FIXED64 else 4)
        if after > end:
            raise Corrupt("unexpected end of data")
        return after
    raise Corrupt(f"wire type {wire_type} is not used by Kubernetes")


def fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Each field of a small message as (number, varint value, start, end); the value is 0 for what is not a varint."""
    while position < end:
        tag, position = varint(data, position, end)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, position = varint(data, position, end)
            yield number, value, position, position
        elif wire_type == LENGTH:
            start, position = extent(data, position, end)
            yield number, 0, start, position
        else:
            position = skip(data, position, end, wire_type)


def signed64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def signed32(value: int) -> int:
    """Negative numbers of 32 bits travel as 64; like Go, only the low 32 count."""
    value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def double(data: bytes, position: int) -> float:
    return struct.unpack_from("<d", data, position)[0]


def text(data: bytes, start: int, end: int) -> str:
    try:
        return data[start:end].decode()
    except UnicodeDecodeError:
        raise Corrupt("text is not UTF-8") from None
