"""Caches from the claim to the last file, with real servers: made, used, resized, rotated, lost, brought back, gone."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from steelyard.api.redisserver import RESOURCE as SERVERS
from steelyard.kube import objects
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime.keys import Key
from steelyard.providers.redis import program, reconcile, unit, wire
from steelyard.providers.redis.fleet import Fleet
from steelyard.providers.redis.program import Program
from steelyard.providers.redis.wire import Refused, Unreachable
from tests import inprocess
from tests.providers.redis import caches
from tests.providers.redis.caches import Cache, claimed, eventually
from tests.providers.redis.conftest import found

SOON = "redis: {rotationOverlap: 1s}"


async def test_a_cache_is_made_used_resized_rotated_and_deleted_without_a_trace(
    tmp_path: Path, each_program: Program
) -> None:
    async with claimed(tmp_path, SOON) as cache:
        assert (await cache.provider())["version"] == each_program.version
        secret = await cache.secret()
        if cli := shutil.which("redis-cli"):
            told = [cli, "--no-auth-warning", "-u", secret["uri"], "set", "greeting", "hello"]
            assert await asyncio.to_thread(subprocess.check_output, told, text=True) == "OK\n"
        else:
            await cache.ask("SET", "greeting", "hello")
        (pid,) = (await cache.pids()).values()
        assert_private(tmp_path, pid, secret["password"])

        await cache.set(memoryGB=2, replicas=2)
        await eventually(cache.is_up_to_date)
        assert (await cache.pids())[0] == pid, "resized in place"
        administrator = await cache.administer(2)
        assert await administrator.call("CONFIG", "GET", "maxmemory") == ["maxmemory", str(2 * 1024**3 * 3 // 4)]
        assert await administrator.call("GET", "greeting") == "hello", "replicas have it all"
        administrator.close()

        await cache.set(replicas=1)
        await eventually(lambda: has_servers(tmp_path, 1))
        assert await cache.ask("GET", "greeting") == "hello"

        await rotates(cache)
        port = int(secret["port"])
        await cache.delete()
        assert (caches.running(tmp_path), caches.files(tmp_path)) == ({}, [])
        assert not any(caches.answers(host, port) for host in ("127.0.0.1", "127.0.82.1"))
        assert (await cache.client.list(SERVERS)).items == []
        left = [objects.qualified_name(each) for each in (await cache.client.list(SECRETS)).items]
        assert [each for each in left if "shop" in each] == []


def assert_private(folder: Path, pid: int, password: str) -> None:
    (directory,) = caches.running(folder)
    configuration = directory.with_suffix(".conf")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(configuration.stat().st_mode) == 0o600
    assert password not in configuration.read_text()
    assert password.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    if os.geteuid() == 0:
        owner = os.stat(f"/proc/{pid}").st_uid
        assert owner == directory.stat().st_uid != 0, "a user of its own runs it"
        assert configuration.stat().st_uid == 0


async def has_servers(folder: Path, count: int) -> bool:
    return len(caches.running(folder)) == count


async def rotates(cache: Cache) -> None:
    """While the overlap lasts both passwords are good; then the old one is refused, and its sessions are ended."""
    before = await cache.secret()
    session = await cache.connect()
    await cache.annotate(**{"steelyard.dev/rotate": "once"})

    async def is_switched() -> bool:
        return (await cache.secret())["password"] != before["password"]

    await eventually(is_switched)
    after = await cache.secret()
    assert {key: after[key] for key in ("host", "port", "username")} == {
        key: before[key] for key in ("host", "port", "username")
    }
    (await cache.connect(after["password"])).close()

    async def is_refused() -> bool:
        try:
            (await cache.connect(before["password"])).close()
        except Refused as refused:
            return refused.word == "WRONGPASS"
        return False

    await eventually(is_refused)
    with pytest.raises(Unreachable):
        await session.call("PING")
    session.close()
    assert await cache.ask("GET", "greeting") == "hello"
    await cache.look()
    await asyncio.sleep(0.2)
    assert (await cache.secret())["password"] == after["password"], "asked for once, done once"
    assert set(await cache.credentials()).isdisjoint({"previous-password", "next-password"})


async def test_the_loss_of_a_primary_loses_nothing_that_a_replica_has_acknowledged(
    tmp_path: Path, each_program: Program
) -> None:
    async with claimed(tmp_path, replicas=2) as cache:
        acknowledged: list[int] = []
        writing = asyncio.create_task(write(cache, acknowledged))
        await eventually(lambda: has(acknowledged, 200))
        pids = await cache.pids()
        os.kill(pids[0], signal.SIGKILL)
        lost_at = len(acknowledged)
        await eventually(lambda: has(acknowledged, lost_at + 200))
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)

        await eventually(cache.is_up_to_date)
        provider = await cache.provider()
        assert provider["primary"] in (1, 2)
        assert (await cache.pids())[provider["primary"]] == pids[provider["primary"]], "promoted as it runs"
        roles = {each["ordinal"]: (each["role"], each["state"]) for each in provider["servers"]}
        assert roles[0] == ("replica", "running"), "the lost one is back and follows"
        for ordinal in range(3):
            # Replicas follow a moment later, and the one that was lost first fetches everything.
            await eventually(lambda ordinal=ordinal: has_all(cache, ordinal, acknowledged))
        told = await cache.events()
        assert any("PrimaryLost: the primary, server 0, was ended by signal 9 (SIGKILL)" in each for each in told)


async def write(cache: Cache, acknowledged: list[int]) -> None:
    """As an application does that must not lose anything: each write counts once a replica has it."""
    number = 0
    while True:
        connection = None
        try:
            connection = await cache.connect()
            while True:
                number += 1
                _, copies = await connection.all([("SADD", "written", str(number)), ("WAIT", "1", "500")])
                if isinstance(copies, int) and copies >= 1:
                    acknowledged.append(number)
        except (Unreachable, Refused):
            await asyncio.sleep(0.01)
        finally:
            if connection is not None:
                connection.close()


async def has_all(cache: Cache, ordinal: int, acknowledged: list[int]) -> bool:
    connection = await cache.administer(ordinal)
    try:
        return set(map(str, acknowledged)) <= set(await connection.call("SMEMBERS", "written"))
    except Refused:
        return False
    finally:
        connection.close()


async def has(acknowledged: list[int], count: int) -> bool:
    return len(acknowledged) >= count


async def test_a_primary_that_hangs_is_ended_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "DEADLINE", 0.5)
    async with claimed(tmp_path, replicas=2) as cache:
        await cache.ask("SET", "greeting", "hello")
        os.kill((await cache.pids())[0], signal.SIGSTOP)
        await cache.look()

        async def is_replaced() -> bool:
            return (await cache.provider())["primary"] != 0 and await cache.is_up_to_date()

        await eventually(is_replaced)
        assert await cache.ask("GET", "greeting") == "hello"


async def test_a_primary_whose_directory_is_gone_is_replaced_by_a_replica(tmp_path: Path) -> None:
    async with claimed(tmp_path, replicas=2) as cache:
        await cache.ask("SET", "greeting", "hello")
        shutil.rmtree(next(each for each in caches.running(tmp_path) if each.name == "0"))
        await cache.look()

        async def is_replaced() -> bool:
            return (await cache.provider())["primary"] != 0 and await cache.is_up_to_date()

        await eventually(is_replaced)
        assert await cache.ask("GET", "greeting") == "hello"
        assert await has_servers(tmp_path, 3)


async def test_a_sole_server_that_dies_comes_back_with_its_data_and_that_is_told(tmp_path: Path) -> None:
    async with claimed(tmp_path) as cache:
        await cache.ask("SET", "greeting", "hello")
        before = await cache.pids()
        os.kill(before[0], signal.SIGKILL)

        async def is_back() -> bool:
            return await cache.pids() != before and await cache.is_up_to_date()

        await eventually(is_back)
        assert await cache.ask("GET", "greeting") == "hello"
        assert "ServerLost: server 0 was ended by signal 9 (SIGKILL); it is started again" in await cache.events()


async def test_a_sole_server_without_its_directory_is_not_ended_and_the_claim_says_what_to_do(tmp_path: Path) -> None:
    async with claimed(tmp_path) as cache:
        await cache.ask("SET", "greeting", "hello")
        shutil.rmtree(next(iter(caches.running(tmp_path))))
        await cache.look()

        async def is_told() -> bool:
            return "Ask for replicas" in str((await cache.claim())["status"].get("message"))

        await eventually(is_told)
        assert await cache.ask("GET", "greeting") == "hello"
        await cache.set(replicas=2)

        async def is_saved() -> bool:
            return (await cache.provider())["primary"] != 0 and await cache.is_up_to_date()

        await eventually(is_saved)
        assert await cache.ask("GET", "greeting") == "hello"


async def test_a_cache_ends_with_the_platform_and_is_the_same_after_its_start(tmp_path: Path) -> None:
    async with claimed(tmp_path, replicas=2) as cache:
        await cache.ask("SET", "greeting", "hello")
        before = await cache.secret()
    assert caches.running(tmp_path) == {}
    async with inprocess.platform(tmp_path) as client:
        cache = Cache(client, tmp_path, "shop")
        await eventually(lambda: has_servers(tmp_path, 3))
        await eventually(cache.is_up_to_date)
        assert await cache.secret() == before
        assert await cache.ask("GET", "greeting") == "hello"


async def test_files_of_the_primary_that_are_gone_after_a_stop_cost_nothing_that_replicas_have(tmp_path: Path) -> None:
    async with claimed(tmp_path, replicas=2) as cache:
        await cache.ask("SET", "greeting", "hello")
        directory = next(each for each in caches.running(tmp_path) if each.name == "0")
    shutil.rmtree(directory)
    async with inprocess.platform(tmp_path) as client:
        cache = Cache(client, tmp_path, "shop")
        await eventually(lambda: has_servers(tmp_path, 3))
        await eventually(cache.is_up_to_date)
        assert (await cache.provider())["primary"] != 0
        assert await cache.ask("GET", "greeting") == "hello"


async def test_a_port_that_a_stranger_has_is_told_and_the_stranger_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "RETRY", 0.2)
    async with claimed(tmp_path) as cache:
        port = int((await cache.secret())["port"])
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        async with inprocess.platform(tmp_path) as client:
            cache = Cache(client, tmp_path, "shop")

            async def is_told() -> bool:
                return f"port {port} of 127.0.0.1 is taken" in str((await cache.claim())["status"].get("message"))

            await eventually(is_told)
            assert caches.running(tmp_path) == {}
            stranger.close()
            await cache.look()
            await eventually(cache.is_up_to_date)


async def test_what_was_changed_behind_the_platforms_back_is_put_back(tmp_path: Path) -> None:
    async with claimed(tmp_path) as cache:
        username = (await cache.secret())["username"]
        intruder = await cache.administer()
        await intruder.call("ACL", "SETUSER", username, "resetpass", ">theirs", "+@all")
        await intruder.call("ACL", "SETUSER", "backdoor", "on", "nopass", "~*", "+@all")
        await intruder.call("CONFIG", "SET", "maxmemory", "1mb")
        theirs = await cache.connect("theirs")
        await cache.look()

        async def is_put_back() -> bool:
            lines = await intruder.call("ACL", "LIST")
            most = (await intruder.call("CONFIG", "GET", "maxmemory"))[1]
            return not any("backdoor" in line for line in lines) and most == str(768 << 20)

        await eventually(is_put_back)
        assert await cache.ask("PING") == "PONG"
        with pytest.raises(Refused, match="WRONGPASS"):
            await cache.connect("theirs")
        with pytest.raises(Unreachable):
            await theirs.call("PING")
        with pytest.raises(Refused, match="NOPERM"):
            await cache.ask("CONFIG", "GET", "*")
        intruder.close()
        assert any(each.startswith("PutRight: its users and passwords of server 0") for each in await cache.events())


async def test_lost_credentials_are_made_anew_and_nothing_else_is_lost(tmp_path: Path) -> None:
    async with claimed(tmp_path, replicas=2) as cache:
        await cache.ask("SET", "greeting", "hello")
        before = await cache.secret()
        await cache.client.delete(SECRETS, f"redis.default.{cache.name}", caches.CREDENTIALS)

        async def is_new() -> bool:
            return (await cache.secret())["password"] != before["password"] and await cache.is_up_to_date()

        await eventually(is_new)
        assert await cache.ask("GET", "greeting") == "hello"


async def test_an_idle_cache_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "LOOK_EVERY", 0.05)
    async with claimed(tmp_path, replicas=2) as cache:
        await eventually(cache.is_up_to_date)
        await asyncio.sleep(0.3)
        before = (await cache.client.list(SECRETS)).resource_version
        await asyncio.sleep(0.6)
        assert (await cache.client.list(SECRETS)).resource_version == before


@pytest.mark.parametrize(
    ("parameters", "said"),
    [({"memoryGB": 1024}, "each server is to have 1024 GiB of memory, and this machine has")],
    ids=["more memory than there is"],
)
async def test_what_this_machine_cannot_do_is_said(tmp_path: Path, parameters: dict[str, int], said: str) -> None:
    async with inprocess.platform(tmp_path) as client:
        await client.create(caches.CLAIMS, caches.claim(memoryGB=parameters["memoryGB"]))
        cache = Cache(client, tmp_path, "shop")

        async def is_told() -> bool:
            return said in str(objects.at(await cache.claim(), "status", "message"))

        await eventually(is_told)
        assert caches.running(tmp_path) == {}
        await cache.set(memoryGB=1)
        await eventually(cache.is_up_to_date)

        await cache.ask("SET", "greeting", "hello")
        await cache.set(memoryGB=1024)
        await eventually(is_told)
        assert await cache.ask("GET", "greeting") == "hello", "what is there goes on"


async def test_without_a_program_the_claim_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "candidates", list[tuple[Path, str]])
    async with inprocess.platform(tmp_path) as client:
        await client.create(caches.CLAIMS, caches.claim())
        cache = Cache(client, tmp_path, "shop")

        async def is_told() -> bool:
            return "Install one (apt-get install redis-server)" in str(
                objects.at(await cache.claim(), "status", "message")
            )

        await eventually(is_told)
        await cache.delete()


async def test_a_secret_of_somebody_else_is_neither_used_nor_overwritten(tmp_path: Path) -> None:
    async with inprocess.platform(tmp_path) as client:
        await inprocess.namespace(client, caches.CREDENTIALS)
        metadata = {"name": "redis.default.shop", "namespace": caches.CREDENTIALS}
        theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": "dGhlaXJz"}}
        await client.create(SECRETS, theirs)
        await client.create(caches.CLAIMS, caches.claim())
        cache = Cache(client, tmp_path, "shop")

        async def is_told() -> bool:
            return "is not this cache's" in str(objects.at(await cache.claim(), "status", "message"))

        await eventually(is_told)
        assert await cache.credentials() == {"password": "theirs"}
        assert caches.running(tmp_path) == {}


async def test_files_that_no_cache_is_known_of_are_told_and_left(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, clocks.SYSTEM)
    assert [each.how for each in unit.services(fleet)] == ["not needed yet"]
    await fleet.group("u-1", Key("", "known"))
    (tmp_path / "u-2" / "0").mkdir(parents=True)
    known, unknown = unit.services(fleet)
    assert (known.how, unknown.how) == ("not needed yet", "down")
    assert str(tmp_path / "u-2") in unknown.text
    assert (tmp_path / "u-2" / "0").is_dir()


async def test_an_older_program_never_takes_the_place_of_the_one_that_wrote_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis 6.2 does not see the files of 7.0, and would begin with none."""
    newer, older = found("host"), found("wheel")
    if not program.is_older(older.version, newer.version):
        pytest.skip(f"the wheel's {older.version} is not older than the host's {newer.version}")
    use(monkeypatch, newer)
    async with claimed(tmp_path) as cache:
        await cache.ask("SET", "greeting", "hello")

    use(monkeypatch, older)
    async with inprocess.platform(tmp_path) as client:
        cache = Cache(client, tmp_path, "shop")

        async def is_told() -> bool:
            message = str((await cache.claim())["status"]["message"])
            return f"its data was written by Redis {newer.version}" in message and "Install" in message

        await eventually(is_told)
        assert caches.running(tmp_path) == {}

    use(monkeypatch, older, newer)
    async with inprocess.platform(tmp_path) as client:
        cache = Cache(client, tmp_path, "shop")
        await eventually(cache.is_up_to_date)
        assert await cache.ask("GET", "greeting") == "hello"
        assert (await cache.provider())["version"] == newer.version
        await cache.set(replicas=2)
        await eventually(cache.is_up_to_date)
        replica = await cache.administer(1)
        assert await replica.call("GET", "greeting") == "hello", "a new replica understands what the primary sends"
        replica.close()


def use(monkeypatch: pytest.MonkeyPatch, *programs: Program) -> None:
    monkeypatch.setattr(program, "candidates", lambda: [(each.path, each.origin) for each in programs])
