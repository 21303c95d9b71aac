from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from steelyard.kube.runtime.clock import VirtualClock
from steelyard.kube.server import hosting as hostings
from steelyard.kube.server.hosting import Hosting, PortTaken
from steelyard.kube.store.store import Store


@contextlib.asynccontextmanager
async def hosted(store: Store) -> AsyncGenerator[Hosting]:
    hosting = Hosting(store, host="127.0.0.1", clock=VirtualClock())
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
