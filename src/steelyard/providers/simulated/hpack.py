"""HPACK (RFC 7541): the headers of HTTP/2, read from their compressed form, and written in the plainest one. Pure."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

Header = tuple[str, str]

_TABLE_BYTES: Final = 4096
_ENTRY_BYTES: Final = 32
"""That an entry counts for besides its text."""
_MAX_STRING: Final = 1 << 13
_LEAST_CODE, _LONGEST_CODE = 5, 30
_NAMES: Final = (
    "accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control "
    "content-disposition content-encoding content-language content-length content-location content-range "
    "content-type cookie date etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified link location max-forwards proxy-authenticate proxy-authorization range "
    "referer refresh retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary "
    "via www-authenticate"
)
_STATIC: Final[tuple[Header, ...]] = (
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    *((name, "") for name in _NAMES.split()),
)  # fmt: skip
_CODE_LENGTHS: Final = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b08060606"
    "0505050606060606060607080f060c0a0d06070707070707070707070707070707070707070707070807080d130d0e06"
    "0f05060506050606060507070606060506070605050607070707070f0b0e0d1c14161414161616171617171717171817"
    "181816171817171717151617161717181615141616171715171616181516171715151615171617171416161617161617"
    "1a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b14181415161515171616191918181a17"
    "1a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a"
)
"""Of each byte's code in bits. The codes themselves follow: they are in the order of length, then of byte."""


class Corrupt(Exception):
    """The bytes are no headers, or more than anybody needs."""


class Decoder:
    """Of one connection: what it has read is part of how the next is read."""

    def __init__(self) -> None:
        self._recent: deque[Header] = deque()
        self._size = 0
        self._allowed = _TABLE_BYTES

    def headers(self, block: bytes) -> dict[str, str]:
        """Raises Corrupt."""
        found: dict[str, str] = {}
        position = 0
        try:
            while position < len(block):
                position, header = self._next(block, position)
                if header is not None:
                    found[header[0]] = header[1]
        except IndexError:
            raise Corrupt("the headers are cut off") from None
        return found

    def _next(self, block: bytes, position: int) -> tuple[int, Header | None]:
        first = block[position]
        if first & 0x80:
            index, position = _integer(block, position, 7)
            return position, self._at(index)
        if first & 0xE0 == 0x20:
            self._allowed, position = _integer(block, position, 5)
            if self._allowed > _TABLE_BYTES:
                raise Corrupt("the table is to be larger than was offered")
            self._shrink()
            return position, None
        is_remembered = bool(first & 0x40)
        index, position = _integer(block, position, 6 if is_remembered else 4)
        if index:
            name = self._at(index)[0]
        else:
            name, position = _string(block, position)
        value, position = _string(block, position)
        if is_remembered:
            self._recent.appendleft((name, value))
            self._size += _size(name, value)
            self._shrink()
        return position, (name, value)

    def _at(self, index: int) -> Header:
        if 0 < index <= len(_STATIC):
            return _STATIC[index - 1]
        if 0 < index <= len(_STATIC) + len(self._recent):
            return self._recent[index - len(_STATIC) - 1]
        raise Corrupt(f"there is no header {index}")

    def _shrink(self) -> None:
        while self._size > self._allowed:
            self._size -= _size(*self._recent.pop())


def encoded(headers: Iterable[Header]) -> bytes:
    """Each as it stands, neither compressed nor to be remembered."""
    return b"".join(b"\x00" + _plain(name) + _plain(value) for name, value in headers)


def _plain(text: str) -> bytes:
    data = text.encode()
    if len(data) < 0x7F:
        return bytes((len(data),)) + data
    rest, sized = len(data) - 0x7F, bytearray((0x7F,))
    while rest >= 0x80:
        sized.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*sized, rest)) + data


def _size(name: str, value: str) -> int:
    return len(name) + len(value) + _ENTRY_BYTES


def _integer(block: bytes, position: int, bits: int) -> tuple[int, int]:
    limit = (1 << bits) - 1
    value = block[position] & limit
    position += 1
    if value < limit:
        return value, position
    shift = 0
    while True:
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
        if shift > 21:
            raise Corrupt("a number is too large")


def _string(block: bytes, position: int) -> tuple[str, int]:
    is_packed = bool(block[position] & 0x80)
    size, position = _integer(block, position, 7)
    if size > _MAX_STRING or position + size > len(block):
        raise Corrupt("a text is cut off, or too long")
    data = block[position : position + size]
    return (_unpacked(data) if is_packed else data).decode("latin-1"), position + size


@functools.cache
def _codes() -> Mapping[tuple[int, int], int]:
    """By length and code, the byte. Longer ones count on from shorter ones."""
    found: dict[tuple[int, int], int] = {}
    code = 0
    for bits in range(_LEAST_CODE, _LONGEST_CODE + 1):
        for byte in range(256):
            if _CODE_LENGTHS[byte] == bits:
                found[bits, code] = byte
                code += 1
        code <<= 1
    return found


def _unpacked(data: bytes) -> bytes:
    codes, found = _codes(), bytearray()
    code = bits = 0
    for byte in data:
        for shift in range(7, -1, -1):
            code, bits = code << 1 | byte >> shift & 1, bits + 1
            if (known := codes.get((bits, code))) is not None:
                found.append(known)
                code = bits = 0
            elif bits > _LONGEST_CODE:
                raise Corrupt("a text is not packed as it should be")
    return bytes(found)
