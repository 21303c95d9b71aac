"""Redis' protocol, as far as the provider speaks it: commands out, answers in, on one connection for each server.

Its own instead of a library's: the platform keeps one silent connection to each of its servers and sends a handful of
commands, all in one write (docs/decisions/0019-redis-processes.md). Every exchange has a deadline; a connection that
missed one is of no use any more, as a late answer would be taken for that of another command.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

Answer: TypeAlias = Any
"""Text, a number, None, a list of answers, or a `Refused` where the server refused."""

CONNECT_DEADLINE: Final = 3.0
DEADLINE: Final = 15.0
"""Longer than the five seconds after which a server that runs somebody's script says so."""
_LONGEST: Final = 4 << 20


class Refused(Exception):
    """The server answered with an error: `NOPERM ...`, `LOADING ...`."""

    @property
    def word(self) -> str:
        return str(self).partition(" ")[0]


class Unreachable(Exception):
    """Nobody answers there, or not in time, or not as Redis does."""


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, host: str, port: int, user: str, password: str) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_DEADLINE):
                connection = cls(*await asyncio.open_connection(host, port, limit=_LONGEST))
        except (OSError, TimeoutError) as error:
            raise Unreachable(f"{host}:{port}: {_said(error)}") from error
        try:
            await connection.call("AUTH", user, password)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_usable(self) -> bool:
        return not self._writer.is_closing() and not self._reader.at_eof()

    async def call(self, *command: str) -> Answer:
        """Raises `Refused` where the server does."""
        (answer,) = await self.all([command])
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def all(self, commands: Sequence[Sequence[str]], deadline: float = 0.0) -> list[Answer]:
        """Everything in one write; what the server refuses is a `Refused` among the answers."""
        async with self._turn:
            try:
                async with asyncio.timeout(deadline or DEADLINE):
                    self._writer.write(b"".join(map(encoded, commands)))
                    await self._writer.drain()
                    return [await self._answer() for _ in commands]
            except (OSError, EOFError, ValueError, TimeoutError) as error:
                self.close()
                raise Unreachable(_said(error)) from error
            except asyncio.CancelledError:
                self.close()
                raise

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._writer.close()

    async def _answer(self) -> Answer:
        line = await self._reader.readuntil(b"\r\n")
        kind, rest = line[:1], line[1:-2]
        match kind:
            case b"+":
                return _text(rest)
            case b"-":
                return Refused(_text(rest))
            case b":":
                return int(rest)
            case b"$":
                size = int(rest)
                return None if size < 0 else _text((await self._reader.readexactly(_bounded(size) + 2))[:-2])
            case b"*":
                return None if int(rest) < 0 else [await self._answer() for _ in range(_bounded(int(rest)))]
            case _:
                raise ValueError(f"an answer that begins with {kind!r}")


def encoded(command: Sequence[str]) -> bytes:
    """
    >>> encoded(["PING"])
    b'*1\\r\\n$4\\r\\nPING\\r\\n'
    """
    parts = [each.encode() for each in command]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(each), each) for each in parts)


def pairs(answer: Answer) -> Mapping[str, str]:
    """What CONFIG GET answers."""
    items = cast("list[str]", answer) if isinstance(answer, list) else []
    return dict(zip(items[::2], items[1::2], strict=False))


def fields(answer: Answer) -> Mapping[str, str]:
    """What INFO answers: `name:value` in lines."""
    lines = answer.splitlines() if isinstance(answer, str) else []
    return {name: value for name, _, value in (line.partition(":") for line in lines) if value}


def _bounded(size: int) -> int:
    if size > _LONGEST:
        raise ValueError(f"an answer of {size} bytes")
    return size


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _said(error: BaseException) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else (getattr(error, "strerror", "") or str(error))
