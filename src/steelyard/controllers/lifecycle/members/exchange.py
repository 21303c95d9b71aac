"""Questions to one etcd member, over a connection that somebody opened: HTTP with JSON, as etcd's gateway speaks it.

Every question has a deadline, and every answer a largest size: whoever holds the keys of a cluster's etcd could answer
for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import httptools
import orjson

from steelyard.controllers.lifecycle.members import saying
from steelyard.controllers.lifecycle.members.saying import Member, Status, Unintelligible
from steelyard.kube import objects
from steelyard.kube.objects import Object

ANSWER_SECONDS: Final = 5.0
_LARGEST_ANSWER: Final = 1 << 20
_CHUNK: Final = 1 << 16
_SHOWN: Final = 300
_ALREADY_GONE: Final = ("member not found", "permanently removed")

T = TypeVar("T")


class Unreachable(Exception):
    """No answer that could be used; the message says from where, and why."""

    def __init__(self, message: str, *, is_nobody: bool = False) -> None:
        """`is_nobody`: nothing there is this cluster's etcd, rather than that it is slow to answer."""
        super().__init__(message)
        self.is_nobody = is_nobody


class Refused(Exception):
    """etcd answered that it will not do it; the message is what it said."""


class Conversation:
    """With one member. It knows `where`, in words, for what it has to complain about."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, where: str) -> None:
        self._reader = reader
        self._writer = writer
        self._where = where

    async def status(self) -> Status:
        return await self._understood(saying.status, "/v3/maintenance/status", {})

    async def members(self) -> tuple[Member, ...]:
        """As a majority knows them. Fails where there is none."""
        return await self._understood(saying.members, "/v3/cluster/member/list", {"linearizable": True})

    async def alarms(self) -> Mapping[int, tuple[str, ...]]:
        return await self._understood(saying.alarms, "/v3/maintenance/alarm", {"action": "GET"})

    async def move_leader(self, to: Member) -> None:
        """To be asked of the leader only. It answers when the other leads."""
        await self._ask("/v3/maintenance/transfer-leadership", {"targetID": str(to.id)})

    async def remove(self, member: Member) -> None:
        """Again: nothing happens."""
        try:
            answer = await self._ask("/v3/cluster/member/remove", {"ID": str(member.id)})
        except Refused as refusal:
            if any(words in str(refusal) for words in _ALREADY_GONE):
                return
            raise
        if any(each.id == member.id for each in self._read(saying.members, answer)):
            raise Refused(f"{self._where} answered that etcd member {member} is removed, but still lists it")

    async def _understood(self, read: Callable[[Object], T], path: str, body: Object) -> T:
        return self._read(read, await self._ask(path, body))

    def _read(self, read: Callable[[Object], T], answer: Object) -> T:
        try:
            return read(answer)
        except Unintelligible as error:
            raise Unreachable(f"what answers at {self._where} is no etcd: {error}") from error

    async def _ask(self, path: str, body: Object) -> Object:
        content = orjson.dumps(body)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: etcd\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self._writer.write(head.encode() + content)
                await self._writer.drain()
                status, answered = await self._answer()
        except TimeoutError:
            raise Unreachable(f"{self._where} has not answered within {ANSWER_SECONDS:g} s") from None
        except (OSError, EOFError, httptools.HttpParserError) as error:
            raise Unreachable(f"{self._where} did not answer: {why(error)}") from error
        try:
            answer = objects.mapping(orjson.loads(answered))
        except orjson.JSONDecodeError:
            answer = {"message": answered[:_SHOWN].decode(errors="replace").strip()}
            status = status if status != 200 else 0
        if status != 200:
            raise Refused(f"{self._where} answered: {str(answer.get('message') or status)[:_SHOWN]}")
        return answer

    async def _answer(self) -> tuple[int, bytes]:
        collected = _Answer()
        parser = httptools.HttpResponseParser(collected)
        received = 0
        while not collected.is_complete:
            chunk = await self._reader.read(_CHUNK)
            received += len(chunk)
            if not chunk:
                raise EOFError("the connection was closed")
            if received > _LARGEST_ANSWER:
                raise EOFError(f"its answer is longer than {_LARGEST_ANSWER >> 20} MiB")
            parser.feed_data(chunk)
        return parser.get_status_code(), b"".join(collected.parts)

    async def close(self) -> None:
        """At once: nothing is left to be said, and the other end may never answer."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class _Answer:
    """What the parser calls."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.is_complete = False

    def on_body(self, body: bytes) -> None:
        self.parts.append(body)

    def on_message_complete(self) -> None:
        self.is_complete = True


def why(error: BaseException) -> str:
    """In words, where the library has none."""
    return str(error) or type(error).__name__
