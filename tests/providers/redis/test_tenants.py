"""An application that tries to leave its cache: everything that concerns the server or anybody else is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from steelyard.providers.redis.program import Program
from steelyard.providers.redis.wire import Connection, Refused
from tests import inprocess
from tests.providers.redis import caches
from tests.providers.redis.caches import Cache

REFUSED = (
    "CONFIG GET *",
    "CONFIG SET dir /tmp",
    "CONFIG REWRITE",
    "ACL LIST",
    "ACL GETUSER steelyard",
    "ACL SETUSER mallory on nopass +@all",
    "ACL LOG",
    "DEBUG SLEEP 0",
    "DEBUG RELOAD",
    "SHUTDOWN NOSAVE",
    "REPLICAOF 127.0.0.1 1",
    "SLAVEOF NO ONE",
    "FAILOVER",
    "MODULE LIST",
    "MODULE LOAD /tmp/x.so",
    "SAVE",
    "BGSAVE",
    "BGREWRITEAOF",
    "MONITOR",
    "PSYNC ? -1",
    "SYNC",
    "REPLCONF listening-port 1",
    "CLIENT LIST",
    "CLIENT KILL TYPE normal",
    "CLIENT PAUSE 1000",
    "CLIENT NO-EVICT on",
    "CLUSTER INFO",
    "CLUSTER MEET 127.0.0.1 1",
    "SLOWLOG GET",
    "LATENCY DOCTOR",
    "MIGRATE 127.0.0.1 1 key 0 10",
    "RESTORE key 0 payload",
    "SCRIPT DEBUG YES",
    "PFDEBUG GETREG key",
)
GRANTED = (
    "PING",
    "SET key value",
    "GET key",
    "KEYS *",
    "SCAN 0",
    "INFO server",
    "CLIENT SETNAME app",
    "CLIENT ID",
    "ACL WHOAMI",
    "MEMORY USAGE key",
    "PUBLISH channel message",
    "EXPIRE key 100",
    "SCRIPT FLUSH",
    "FLUSHDB",
    "SELECT 1",
)
SCRIPTS = (
    "return redis.call('CONFIG', 'GET', '*')",
    "return redis.call('ACL', 'LIST')",
    "return redis.call('REPLICAOF', 'NO', 'ONE')",
    "return redis.call('SHUTDOWN')",
    "return os.execute('id')",
    "return io.open('/etc/passwd'):read()",
    "return loadfile('/etc/passwd')",
    "return require('os')",
    "return package.loadlib('/tmp/x.so', 'x')",
    "leaked = 1",
)


async def test_a_tenant_does_not_get_out_of_its_cache(tmp_path: Path, each_program: Program) -> None:
    async with inprocess.platform(tmp_path) as client:
        await asyncio.gather(*(inprocess.becomes_ready(client, caches.claim(name)) for name in ("shop", "theirs")))
        own, other = Cache(client, tmp_path, "shop"), Cache(client, tmp_path, "theirs")
        tenant = await own.connect()
        for command in GRANTED:
            await tenant.call(*command.split())
        for command in REFUSED:
            with pytest.raises(Refused, match=r"NOPERM|not allowed|unknown"):
                await tenant.call(*command.split())
        for script in SCRIPTS:
            with pytest.raises(Refused):
                await tenant.call("EVAL", script, "0")
        assert (await tenant.call("ROLE"))[0] == "master"
        await assert_closed(own, other)
        await assert_full(own, tenant)
        tenant.close()


async def assert_closed(own: Cache, other: Cache) -> None:
    """Neither a password of one's own nor none opens another's, or the platform's accounts."""
    mine, theirs = await own.secret(), await other.secret()
    for user, password in (
        (mine["username"], mine["password"]),
        (theirs["username"], mine["password"]),
        ("default", ""),
        ("default", mine["password"]),
        ("steelyard", mine["password"]),
        ("steelyard-replica", ""),
    ):
        for host in ("127.0.0.1", "127.0.82.1"):
            with pytest.raises(Refused, match="WRONGPASS"):
                await Connection.open(host, int(theirs["port"]), user, password)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(theirs["port"]))
    writer.write(b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n")
    assert (await reader.readline()).startswith(b"-NOAUTH")
    assert (await reader.readline()).startswith(b"-NOAUTH")
    writer.close()


async def assert_full(own: Cache, tenant: Connection) -> None:
    """What does not fit is refused, and nothing is lost."""
    administrator = await own.administer()
    await tenant.call("SET", "kept", "value")
    await tenant.call("SETRANGE", "large", str(4 << 20), "x")
    await administrator.call("CONFIG", "SET", "maxmemory", "2mb")
    with pytest.raises(Refused, match="OOM"):
        await tenant.call("SET", "more", "value")
    assert await tenant.call("GET", "kept") == "value"
    administrator.close()
