"""What is decided about servers without any: who leads, which password is good, what is written where."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from steelyard.api.redisserver import Rotation
from steelyard.kube import moments
from steelyard.providers.redis import configuration, program, replication, wire
from steelyard.providers.redis.accounts import Passwords
from steelyard.providers.redis.configuration import Limits, Role
from steelyard.providers.redis.credentials import Credentials
from steelyard.providers.redis.folders import Folders
from steelyard.providers.redis.ports import Ports
from steelyard.providers.redis.program import NoProgram, Runner
from steelyard.providers.redis.replication import Seen
from steelyard.providers.redis.wire import Connection, Refused, Unreachable


def replica(ordinal: int, offset: int, history: str = "h", *, copying: bool = False, primary: bool = False) -> Seen:
    return Seen(ordinal, primary, history, offset, is_copying=copying)


@pytest.mark.parametrize(
    ("alive", "heir"),
    [
        pytest.param([replica(1, 10), replica(2, 12)], 2, id="the furthest"),
        pytest.param([replica(1, 12), replica(2, 12)], 1, id="the first of equals"),
        pytest.param([replica(1, 10), replica(2, 99, "other")], 1, id="another history does not count"),
        pytest.param([replica(1, 10), replica(2, 99, copying=True)], 1, id="one that is still copying does not count"),
        pytest.param([replica(1, 0, "own")], None, id="one that never followed"),
        pytest.param([replica(1, 5, primary=True)], None, id="one that leads by itself"),
        pytest.param([], None, id="nobody"),
    ],
)
def test_who_has_the_most_takes_the_place_of_a_lost_primary(alive: list[Seen], heir: int | None) -> None:
    assert replication.heir(0, "h", alive) == heir


def test_nobody_takes_the_place_of_one_whose_history_is_not_known() -> None:
    assert replication.heir(0, "", [replica(1, 10, "")]) is None


NOW = moments.seconds("2026-01-01T00:00:00Z")
FRESH = Credentials("u", "one", "admin", rotated_at=moments.text(NOW))


def steps(credentials: Credentials, rotation: Rotation, now: float = NOW) -> list[tuple[str, ...]]:
    """The passwords that are accepted after each step that is due."""
    found: list[tuple[str, ...]] = []
    while (following := credentials.step(rotation, now)) is not None:
        credentials = following
        found.append(credentials.passwords.application)
        assert len(found) < 10
    return found


def test_a_new_password_is_accepted_before_it_is_given_out_and_the_old_one_after() -> None:
    rotation = Rotation(trigger="a", overlap="1h")
    adding = FRESH.step(rotation, NOW)
    assert adding is not None
    assert (adding.password, adding.passwords.application) == ("one", ("one", adding.next))
    switched = adding.step(rotation, NOW)
    assert switched is not None
    assert (switched.password, switched.previous, switched.next) == (adding.next, "one", "")
    assert switched.step(rotation, NOW + 3599) is None
    ended = switched.step(rotation, NOW + 3600)
    assert ended is not None
    assert ended.passwords.application == (adding.next,)
    assert ended.step(rotation, NOW + 1e9) is None, "the same word asks once"


@pytest.mark.parametrize(
    ("rotation", "later", "count"),
    [
        pytest.param(Rotation(overlap="1h"), 1e9, 0, id="never by itself"),
        pytest.param(Rotation(every="24h", overlap="1h"), 86399, 0, id="not yet"),
        pytest.param(Rotation(every="24h", overlap="1h"), 86400, 2, id="on time"),
        pytest.param(Rotation(every="0s", overlap="0s"), 60, 3, id="no more often than every minute"),
        pytest.param(Rotation(trigger="", overlap="1h"), 0, 0, id="an empty word asks for nothing"),
    ],
)
def test_a_password_is_another_when_it_is_time(rotation: Rotation, later: float, count: int) -> None:
    assert len(steps(FRESH, rotation, NOW + later)) == count


def test_no_password_is_in_a_configuration_except_for_the_replicas_own() -> None:
    passwords = Passwords(("first", "second"), "administrators")
    text = configuration.text(Role(1, 0), 20000, Limits(1 << 30, 75, "noeviction"), "app", passwords)

    assert not any(word in text for word in ("first", "second", "administrators"))
    assert f"masterauth {passwords.replica}\n" in text
    assert "bind 127.0.82.2\n" in text
    assert "replicaof 127.0.82.1 20000\n" in text
    leading = configuration.text(Role(1, 1), 20000, Limits(1 << 30, 75, "noeviction"), "app", passwords)
    assert "bind 127.0.82.2 127.0.0.1\n" in leading
    assert "replicaof" not in leading


def test_no_two_caches_have_the_same_port_and_none_has_a_strangers() -> None:
    taken: set[int] = set()
    ports = Ports(lambda port: port in taken)
    first = ports.give("a")
    assert ports.keep("a", first)
    assert not ports.keep("b", first)
    ports.release("a")
    taken.add(first)
    assert ports.give("a") != first


def test_a_program_that_the_runner_cannot_reach_is_copied_beside_the_servers(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    original = closed / "redis-server"
    text = b"#!/bin/sh\necho Redis server v=7.0.15 sha=0\n"
    original.write_bytes(text)
    original.chmod(0o755)
    runner = Runner("nobody", 65534, 65534)

    copy = program.reachable(original, tmp_path / "bin", runner)
    assert (copy, copy.read_bytes()) == (tmp_path / "bin" / "redis-server-7.0.15", text)
    assert program.reachable(original, tmp_path / "bin", None) == original


def test_too_old_a_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho Redis server v=5.0.7 sha=0\n")
    old.chmod(0o755)
    monkeypatch.setattr(program, "candidates", lambda: [(old, "of this host")])
    with pytest.raises(NoProgram, match=r"of version 6.2 or later .*redis-server is of version 5.0.7"):
        program.find()


def test_directories_that_are_put_aside_are_kept(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.of("u-1", 0).prepare("port 1\n", None)
    (folders.of("u-1", 0).directory / "appendonly.aof").write_text("data")
    folders.put_aside("u-1", "name.u-1")
    assert (tmp_path / "orphaned" / "name.u-1" / "0" / "appendonly.aof").read_text() == "data"
    assert folders.ordinals("u-1") == []


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (b"+OK\r\n", "OK"),
        (b":42\r\n", 42),
        (b"$-1\r\n", None),
        (b"$5\r\nhe\r\nl\r\n", "he\r\nl"),
        (b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", ["a", [1]]),
    ],
    ids=["text", "number", "nothing", "lines in a text", "lists"],
)
async def test_answers_are_read(answer: bytes, read: object) -> None:
    async with answering(b"+OK\r\n" + answer) as port:
        connection = await Connection.open("127.0.0.1", port, "u", "p")
        assert await connection.call("X") == read
        connection.close()


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$99999999999\r\n", b"", b"$5\r\nab"],
    ids=["HTTP", "huge", "none", "cut"],
)
async def test_who_does_not_answer_as_redis_does_is_not_taken_for_one(answer: bytes) -> None:
    async with answering(answer) as port:
        with pytest.raises(Unreachable):
            await Connection.open("127.0.0.1", port, "u", "p")


async def test_a_refusal_is_told_apart_by_its_word() -> None:
    async with answering(b"-LOADING Redis is loading\r\n") as port:
        with pytest.raises(Refused) as caught:
            await Connection.open("127.0.0.1", port, "u", "p")
    assert caught.value.word == "LOADING"


def test_what_a_server_says_of_itself_is_understood() -> None:
    lines = (
        "# Replication\r\nrole:master\r\nslave0:ip=1,port=2,state=online,offset=3\r\nslave1:ip=1,state=wait_bgsave\r\n"
    )
    seen = replication.seen(0, wire.fields(lines + "master_replid:h\r\nmaster_repl_offset:7\r\n"))
    assert (seen.is_primary, seen.online, seen.history, seen.offset) == (True, 1, "h", 7)


class answering:  # noqa: N801 (used as a function is)
    """A server that says this to whoever connects, and ends."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._answering: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> int:
        async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._answering.append(cast("asyncio.Task[None]", asyncio.current_task()))
            writer.write(self._data)
            writer.write_eof()
            await reader.read()
            writer.close()
            await writer.wait_closed()

        self._server = await asyncio.start_server(say, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def __aexit__(self, *_: object) -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(*self._answering)
        self._server.close()
        await self._server.wait_closed()
