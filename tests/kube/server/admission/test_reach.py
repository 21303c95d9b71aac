"""Webhooks of a server that a tenant administers reach nothing but public addresses and what was listed for them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from steelyard.kube import errors
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.server.webhooks import reach as reaches
from steelyard.kube.server.webhooks.reach import PUBLIC, Reach, Resolver
from steelyard.kube.store.store import Store
from tests.kube.server.admission.hooks import VALIDATING, Hooks, configuration, hook, rule
from tests.kube.server.admission.test_conversion import NEW, OLD, definition
from tests.kube.server.bench import WIDGETS, Bench, eventually, make, widget

LOOPBACK = reaches.within(["127.0.0.0/8"])


@contextlib.asynccontextmanager
async def tenants(store: Store, reach: Reach = PUBLIC, *, space: str = "tenant") -> AsyncGenerator[Bench]:
    bench = await Bench.start(store, space=space, reach=reach)
    try:
        yield bench
    finally:
        await bench.api.close()


@pytest.fixture
async def tenant(store: Store) -> AsyncIterator[Bench]:
    async with tenants(store) as bench:
        yield bench


async def refusal(bench: Bench, url: str, **more: Any) -> str:
    """What a tenant reads whose webhook is there."""
    check = hook("check", {"url": url, **more}, rule(WIDGETS, "CREATE"), timeoutSeconds=1)
    await bench.create(VALIDATING, configuration(VALIDATING, "check", check))
    try:
        with pytest.raises(errors.InternalError) as caught:
            await bench.create(WIDGETS, widget("a"))
    finally:
        await bench.call("deletecollection", VALIDATING)
    return caught.value.message.replace(url, "URL")


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "169.254.169.254", "fe80::1%1", "224.0.0.1", "ff02::1"),
        *("10.1.2.3", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd00::1", "fec0::1", "255.255.255.255", "240.0.0.1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1"),
        *("2002:7f00:1::", "2001:0:7f00:1::", "::7f00:1", "198.18.0.1", "192.0.2.1", "2001:db8::1"),
    ],
)
def test_addresses_of_the_platform_and_around_it_are_out_of_reach(address: str) -> None:
    assert not PUBLIC.allows(address)
    assert reaches.ANYWHERE.allows(address)


def test_public_addresses_are_in_reach_however_they_are_written() -> None:
    assert all(PUBLIC.allows(each) for each in ("8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808"))
    assert PUBLIC.allows("::ffff:8.8.8.8")


def test_addresses_of_this_machine_are_out_of_reach_even_if_public(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[Any] = []

    def bind(_: socket.socket, address: Any) -> None:
        bound.append(address)

    monkeypatch.setattr(socket.socket, "bind", bind)
    assert not PUBLIC.allows("8.8.8.8")
    assert bound == [("8.8.8.8", 0)]


def test_listed_networks_are_in_reach() -> None:
    listed = reaches.within(["10.20.0.0/16", "fd00::/64"])
    assert all(map(listed.allows, ("10.20.1.1", "::ffff:10.20.1.1", "fd00::1")))
    assert not listed.allows("10.21.1.1")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0177.0.0.1", "0x7f.1", "[::ffff:127.0.0.1]"])
async def test_no_spelling_of_loopback_is_called(tenant: Bench, webhook: Hooks, host: str) -> None:
    config = webhook.client_config()
    told = await refusal(tenant, f"https://{host}:{webhook.port}/", caBundle=config["caBundle"])
    assert (
        'failed calling webhook "check.example.com": failed to call webhook: Post "URL?timeout=1s": no answer' in told
    )
    assert webhook.requests == []


async def test_name_that_resolves_anew_is_judged_by_the_address_that_is_called(
    tenant: Bench, webhook: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["8.8.8.8", "127.0.0.1", "127.0.0.1", "127.0.0.1"])

    async def resolve(self: Resolver, host: str, port: int = 0, family: int = 0) -> list[Any]:
        address = next(answers)
        return [{"hostname": host, "host": address, "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}]

    def connect(_: socket.socket, address: Any) -> None:
        called.append(address[0])
        raise ConnectionRefusedError

    called: list[str] = []
    monkeypatch.setattr(Resolver, "resolve", resolve)
    monkeypatch.setattr(socket.socket, "connect", connect)
    for _ in range(2):
        await refusal(tenant, f"https://rebound.example:{webhook.port}/")
    assert set(called) == {"8.8.8.8"}


async def test_names_that_take_long_hold_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    answered, asked = threading.Event(), list[str]()

    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        if host != "quick":
            answered.wait(120)
            raise OSError("no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    slow, other = Resolver(), Resolver()
    waiting = [asyncio.ensure_future(slow.resolve(f"slow{n}")) for n in range(10)]
    async with asyncio.timeout(60):
        while len(asked) < 2:  # noqa: ASYNC110 (threads fill it)
            await asyncio.sleep(0.01)
    for each in waiting[:2]:
        each.cancel()
    await asyncio.sleep(0.05)
    assert len(asked) == 2, "those who gave up leave their threads behind"
    [found] = await asyncio.wait_for(other.resolve("quick"), 60)
    assert found["host"] == "8.8.8.8"
    answered.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, (OSError, asyncio.CancelledError)) for each in results)


async def test_redirects_are_not_followed(store: Store, webhook: Hooks) -> None:
    webhook.raw["/"] = web.Response(status=307, headers={"Location": webhook.url("/inner")})
    async with tenants(store, LOOPBACK) as bench:
        config = webhook.client_config()
        told = await refusal(bench, config["url"], caBundle=config["caBundle"])
    assert "the server responded with the status code 307" in told
    assert webhook.paths() == ["/"]


@contextlib.asynccontextmanager
async def listener(answer: bytes | None) -> AsyncGenerator[int]:
    """Says something that is no TLS, or nothing at all."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer is not None:
            writer.write(answer)
        else:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_what_listens_where_cannot_be_told_from_the_answers(store: Store, webhook: Hooks) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = free.getsockname()[1]
        async with tenants(store, LOOPBACK) as bench, listener(b"SSH-2.0\r\n") as other, listener(None) as silent:
            told = {
                "closed": await refusal(bench, f"https://127.0.0.1:{closed}/"),
                "no TLS": await refusal(bench, f"https://127.0.0.1:{other}/"),
                "silent": await refusal(bench, f"https://127.0.0.1:{silent}/"),
                "untrusted": await refusal(bench, webhook.url()),
                "no name": await refusal(bench, "https://nowhere.invalid/"),
                "forbidden": await refusal(bench, "https://10.0.0.1/"),
            }
    assert len(set(told.values())) == 1, told


