"""Databases from claims: how long from a claim to a session that works, beside the same by hand with psql on the same
server in the same run; and what many of them cost when nobody does anything.
"""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import statistics
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from bench.servers import Ours
from steelyard.api import postgresql
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, SECRETS

CLAIMS: Final = postgresql.resource("steelyard.dev")
_ADMINISTRATOR: Final = ("postgres-admin-creds", "crossplane-system")
_DEADLINE: Final = 900.0
_AT_ONCE: Final = 16
_TABLE: Final = "CREATE TABLE used (id int)"


async def measure(folder: Path, times: int, idle: int, idle_seconds: float) -> None:
    """Prints as it goes. `times` databases are made one after the other in either way, `idle` at once."""
    server = Ours(folder / "databases")
    try:
        server.start()
        client = server.client()
        await _claimed(client, "first")
        administrator = await _values(client, *_ADMINISTRATOR)
        ours: list[float] = []
        by_hand: list[float] = []
        # In turns, so that a machine that changes its pace meanwhile does it to both.
        for number in range(times):
            ours.append(await _claimed(client, f"bench-{number:04d}"))
            by_hand.append(await asyncio.to_thread(_by_hand, administrator, number))
        claimed, made = statistics.median(ours), statistics.median(by_hand)
        print(f"claim to a table in the database, median of {times:<16} {claimed * 1e3:10.0f} ms", flush=True)
        print(f"  by hand with psql, in five statements {made * 1e3:24.0f} ms   ours/by hand {claimed / made:.2f}")
        await _idle(server, client, idle, idle_seconds)
        await client.close()
    finally:
        server.stop()


async def _claimed(client: Client, name: str) -> float:
    """Seconds from the claim to a table that was made with what its Secret says."""
    started = time.perf_counter()
    await client.create(CLAIMS, _claim(name))
    async with asyncio.timeout(_DEADLINE):
        await _ready(client, {name})
    connection = await _values(client, f"{name}-connection", "default")
    await asyncio.to_thread(_psql, connection["uri"], _TABLE)
    return time.perf_counter() - started


def _by_hand(administrator: Mapping[str, str], number: int) -> float:
    name, password = f"by_hand_{number}", secrets.token_urlsafe(24)
    place = f"{administrator['endpoint']}:{administrator['port']}"
    login = f"{administrator['username']}:{administrator['password']}"
    started = time.perf_counter()
    _psql(
        f"postgresql://{login}@{place}/postgres",
        f"CREATE ROLE {name}_owner NOLOGIN",
        f"CREATE ROLE {name} LOGIN PASSWORD '{password}' IN ROLE {name}_owner",
        f"CREATE DATABASE {name} OWNER {name}_owner TEMPLATE template0 ENCODING 'UTF8'",
        f"REVOKE ALL ON DATABASE {name} FROM PUBLIC",
        f"ALTER ROLE {name} SET role TO {name}_owner",
    )
    _psql(f"postgresql://{name}:{password}@{place}/{name}", _TABLE)
    return time.perf_counter() - started


def _psql(uri: str, *statements: str) -> None:
    commands = [part for statement in statements for part in ("-c", statement)]
    # Not as an argument: those are seen by everybody on the machine.
    environment = {**os.environ, **_environment(uri)}
    subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", *commands], env=environment, check=True, timeout=60)


def _environment(uri: str) -> dict[str, str]:
    found = urlsplit(uri)
    return {
        "PGHOST": found.hostname or "",
        "PGPORT": str(found.port or 5432),
        "PGUSER": unquote(found.username or ""),
        "PGPASSWORD": unquote(found.password or ""),
        "PGDATABASE": found.path.strip("/"),
    }


async def _idle(server: Ours, client: Client, count: int, seconds: float) -> None:
    names = {f"idle-{number:04d}" for number in range(count)}
    started = time.perf_counter()
    pending = sorted(names)
    for first in range(0, count, _AT_ONCE):
        await asyncio.gather(*(client.create(CLAIMS, _claim(name)) for name in pending[first : first + _AT_ONCE]))
    async with asyncio.timeout(_DEADLINE):
        await _ready(client, names)
    print(f"{count} databases at once, until all are Ready {time.perf_counter() - started:20.1f} s", flush=True)
    await asyncio.sleep(5)
    revision, used = await _revision(client), server.processor_seconds()
    await asyncio.sleep(seconds)
    written = await _revision(client) - revision
    share = (server.processor_seconds() - used) / seconds * 100
    print(f"{count} databases idle for {seconds:g} s: {written} writes, {share:.2f} % of a core", flush=True)
    print(f"  resident {server.resident() / 1e6:.0f} MB", flush=True)


async def _ready(client: Client, names: set[str]) -> None:
    waiting = set(names)
    while waiting:
        listed = await client.list(CLAIMS)
        waiting -= {objects.name(claim) for claim in listed.items if _is_ready(claim)}
        if not waiting:
            return
        async for event in client.watch(CLAIMS, resource_version=listed.resource_version):
            if event.type == "MODIFIED" and _is_ready(event.object):
                waiting.discard(objects.name(event.object))
            if not waiting:
                return


def _is_ready(claim: Object) -> bool:
    conditions = map(objects.mapping, objects.sequence(objects.at(claim, "status", "conditions")))
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


async def _values(client: Client, name: str, namespace: str) -> dict[str, str]:
    secret = await client.get(SECRETS, name, namespace)
    return {key: base64.b64decode(str(value)).decode() for key, value in objects.mapping(secret.get("data")).items()}


async def _revision(client: Client) -> int:
    return int((await client.list(CONFIG_MAPS, limit=1)).resource_version)


def _claim(name: str) -> Object:
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "parameters": {"environment": "dev", "size": "small", "enableBackup": False},
            "writeConnectionSecretToRef": {"name": f"{name}-connection"},
        },
    }
