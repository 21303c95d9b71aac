from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from steelyard.kube import errors, pki
from steelyard.kube.resources import CONFIG_MAPS
from steelyard.kube.runtime.clock import VirtualClock
from steelyard.kube.server import hosting as hostings
from steelyard.kube.server.hosting import Hosting, PortTaken
from steelyard.kube.store.store import Store
from tests.kube.server.admission.hooks import VALIDATING, configuration, hook, listening, rule
from tests.kube.server.bench import Bench, Clock
from tests.kube.server.space.test_quota import config_map

DAY = 86400.0


@contextlib.asynccontextmanager
async def hosted(store: Store, clock: VirtualClock | None = None) -> AsyncGenerator[Hosting]:
    hosting = Hosting(store, host="127.0.0.1", clock=clock or VirtualClock())
    try:
        yield hosting
    finally:
        await hosting.close()


@pytest.fixture
async def hosting(store: Store) -> AsyncIterator[Hosting]:
    async with hosted(store) as made:
        yield made


async def test_new_server_takes_no_port_that_was_promised_before_the_restart(store: Store) -> None:
    async with hosted(store) as before:
        port = await before.reserve("a")
    async with hosted(store) as after:
        after.promise("other", port)
        assert await after.reserve("a") != port
        assert await after.reserve("other") == port


async def test_promised_port_is_held_whatever_is_asked_for(hosting: Hosting) -> None:
    port = await hosting.reserve("free")
    await hosting.erase("free")
    assert hosting.promise("a", port)
    assert await hosting.reserve("a", port + 1) == port


async def test_port_of_another_server_is_refused(hosting: Hosting) -> None:
    port = await hosting.reserve("a")
    with pytest.raises(
        PortTaken, match=rf"port {port} belongs to another cluster; leave spec.controlPlaneEndpoint out"
    ):
        await hosting.reserve("b", port)
    assert not hosting.promise("b", port)
    assert await hosting.reserve("b") != port


async def test_port_of_a_server_that_is_gone_is_free_again(hosting: Hosting) -> None:
    port = await hosting.reserve("a")
    await hosting.erase("a")
    assert await hosting.reserve("b", port) == port


@pytest.mark.parametrize("port", [22, 6443, hostings.LAST_PORT + 1])
async def test_ports_beyond_those_given_out_cannot_be_chosen(hosting: Hosting, port: int) -> None:
    with pytest.raises(PortTaken, match=f"port {port} is not between 20000 and 29999"):
        await hosting.reserve("a", port)


async def shown_by(port: int) -> bytes:
    """The certificate that the server presents to a new connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return ssl.DER_cert_to_PEM_cert(shown).encode()
    finally:
        writer.close()
        await writer.wait_closed()
        del reader


async def test_certificates_are_renewed_while_the_servers_run(store: Store) -> None:
    clock = VirtualClock()
    async with hosted(store, clock) as hosting:
        authority = pki.new_authority("kubernetes", now=clock.now())
        ports = [await hosting.reserve(name) for name in ("a", "b")]
        api = await hosting.serve("a", authority)
        await clock.advance(100 * DAY)
        await hosting.serve("b", authority)
        assert clock.pending == 1, "one timer for all"
        first = [await shown_by(port) for port in ports]
        await clock.advance(160 * DAY)
        renewed = [await shown_by(port) for port in ports]
        assert renewed[0] != first[0]
        assert renewed[1] == first[1]
        await clock.advance(400 * DAY)
        for port in ports:
            certificate = await shown_by(port)
            assert pki.expiry_of(certificate) - clock.now() > datetime.timedelta(days=100)
            assert pki.hosts_of(certificate) == pki.hosts_of(first[0])
        assert hosting.running("a") is api
        await hosting.erase("a")
        await hosting.stop("b")
        assert clock.pending == 0


async def test_open_connections_outlive_a_renewal(store: Store) -> None:
    clock = VirtualClock()
    async with hosted(store, clock) as hosting:
        port = await hosting.reserve("a")
        await hosting.serve("a", pki.new_authority("kubernetes", now=clock.now()))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        try:
            before = await shown_by(port)
            await clock.advance(300 * DAY)
            assert await shown_by(port) != before
            writer.write(b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"200 OK" in await reader.readline()
        finally:
            writer.close()
            await writer.wait_closed()


async def test_hosted_servers_are_held_in_reach_and_in_size(store: Store) -> None:
    clock = VirtualClock(datetime.datetime.now(datetime.UTC))
    hosting = Hosting(store, host="127.0.0.1", clock=clock, quota=1_500_000)
    try:
        bench = Bench(await hosting.serve("a", pki.new_authority("kubernetes", now=clock.now())), Clock(), store)
        async with listening() as webhook:
            check = hook("check", webhook.client_config(), rule(CONFIG_MAPS, "CREATE"))
            await bench.create(VALIDATING, configuration(VALIDATING, "check", check))
            with pytest.raises(errors.InternalError, match="the address is not reachable"):
                await bench.create(CONFIG_MAPS, config_map("a", 10))
            assert webhook.requests == []
            await bench.call("deletecollection", VALIDATING)
        await bench.create(CONFIG_MAPS, config_map("a", 900_000))
        with pytest.raises(errors.Forbidden, match="exceeded quota"):
            await bench.create(CONFIG_MAPS, config_map("b", 900_000))
    finally:
        await hosting.close()
