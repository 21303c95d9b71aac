"""Into servers of the same process without the wire: whom they see, and when the wire is taken all the same."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from steelyard.kube import errors, objects, pki
from steelyard.kube.client import hosted
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.resources import CONFIG_MAPS, NODES
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.server.hosting import Hosting
from steelyard.kube.store.store import Store

MASTERS = "system:masters"


class Place:
    """A hosted server, and ways into it."""

    def __init__(self, hosting: Hosting) -> None:
        self.hosting = hosting
        now = clocks.SYSTEM.now()
        self.authority = pki.new_authority("kubernetes", now=now)
        self.wired: list[Connection] = []
        """What has gone over the wire."""
        self._opened: list[Client] = []
        self.server = ""

    async def start(self) -> None:
        port = await self.hosting.reserve("a")
        self.server = f"https://{self.hosting.advertised_host}:{port}"
        await self.hosting.serve("a", self.authority)

    async def stop(self) -> None:
        await self.hosting.stop("a")

    def kubeconfig(self, pair: KeyPair | None = None) -> Connection:
        pair = pair or self.pair()
        return Connection(
            self.server,
            certificate_authority=self.authority.certificate,
            client_certificate=pair.certificate,
            client_key=pair.key,
        )

    def pair(self, user: str = "kubernetes-admin", group: str = MASTERS) -> KeyPair:
        return pki.issue_client(self.authority, user, [group], now=clocks.SYSTEM.now())

    async def connect(self, connection: Connection) -> Client:
        client = await hosted.shortcut(lambda: [self.hosting], clocks.SYSTEM, self._wire)(connection)
        self._opened.append(client)
        return client

    async def _wire(self, connection: Connection) -> Client:
        self.wired.append(connection)
        return HttpClient(connection)

    async def close(self) -> None:
        for each in self._opened:
            await each.close()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    hosting = Hosting(store, host="127.0.0.1", clock=clocks.SYSTEM)
    place = Place(hosting)
    await place.start()
    yield place
    await place.close()
    await hosting.close()
    await store.close()


def config_map(name: str = "a") -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}


async def test_nothing_goes_over_the_wire_and_the_other_way_in_shows_the_same(place: Place) -> None:
    client = await place.connect(place.kubeconfig())
    created = await client.create(CONFIG_MAPS, config_map())
    patched = await client.patch(CONFIG_MAPS, "a", {"data": {"c": "d"}}, "default")
    assert place.wired == []
    over_the_wire = HttpClient(place.kubeconfig())
    seen = await over_the_wire.get(CONFIG_MAPS, "a", "default")
    await over_the_wire.close()
    assert seen == patched == await client.get(CONFIG_MAPS, "a", "default")
    assert objects.uid(seen) == objects.uid(created)
    managers = {entry["manager"] for entry in objects.metadata(seen)["managedFields"]}
    assert managers == {"steelyard"}, "as a client over the wire is called by its user agent"


async def test_what_is_handed_over_stays_the_callers(place: Place) -> None:
    client = await place.connect(place.kubeconfig())
    given = config_map()
    await client.create(CONFIG_MAPS, given)
    given["data"]["a"] = "changed"
    assert (await client.get(CONFIG_MAPS, "a", "default"))["data"] == {"a": "b"}


async def test_the_server_sees_whom_the_certificate_names(place: Place) -> None:
    client = await place.connect(place.kubeconfig(place.pair("nobody", "none")))
    with pytest.raises(errors.Forbidden, match='User "nobody" cannot list resource "nodes"'):
        await client.list(NODES)
    assert place.wired == []


def of_another_authority(place: Place) -> Connection:
    other = pki.new_authority("kubernetes", now=clocks.SYSTEM.now())
    return place.kubeconfig(pki.issue_client(other, "kubernetes-admin", [MASTERS], now=clocks.SYSTEM.now()))


def that_knows_another_authority(place: Place) -> Connection:
    other = pki.new_authority("kubernetes", now=clocks.SYSTEM.now())
    return dataclasses.replace(place.kubeconfig(), certificate_authority=other.certificate)


def with_a_certificate_for_servers(place: Place) -> Connection:
    return place.kubeconfig(pki.issue_serving(place.authority, "kubernetes-admin", ["a"], now=clocks.SYSTEM.now()))


def that_has_run_out(place: Place) -> Connection:
    long_ago = clocks.SYSTEM.now() - datetime.timedelta(days=3)
    lifetime = datetime.timedelta(days=1)
    pair = pki.issue_client(place.authority, "kubernetes-admin", [MASTERS], now=long_ago, lifetime=lifetime)
    return place.kubeconfig(pair)


@pytest.mark.parametrize(
    "made",
    [of_another_authority, that_knows_another_authority, with_a_certificate_for_servers, that_has_run_out],
    ids=lambda made: str(made.__name__),
)
async def test_who_would_not_be_believed_takes_the_wire_and_is_refused_there(
    place: Place, made: Callable[[Place], Connection]
) -> None:
    client = await place.connect(made(place))
    with pytest.raises((errors.Unauthorized, errors.ServiceUnavailable)):
        await client.list(NODES)
    assert len(place.wired) == 1


async def test_a_key_that_is_another_certificates_is_not_believed(place: Place) -> None:
    mixed = KeyPair(place.pair().certificate, place.pair().key)
    assert not pki.is_of_client(mixed, place.authority.certificate, now=clocks.SYSTEM.now())
    assert pki.is_of_client(place.pair(), place.authority.certificate, now=clocks.SYSTEM.now())


async def test_a_token_takes_the_wire(place: Place) -> None:
    client = await place.connect(dataclasses.replace(place.kubeconfig(), token="abc"))
    await client.list(NODES)
    assert len(place.wired) == 1


async def test_other_servers_are_reached_over_the_wire(place: Place) -> None:
    await place.connect(dataclasses.replace(place.kubeconfig(), server="https://127.0.0.1:1"))
    assert len(place.wired) == 1


async def test_a_server_that_has_ended_cannot_be_reached_until_it_is_back(place: Place) -> None:
    client = await place.connect(place.kubeconfig())
    await client.create(CONFIG_MAPS, config_map())
    version = str(objects.metadata(await client.get(CONFIG_MAPS, "a", "default"))["resourceVersion"])

    async def watched() -> int:
        return len([event async for event in client.watch(CONFIG_MAPS, resource_version=version)])

    watching = asyncio.create_task(watched())
    await asyncio.sleep(0.05)
    await place.stop()
    await asyncio.wait_for(watching, 5)
    with pytest.raises(errors.ServiceUnavailable, match="cannot connect to"):
        await client.get(CONFIG_MAPS, "a", "default")
    await place.start()
    assert (await client.get(CONFIG_MAPS, "a", "default"))["data"] == {"a": "b"}
    assert len(place.wired) == 1, "only while nothing was there"
