"""A thousand previews at once: a database for each of as many pull requests, logged in to once, then past their time.

The platform runs as `steelyard up` runs it, with a PostgreSQL server of its own. All claims are made at once; when all
are ready, each is logged in to with its Secret's uri and a table is made in it. Then the platform is ended, and started
again shortly before their end, which it must announce; and once more, long after it, when everything must go, from the
API and from the server, and nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg
from psycopg import conninfo

from steelyard.api import databases, postgresql, state
from steelyard.api.crossplane import DATABASES, EXTENSIONS, GRANTS, ROLES
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, Resource
from steelyard.kube.runtime import conditions
from steelyard.providers.postgres.embedded import layout
from tests import ownservers
from tests.harness import INSTANT, PlatformProcess

NAMESPACE: Final = "previews"
LIVE: Final = "2h"
_SHORTLY_BEFORE: Final = 115 * 60
_AFTERWARDS: Final = 180 * 60
_CREDENTIALS: Final = "crossplane-system"
_ADMIN: Final = "postgres-admin-creds"
_CLAIMS: Final = postgresql.resource("steelyard.dev")
_MADE: Final = (
    DATABASES,
    ROLES,
    GRANTS,
    EXTENSIONS,
    databases.USAGES,
    databases.BACKUPS,
    databases.COPIES,
    databases.LOGINS,
)
_SERVERS: Final = "servers"
_AT_ONCE: Final = 16
_LOGINS_AT_ONCE: Final = 8
_LOOK_EVERY: Final = 0.01
"""Seconds for each claim, and one more: a look at all of them costs the platform something as well."""
_SECONDS_EACH: Final = 3.0
"""After so many seconds for each claim, and some minutes for all, it is given up."""

# Read by every Python that has the folder on its path, before anything else: the platform's clock is ahead of ours.
_LATER_CLOCK: Final = """
import datetime
from steelyard.kube.runtime import clock

_now = clock.SystemClock.now
clock.SystemClock.now = lambda self: _now(self) + datetime.timedelta(seconds={seconds})
"""


@dataclass
class Figures:
    count: int
    to_ready: float = 0.0
    logins: float = 0.0
    """Each second."""
    to_gone: float = 0.0
    disk: int = 0
    memory: int = 0
    server_memory: int = 0
    """Bytes, at their highest."""
    wrong: list[str] = field(default_factory=list[str])

    def summary(self) -> str:
        return (
            f"{self.count} previews ready after {self.to_ready:.1f} s, {self.logins:.1f} logins/s, all gone "
            f"{self.to_gone:.1f} s after the platform's start; at most {self.disk >> 20} MB of disk, "
            f"{self.memory >> 20} MB of memory for the platform and {self.server_memory >> 20} MB for PostgreSQL"
        )


async def run(folder: Path, count: int, say: Callable[[str], None]) -> Figures:
    try:
        return await _run(folder, count, say)
    finally:
        ownservers.end(folder / _SERVERS)


async def _run(folder: Path, count: int, say: Callable[[str], None]) -> Figures:
    figures = Figures(count)
    with _started(folder) as process:
        client = process.client()
        watching = asyncio.create_task(_watch(process, folder, figures))
        try:
            await _make(client, count)
            say(f"{count} claims made")
            started = time.monotonic()
            await _all(client, count, "ready", lambda each: state.of(each).word == state.READY, say)
            figures.to_ready = time.monotonic() - started
            say(f"all ready after {figures.to_ready:.1f} s")
            await _log_in(client, count, figures)
            say(f"logged in to each, {figures.logins:.1f}/s")
        finally:
            watching.cancel()
            await client.close()
        process.terminate(60)
    with _started(folder, _SHORTLY_BEFORE) as process:
        client = process.client()
        try:
            await _all(client, count, "announced", lambda each: conditions.is_true(each, "Expiring"), say)
        finally:
            await client.close()
        process.terminate(60)
    started = time.monotonic()
    with _started(folder, _AFTERWARDS) as process:
        client = process.client()
        watching = asyncio.create_task(_watch(process, folder, figures))
        try:
            await _all_gone(client, count, say)
            figures.to_gone = time.monotonic() - started
            figures.wrong += await _left(client)
        finally:
            watching.cancel()
            await client.close()
        process.terminate(60)
    return figures


def _started(folder: Path, later: int = 0) -> PlatformProcess:
    """A platform whose clock is ahead by so many seconds. Its server's files are in the folder, whoever runs it."""
    folder.chmod(0o755)
    ahead = folder / f"ahead-{later}"
    ahead.mkdir()
    if later:
        (ahead / "sitecustomize.py").write_text(_LATER_CLOCK.format(seconds=later))
    environment = {"PYTHONPATH": str(ahead), layout.VARIABLE: str(folder / _SERVERS)}
    process = PlatformProcess(folder / "platform", platform=INSTANT, environment=environment)
    try:
        process.start()
    except BaseException:
        process.kill()
        raise
    return process


def claim(number: int) -> Object:
    parameters: Object = {"environment": f"pr-{number}", "storageGB": 1, "ttl": LIVE, "enableBackup": False}
    return {
        "apiVersion": _CLAIMS.api_version,
        "kind": _CLAIMS.kind,
        "metadata": {"name": f"db-{number}", "namespace": NAMESPACE},
        "spec": {"parameters": parameters, "writeConnectionSecretToRef": {"name": f"db-{number}"}},
    }