async def test_conversion_reaches_no_further(tenant: Bench, webhook: Hooks) -> None:
    await tenant.create(CUSTOM_RESOURCE_DEFINITIONS, definition(webhook))
    await tenant.create(NEW, make(NEW, "a", {"address": "h", "port": 1}))
    with pytest.raises(errors.ApiError, match=r"conversion webhook for .* failed: .*no answer"):
        await tenant.get(OLD, "a")
    assert webhook.requests == []


async def test_slow_webhooks_of_one_tenant_hold_up_nobody_else(store: Store, webhook: Hooks) -> None:
    async def slow(_: Any) -> Any:
        await asyncio.sleep(30)

    webhook.answers["/"] = slow
    async with tenants(store, LOOPBACK) as bench, tenants(store, space="other") as other:
        check = hook("check", webhook.client_config(), rule(WIDGETS, "CREATE"), timeoutSeconds=3)
        await bench.create(VALIDATING, configuration(VALIDATING, "check", check))
        waiting = [asyncio.ensure_future(bench.create(WIDGETS, widget(f"w{n}"))) for n in range(100)]
        await eventually(lambda: bool(webhook.requests))
        await other.create(WIDGETS, widget("a"))
        assert not any(each.done() for each in waiting[:16]), "it was before anybody gave up"
        assert len(webhook.requests) <= 16
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, errors.InternalError) for each in results)
