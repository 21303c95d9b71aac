"""Attacks by connections: silent, slow, unfinished or unread. They cost their sender next to nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import orjson

from tests.soak.hostile.attack import Assault, Attack, Knob, Who, numbers
from tests.soak.hostile.field import JSON, THEIRS, config_map, config_maps
from tests.soak.hostile.wire import Ended, Line, Silence

_HELLO: Final = bytes.fromhex("160301020001 0001fc0303")
"""How a TLS handshake begins; the rest of it is awaited."""
_COLLECTION: Final = config_maps(THEIRS)
_OPEN_SECONDS: Final = 5.0
_DRIP_SECONDS: Final = 0.25
_VERBS: Final = (f"POST {_COLLECTION}", f"GET {_COLLECTION}", f"DELETE {_COLLECTION}/a")
_COUNT: Final = Knob(600, 1, 1500)


async def _silent(assault: Assault, said: bytes) -> None:
    async def one() -> None:
        silence = Silence(assault.identity, said)
        assault.kept.append(silence)
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                await silence.open()
            assault.answers["connected"] += 1
        except (Ended, TimeoutError):
            assault.answers["no connection"] += 1

    await assault.open_many(assault.number("connections"), one)


async def _open_tcp(assault: Assault) -> None:
    await _silent(assault, b"")


async def _open_half(assault: Assault) -> None:
    await _silent(assault, _HELLO)


async def _open_tls(assault: Assault) -> None:
    async def one() -> None:
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                if await assault.open() is not None:
                    assault.answers["connected"] += 1
        except TimeoutError:
            assault.answers["no connection"] += 1

    await assault.open_many(assault.number("connections"), one)


async def _say(assault: Assault, first: bytes, again: bytes = b"") -> None:
    """One thing on each open connection, and then now and then another."""
    lines = [each for each in assault.kept if isinstance(each, Line)]
    for line in lines:
        line.send(first)
    while again and time.monotonic() < assault.deadline:
        await asyncio.sleep(_DRIP_SECONDS)
        for line in lines:
            line.send(again)
    await assault.until_over()
    assault.answers["closed by the server"] += sum(1 for line in lines if line.is_closed)


async def _nothing(assault: Assault) -> None:
    await _say(assault, b"")


async def _slow_heads(assault: Assault) -> None:
    await _say(assault, assault.identity.head("GET", "/version"), b"a: b\r\n")


async def _idle(assault: Assault) -> None:
    await _say(assault, assault.identity.request("GET", "/version"))


async def _unfinished(assault: Assault) -> None:
    """Requests that are let in, and then wait for a body that does not come."""
    method, path = assault.word("verb").split(" ")
    size = f"Content-Length: {assault.number('size')}"
    head = assault.identity.head(method, path, f"Content-Type: {JSON}", size)
    await _say(assault, head + b'\r\n{"apiVersion":', b" " if assault.number("drip") else b"")


async def _dribble(assault: Assault) -> None:
    """A body in pieces of one byte, each in a record of its own."""
    body = orjson.dumps(config_map(f"{assault.tag}-dribble", data={"text": "x" * assault.number("size")}))
    head = assault.identity.head("POST", _COLLECTION, f"Content-Type: {JSON}", f"Content-Length: {len(body)}")

    async def one() -> None:
        line = await assault.open()
        if line is None:
            return
        line.send(head + b"\r\n")
        for at in range(len(body)):
            line.send(body[at : at + 1])
            if at % 64 == 0:
                await asyncio.sleep(0)
                if time.monotonic() > assault.deadline or line.is_closed:
                    return
        assault.answers["sent"] += 1

    await asyncio.gather(*(one() for _ in range(assault.number("at_once"))))


async def _handshakes(assault: Assault) -> None:
    """A new connection each time, and nothing more."""

    async def one() -> None:
        while time.monotonic() < assault.deadline:
            try:
                line = await Line.open(assault.identity)
            except Ended:
                assault.answers["no connection"] += 1
                await asyncio.sleep(0.05)
                continue
            line.close()
            assault.answers["connected"] += 1

    await asyncio.gather(*(one() for _ in range(assault.number("at_once"))))


async def _unread(assault: Assault) -> None:
    """Large answers are asked for and never read."""
    request = assault.identity.request("GET", assault.word("path"))
    for line in assault.kept:
        if isinstance(line, Line):
            line.stop_reading()
            line.send(request * assault.number("ahead"))
    await assault.until_over()


async def _open_watches(assault: Assault) -> None:
    watch = assault.identity.request("GET", f"{_COLLECTION}?watch=1&fieldSelector=metadata.name%3D{assault.tag}")

    async def one() -> None:
        line = await assault.open()
        if line is not None:
            line.send(watch)
            await asyncio.sleep(0.02)
            line.stop_reading()

    await assault.open_many(assault.number("watchers"), one)


async def _write_to_watchers(assault: Assault) -> None:
    """Each write is for all of the watchers, none of which reads it."""
    line = await Line.open(assault.identity)
    assault.kept.append(line)
    text = "x" * assault.number("size")
    await assault.ask(line, assault.identity.request("POST", _COLLECTION, _numbered(assault.tag, text, 0)))
    path = f"{_COLLECTION}/{assault.tag}"
    for number in range(1, assault.number("writes")):
        if line.is_closed:
            return
        await assault.ask(line, assault.identity.request("PUT", path, _numbered(assault.tag, text, number)))


def _numbered(name: str, text: str, number: int) -> bytes:
    return orjson.dumps(config_map(name, data={"number": str(number), "text": text}))


def _narrow(
    name: str, opened: Callable[[Assault], Awaitable[None]], work: Callable[[Assault], Awaitable[None]] = _nothing
) -> Attack:
    return Attack(name, Who.STRANGER, work, {"connections": _COUNT}, opened, needs_few_descriptors=True)


ATTACKS: Final = (
    _narrow("silent connections", _open_tcp),
    _narrow("half handshakes", _open_half),
    _narrow("silent TLS connections", _open_tls),
    _narrow("slow heads", _open_tls, _slow_heads),
    _narrow("idle connections", _open_tls, _idle),
    Attack("handshakes", Who.STRANGER, _handshakes, numbers(8)),
    Attack(
        "unfinished bodies",
        Who.USER,
        _unfinished,
        {
            "connections": Knob(210, 1, 500),
            "size": Knob(100_000, 20, 3_000_000),
            "drip": Knob(1, 0, 1),
            "verb": Knob(_VERBS[0], words=_VERBS),
        },
        _open_tls,
    ),
    Attack("dribbled bodies", Who.USER, _dribble, {"size": Knob(20_000, 100, 200_000), "at_once": Knob(4, 1, 32)}),
    Attack(
        "unread lists",
        Who.USER,
        _unread,
        {
            "connections": Knob(40, 1, 200),
            "ahead": Knob(3, 1, 50),
            "path": Knob(_COLLECTION, words=(_COLLECTION, "/openapi/v2", f"{_COLLECTION}?watch=1")),
        },
        _open_tls,
    ),
    Attack(
        "1,000 watchers that do not read",
        Who.USER,
        _write_to_watchers,
        {"watchers": Knob(1000, 1, 1500), "size": Knob(900_000, 100, 1_000_000), "writes": Knob(7, 1, 40)},
        _open_watches,
    ),
)  # fmt: skip