async def _make(client: Client, count: int) -> None:
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    room = asyncio.Semaphore(_AT_ONCE)

    async def make(number: int) -> None:
        async with room:
            await client.create(_CLAIMS, claim(number))

    async with asyncio.TaskGroup() as group:
        for number in range(1, count + 1):
            group.create_task(make(number))


async def _all(
    client: Client, count: int, what: str, reached: Callable[[Object], bool], say: Callable[[str], None]
) -> None:
    deadline = time.monotonic() + 300 + count * _SECONDS_EACH
    last = time.monotonic()
    while True:
        claims = (await client.list(_CLAIMS, NAMESPACE)).items
        others = [each for each in claims if not reached(each)]
        if len(claims) == count and not others:
            return
        told = f"{count - len(others)} of {count} {what}"
        assert time.monotonic() < deadline, f"{told}; others: {_words(others)}"
        if time.monotonic() - last > 30:
            last = time.monotonic()
            say(told)
        await asyncio.sleep(1 + count * _LOOK_EVERY)


def _words(claims: Iterable[Object]) -> str:
    states = map(state.of, claims)
    return "; ".join(sorted({f"{each.word}: {each.text}" for each in states})[:5])


async def _log_in(client: Client, count: int, figures: Figures) -> None:
    secrets = (await client.list(SECRETS, NAMESPACE)).items
    uris = [_decoded(each, "uri") for each in secrets if "uri" in each.get("data", {})]
    assert len(uris) == count, f"{len(uris)} Secrets for {count} claims"
    started = time.monotonic()
    with ThreadPoolExecutor(_LOGINS_AT_ONCE) as pool:
        loop = asyncio.get_running_loop()
        found = await asyncio.gather(*(loop.run_in_executor(pool, _visit, uri) for uri in uris))
    figures.logins = count / (time.monotonic() - started)
    assert len(set(found)) == count, "two Secrets lead to the same database"


def _visit(uri: str) -> str:
    with psycopg.connect(uri, autocommit=True, connect_timeout=30) as session:
        session.execute("CREATE TABLE visits (at timestamptz DEFAULT now())")
        session.execute("INSERT INTO visits DEFAULT VALUES")
        row = session.execute("SELECT current_database(), count(*) FROM visits").fetchone()
    assert row is not None
    assert row[1] == 1
    return str(row[0])


async def _all_gone(client: Client, count: int, say: Callable[[str], None]) -> None:
    deadline = time.monotonic() + 300 + count * _SECONDS_EACH
    last = time.monotonic()
    while True:
        left = (await client.list(_CLAIMS, NAMESPACE)).items
        if not left:
            return
        assert time.monotonic() < deadline, f"{len(left)} of {count} are left; one says {state.of(left[0])}"
        if time.monotonic() - last > 30:
            last = time.monotonic()
            say(f"{len(left)} left")
        await asyncio.sleep(1 + count * _LOOK_EVERY)


async def _left(client: Client) -> list[str]:
    """Whatever is there that was made for a preview."""
    found: list[str] = []
    for resource in _MADE:
        found += [f"{resource.kind} {objects.name(each)}" for each in await _listed(client, resource)]
    for namespace in (NAMESPACE, _CREDENTIALS):
        for each in await _listed(client, SECRETS, namespace):
            if objects.name(each) != _ADMIN:
                found.append(f"Secret {objects.qualified_name(each)}")
    admin = await client.get(SECRETS, _ADMIN, _CREDENTIALS)
    parameters = {key: _decoded(admin, name) for key, name in _CONNECTION.items()}
    with psycopg.connect(conninfo.make_conninfo("", dbname="postgres", **parameters)) as session:
        for kind, query in _ON_SERVER.items():
            found += [f"{kind} {row[0]}" for row in session.execute(query.encode()).fetchall()]
    return found


_CONNECTION: Final = {"host": "endpoint", "port": "port", "user": "username", "password": "password"}
_ON_SERVER: Final = {
    "database": "SELECT datname FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1')",
    "role": "SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' AND rolname <> current_user",
}


async def _listed(client: Client, resource: Resource, namespace: str = "") -> list[Object]:
    try:
        return list((await client.list(resource, namespace)).items)
    except errors.NotFound:
        return []


def _decoded(secret: Object, key: str) -> str:
    return base64.b64decode(secret["data"][key]).decode()


async def _watch(process: PlatformProcess, folder: Path, figures: Figures) -> None:
    while True:
        assert process.process is not None
        platform, server = await asyncio.to_thread(_memory, process.process.pid, folder)
        figures.memory = max(figures.memory, platform)
        figures.server_memory = max(figures.server_memory, server)
        figures.disk = max(figures.disk, await asyncio.to_thread(_size, folder))
        await asyncio.sleep(5)


def _memory(platform: int, folder: Path) -> tuple[int, int]:
    """Of the platform, and of the server with all its processes: what is shared counts once, by equal parts."""
    servers = {int(path.read_text().split()[0]) for path in folder.rglob("postmaster.pid")}
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    members = servers | {pid for pid, parent in parents.items() if parent in servers}
    return _pss(platform), sum(map(_pss, members))


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            status = path.lstat()
        except OSError:
            continue
        total += status.st_blocks * 512
    return total
