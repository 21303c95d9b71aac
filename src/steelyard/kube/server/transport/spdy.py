"""SPDY/3.1 as Kubernetes' clients speak it when they forward ports: frames, and the compressed heads of streams. Pure.

Browsers gave it up for HTTP/2 years ago; client-go's port-forward still begins with it. Of the protocol only that is
here which such clients use: they open streams, send data, end them, and ask whether anybody is there. Flow control is
not: they neither keep to it nor expect it.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from steelyard.frozen import frozen

PROTOCOL: Final = "SPDY/3.1"
HEAD_BYTES: Final = 8
MAX_FRAME_BYTES: Final = 1 << 20
"""Of one frame; whoever sends a longer one is shown the door. client-go sends 32 KiB at most."""
MAX_CONTROL_BYTES: Final = 1 << 14
"""Of one that is no data, which is in memory as a whole."""
FIN: Final = 0x01
SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
REFUSED_STREAM: Final = 3
_CONTROL: Final = 0x8000
_VERSION: Final = 3
_MAX_HEADERS: Final = 16
_MAX_HEADERS_BYTES: Final = 1 << 10
"""Of one stream, unpacked: those of a forwarded port have three, and some fifty bytes."""
_NUMBER: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">HHI")
_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status|200 OK|version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


class Broken(Exception):
    """What came is no SPDY, or more of it than anybody needs."""


@frozen
class Frame:
    kind: int
    """0 for data."""
    stream: int
    """0 where it is about the connection."""
    flags: int
    content: bytes

    @property
    def is_last(self) -> bool:
        """Nothing more comes on this stream from there."""
        return bool(self.flags & FIN)


def is_control(head: bytes) -> bool:
    return bool(_HEAD.unpack(head)[0] & _CONTROL)


def length(head: bytes) -> int:
    """Of what follows the first eight bytes of a frame. Raises Broken."""
    found = _HEAD.unpack(head)[2] & 0xFFFFFF
    if found > (MAX_CONTROL_BYTES if is_control(head) else MAX_FRAME_BYTES):
        raise Broken(f"a frame of {found} bytes")
    return found


def frame(head: bytes, content: bytes, rest: int = 0) -> Frame:
    """Of a control frame, `content` is without the number of its stream. Of data it is what has come so far or since;
    `rest` bytes are still to come, and with those the stream may end. Raises Broken."""
    first, second, sized = _HEAD.unpack(head)
    if not first & _CONTROL:
        return Frame(0, (first & 0x7FFF) << 16 | second, 0 if rest else sized >> 24, content)
    if first != _CONTROL | _VERSION:
        raise Broken(f"version {first & 0x7FFF} of SPDY")
    if second not in (SYN_STREAM, SYN_REPLY, RST_STREAM):
        return Frame(second, 0, sized >> 24, content)
    if len(content) < _NUMBER.size:
        raise Broken("a frame without its stream")
    return Frame(second, _NUMBER.unpack_from(content)[0] & 0x7FFFFFFF, sized >> 24, content[_NUMBER.size :])


def data(stream: int, content: bytes, *, last: bool = False) -> bytes:
    return struct.pack(">II", stream, (FIN if last else 0) << 24 | len(content)) + content


def control(kind: int, content: bytes, flags: int = 0) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION, kind, flags << 24 | len(content)) + content


def reset(stream: int, status: int = REFUSED_STREAM) -> bytes:
    return control(RST_STREAM, struct.pack(">II", stream, status))


class Heads:
    """Compression of what streams begin with. It goes on from one to the next, so there is one for a connection."""

    def __init__(self) -> None:
        self._reading = zlib.decompressobj(zdict=_DICTIONARY)
        # There is nothing to compress in a reply: the least memory will do.
        self._writing = zlib.compressobj(wbits=9, memLevel=1, zdict=_DICTIONARY)

    def opened(self, found: Frame) -> dict[str, str]:
        """The headers of a SYN_STREAM, names in lower case. Raises Broken."""
        try:
            plain = self._reading.decompress(found.content[6:], _MAX_HEADERS_BYTES)
        except zlib.error as error:
            raise Broken(f"headers that cannot be decompressed: {error}") from None
        if self._reading.unconsumed_tail:
            raise Broken("headers that are too long")
        return _headers(plain)

    def reply(self, stream: int) -> bytes:
        """That the stream is there, without any header."""
        block = self._writing.compress(_NUMBER.pack(0)) + self._writing.flush(zlib.Z_SYNC_FLUSH)
        return control(SYN_REPLY, _NUMBER.pack(stream) + block)


def _headers(plain: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    position = _NUMBER.size
    try:
        count: int = _NUMBER.unpack_from(plain)[0]
        if count > _MAX_HEADERS:
            raise Broken(f"{count} headers")
        for _ in range(count):
            texts: list[str] = []
            for _ in range(2):
                size = _NUMBER.unpack_from(plain, position)[0]
                position += _NUMBER.size
                if position + size > len(plain):
                    raise Broken("a header that is cut off")
                texts.append(plain[position : position + size].decode("latin-1"))
                position += size
            found[texts[0].lower()] = texts[1]
    except struct.error:
        raise Broken("headers that are cut off") from None
    return found


def _dictionary() -> bytes:
    """That of the protocol: words that headers begin with, each after its length, then text as it comes."""
    words = [word for part in _WORDS.split("|") for word in ([part] if part == "200 OK" else part.split(" "))]
    return b"".join(_NUMBER.pack(len(word)) + word.encode() for word in words) + _REST.encode()


_DICTIONARY: Final = _dictionary()
