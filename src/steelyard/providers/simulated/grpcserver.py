"""As much of HTTP/2 and gRPC as a member of etcd needs who answers small questions at once: each call has one message,
and gets one back.

Why not a library: the one for gRPC is 12 MB, brings threads of its own, and takes no connection that is there already.
A connection is answered in the order in which calls are complete; whoever sends more than a question, or nothing, is
shown the door.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.providers.simulated import hpack
from steelyard.providers.simulated.hpack import Header

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_BYTES: Final = 1 << 14
_MAX_CALLS: Final = 16
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
_HEAD_BYTES: Final = 9
_MESSAGE_HEAD: Final = struct.Struct(">BI")
_FIRST_WINDOW: Final = (1 << 16) - 1
_BEGINNING: Final[tuple[Header, ...]] = ((":status", "200"), ("content-type", "application/grpc"))


@frozen
class Reply:
    message: bytes = b""
    code: int = 0
    """gRPC's; 0 where all is well."""
    why: str = ""


Answering: TypeAlias = Callable[[str, bytes], Awaitable[Reply]]
"""Given the call's path and its message."""


class Misspoken(Exception):
    """What came is no gRPC, or too much of it."""


class _Call:
    def __init__(self, path: str) -> None:
        self.path = path
        self.body = bytearray()


class Conversation:
    """One connection. `run` ends with an OSError, EOFError, TimeoutError or Misspoken, as connections do."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answering: Answering, silence: float
    ) -> None:
        """`silence` is how many seconds the other side may take for a frame."""
        self._reader = reader
        self._writer = writer
        self._answering = answering
        self._silence = silence
        self._decoder = hpack.Decoder()
        self._calls: dict[int, _Call] = {}
        self._window = _FIRST_WINDOW
        """What may still be sent before the other side says that it has read."""

    async def run(self) -> None:
        async with asyncio.timeout(self._silence):
            if await self._reader.readexactly(len(PREFACE)) != PREFACE:
                raise Misspoken("no HTTP/2")
        self._send(_SETTINGS, 0, 0, b"")
        while True:
            kind, flags, stream, content = await self._frame()
            if kind == _HEADERS:
                await self._begun(stream, flags, content)
            elif kind == _DATA:
                await self._received(stream, flags, content)
            elif kind == _RESET:
                self._calls.pop(stream, None)
            elif kind == _SETTINGS and not flags & _ACK:
                self._send(_SETTINGS, _ACK, 0, b"")
            elif kind == _PING and not flags & _ACK:
                self._send(_PING, _ACK, 0, content)
            elif kind == _WINDOW and stream == 0 and len(content) == 4:
                self._window += int.from_bytes(content) & 0x7FFFFFFF
            elif kind == _GOAWAY:
                raise EOFError
            await self._writer.drain()

    async def _frame(self) -> tuple[int, int, int, bytes]:
        async with asyncio.timeout(self._silence):
            head = await self._reader.readexactly(_HEAD_BYTES)
            length = int.from_bytes(head[:3])
            if length > MAX_FRAME_BYTES:
                raise Misspoken(f"a frame of {length} bytes")
            return head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF, await self._reader.readexactly(length)

    async def _begun(self, stream: int, flags: int, content: bytes) -> None:
        block = _unpadded(content, flags)
        if flags & _PRIORITY:
            block = block[5:]
        is_whole = bool(flags & _END_HEADERS)
        while not is_whole:
            kind, more, continued, content = await self._frame()
            block += content
            if kind != _CONTINUATION or continued != stream or len(block) > MAX_FRAME_BYTES:
                raise Misspoken("headers that do not end")
            is_whole = bool(more & _END_HEADERS)
        try:
            headers = self._decoder.headers(block)
        except hpack.Corrupt as error:
            raise Misspoken(str(error)) from None
        if len(self._calls) >= _MAX_CALLS:
            raise Misspoken("too many calls at once")
        self._calls.setdefault(stream, _Call(headers.get(":path", "")))
        if flags & _END_STREAM:
            await self._complete(stream)

    async def _received(self, stream: int, flags: int, content: bytes) -> None:
        if content:
            self._send(_WINDOW, 0, 0, len(content).to_bytes(4))
        call = self._calls.get(stream)
        if call is None:
            return
        call.body += _unpadded(content, flags)
        if len(call.body) > MAX_FRAME_BYTES:
            raise Misspoken("a message that is too long")
        if flags & _END_STREAM:
            await self._complete(stream)

    async def _complete(self, stream: int) -> None:
        call = self._calls.pop(stream)
        if len(call.body) < _MESSAGE_HEAD.size:
            raise Misspoken("a call without a message")
        is_packed, length = _MESSAGE_HEAD.unpack_from(call.body)
        if is_packed or length != len(call.body) - _MESSAGE_HEAD.size:
            raise Misspoken("not one plain message")
        reply = await self._answering(call.path, bytes(call.body[_MESSAGE_HEAD.size :]))
        if reply.code:
            ending = (*_BEGINNING, ("grpc-status", str(reply.code)), ("grpc-message", reply.why))
            self._send(_HEADERS, _END_HEADERS | _END_STREAM, stream, hpack.encoded(ending))
            return
        message = _MESSAGE_HEAD.pack(0, len(reply.message)) + reply.message
        self._window -= len(message)
        if self._window < 0 or len(message) > MAX_FRAME_BYTES:
            raise Misspoken("the other side does not read")
        self._send(_HEADERS, _END_HEADERS, stream, hpack.encoded(_BEGINNING))
        self._send(_DATA, 0, stream, message)
        self._send(_HEADERS, _END_HEADERS | _END_STREAM, stream, hpack.encoded((("grpc-status", "0"),)))

    def _send(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        head = len(content).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4)
        self._writer.write(head + content)


def _unpadded(content: bytes, flags: int) -> bytes:
    if not flags & _PADDED:
        return content
    if not content or content[0] >= len(content):
        raise Misspoken("more padding than frame")
    return content[1 : len(content) - content[0]]
