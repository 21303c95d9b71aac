"""The HTTPS client against a server that says what the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from steelyard.kube import errors
from steelyard.kube.client import http
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import WatchEvent
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NODES, Resource
from tests.kube.client.servers import Handler, answering, client_of, serving


class Seen:
    """Answers every request with an empty object and keeps what was asked."""

    def __init__(self) -> None:
        self.method = self.path = self.content_type = self.body = ""
        self.query: dict[str, str] = {}
        self.headers: dict[str, str] = {}

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.method, self.path, self.query = request.method, request.raw_path.partition("?")[0], dict(request.query)
        self.content_type = request.content_type
        self.body = await request.text()
        self.headers = dict(request.headers)
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}]})


CONFIG_MAP: Object = {"metadata": {"name": "a", "namespace": "b"}}
Act = Callable[[HttpClient], Awaitable[Any]]
REQUESTS: dict[str, tuple[Act, str, str, dict[str, str]]] = {
    "get": (lambda c: c.get(CONFIG_MAPS, "a", "b"), "GET", "/api/v1/namespaces/b/configmaps/a", {}),
    "a name is quoted": (lambda c: c.get(NODES, "system:a/b"), "GET", "/api/v1/nodes/system%3Aa%2Fb", {}),
    "list": (
        lambda c: c.list(CONFIG_MAPS, label_selector="a=b,c", field_selector="d=e", limit=5, continue_token="t="),
        "GET",
        "/api/v1/configmaps",
        {"labelSelector": "a=b,c", "fieldSelector": "d=e", "limit": "5", "continue": "t="},
    ),
    "create": (
        lambda c: c.create(CONFIG_MAPS, CONFIG_MAP, dry_run=True),
        "POST",
        "/api/v1/namespaces/b/configmaps",
        {"dryRun": "All"},
    ),
    "update": (
        lambda c: c.update(CONFIG_MAPS, CONFIG_MAP, subresource="status"),
        "PUT",
        "/api/v1/namespaces/b/configmaps/a/status",
        {},
    ),
    "apply": (
        lambda c: c.apply(CONFIG_MAPS, CONFIG_MAP, field_manager="me", force=False),
        "PATCH",
        "/api/v1/namespaces/b/configmaps/a",
        {"fieldManager": "me", "force": "false"},
    ),
    "deletecollection": (
        lambda c: c.delete_collection(CONFIG_MAPS, "b", label_selector="x"),
        "DELETE",
        "/api/v1/namespaces/b/configmaps",
        {"labelSelector": "x"},
    ),
    "a group has its own root": (
        lambda c: c.get(Resource("g.io", "v1", "things", "Thing"), "a", "b"),
        "GET",
        "/apis/g.io/v1/namespaces/b/things/a",
        {},
    ),
}


@pytest.mark.parametrize("case", list(REQUESTS))
async def test_calls_are_the_requests_kubernetes_knows(case: str) -> None:
    act, method, path, query = REQUESTS[case]
    seen = Seen()
    async with answering(seen) as client:
        await act(client)
    assert (seen.method, seen.path, seen.query) == (method, path, query)


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("merge", "application/merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
    ],
)
async def test_patches_say_their_type(kind: http.PatchKind, content_type: str) -> None:
    seen = Seen()
    async with answering(seen) as client:
        await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, "b", kind=kind)
    assert (seen.content_type, seen.body) == (content_type, '{"data":{"x":"1"}}')


async def test_delete_carries_preconditions_and_propagation() -> None:
    seen = Seen()
    async with answering(seen) as client:
        await client.delete(CONFIG_MAPS, "a", "b", propagation="Foreground", uid="u", resource_version="3")
    assert '"propagationPolicy":"Foreground","preconditions":{"uid":"u","resourceVersion":"3"}' in seen.body


async def test_items_of_a_list_carry_their_kind() -> None:
    async with answering(Seen()) as client:
        listing = await client.list(CONFIG_MAPS)
    assert listing.resource_version == "7"
    assert listing.items[0]["kind"] == "ConfigMap"
    assert listing.items[0]["apiVersion"] == "v1"


async def test_token_and_user_agent_are_sent(tmp_path: Path) -> None:
    seen = Seen()
    token = tmp_path / "token"
    token.write_text("from-file\n")
    async with serving(seen) as server:
        async with client_of(server, token="fixed") as client:
            await client.get(NODES, "a")
            assert seen.headers["Authorization"] == "Bearer fixed"
            assert seen.headers["User-Agent"].startswith("steelyard/")
        async with client_of(server, token_file=str(token)) as client:
            await client.get(NODES, "a")
            assert seen.headers["Authorization"] == "Bearer from-file"
        async with client_of(server, token_file=str(tmp_path / "absent")) as client:
            with pytest.raises(errors.Unauthorized, match="cannot read the token file"):
                await client.get(NODES, "a")


async def test_status_of_the_server_becomes_its_error() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        status = errors.invalid("g", "Thing", "a", [errors.Cause("spec.x", "FieldValueRequired", "Required value")])
        return web.json_response(status.status(), status=422)

    async with answering(handler) as client:
        with pytest.raises(errors.Invalid) as caught:
            await client.get(NODES, "a")
    assert caught.value.causes[0].field == "spec.x"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (502, errors.InternalError),
        (503, errors.ServiceUnavailable),
        (404, errors.NotFound),
        (301, errors.InternalError),
    ],
)
async def test_answer_of_something_else_than_an_api_is_told_with_code_and_text(
    code: int, expected: type[errors.ApiError]
) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=code, text="<html>proxy</html>", headers={"Location": "/"} if code == 301 else None)

    async with answering(handler) as client:
        with pytest.raises(expected, match=rf"answered {code}: <html>proxy"):
            await client.get(NODES, "a")


async def test_busy_server_is_asked_again_by_reads_alone() -> None:
    calls: list[str] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        calls.append(request.method)
        if len(calls) == 1:
            return web.json_response(errors.TooManyRequests("busy").status(), status=429, headers={"Retry-After": "1"})
        if request.method == "POST":
            return web.json_response(errors.TooManyRequests("busy", retry_after=1).status(), status=429)
        return web.json_response({})

    async with answering(handler) as client:
        assert await client.get(NODES, "a") == {}
        with pytest.raises(errors.TooManyRequests):
            await client.create(NODES, {"metadata": {}})
    assert calls == ["GET", "GET", "POST"]


async def test_busy_server_without_a_time_to_wait_is_not_asked_again() -> None:
    calls = 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal calls
        calls += 1
        return web.json_response(errors.TooManyRequests("busy").status(), status=429)

    async with answering(handler) as client:
        with pytest.raises(errors.TooManyRequests):
            await client.get(NODES, "a")
    assert calls == 1


async def test_refused_connection_names_the_server() -> None:
    async with serving(Seen()) as server:
        pass
    async with client_of(server) as client:
        with pytest.raises(errors.ServiceUnavailable, match=f"cannot connect to {server}"):
            await client.get(NODES, "a")
        with pytest.raises(errors.ServiceUnavailable, match=f"cannot connect to {server}"):
            await anext(aiter(client.watch(NODES, resource_version="1")))


async def test_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "TOTAL_SECONDS", 0.05)

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(5)
        return web.json_response({})

    async with answering(handler) as client:
        with pytest.raises(errors.ServiceUnavailable, match="did not answer in time"):
            await client.get(NODES, "a")
        with pytest.raises(errors.ServiceUnavailable, match="did not answer in time"):
            await anext(aiter(client.watch(NODES, resource_version="1")))


async def test_server_that_hangs_up_is_told() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport
        request.transport.abort()
        return web.Response()

    async with answering(handler) as client:
        with pytest.raises(errors.ServiceUnavailable, match="closed the connection"):
            await client.get(NODES, "a")


def stream_of(*chunks: bytes, hang: bool = False, cut: bool = False) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.01)
        if hang:
            await asyncio.sleep(5)
        if cut and request.transport:
            request.transport.abort()
        return response

    return handler


async def collected(client: HttpClient) -> list[WatchEvent]:
    return [event async for event in client.watch(NODES, resource_version="1")]


async def test_watch_yields_events_however_the_bytes_are_cut_until_the_server_ends_it() -> None:
    handler = stream_of(
        b'{"type":"ADDED","object":{"metadata":{"na',
        b'me":"a"}}}\n{"type":"BOOKMARK","object":{}}\n{"type":"DEL',
        b'ETED","object":{"metadata":{"name":"' + b"x" * 300_000 + b'"}}}\n',
    )
    async with answering(handler) as client:
        events = await collected(client)
    assert [event.type for event in events] == ["ADDED", "BOOKMARK", "DELETED"]
    assert events[0].object == {"metadata": {"name": "a"}}


async def test_watch_asks_for_bookmarks_from_a_revision() -> None:
    seen = Seen()
    async with answering(seen) as client:
        async for _ in client.watch(CONFIG_MAPS, "b", resource_version="9", label_selector="x=y"):
            break
    assert seen.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "9",
        "labelSelector": "x=y",
    }


async def test_expired_watch_says_so_in_the_answer_or_in_the_stream() -> None:
    async def gone(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(errors.Expired("too old").status(), status=410)

    async with answering(gone) as client:
        with pytest.raises(errors.Expired):
            await collected(client)
    line = b'{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410,"message":"too old"}}\n'
    async with answering(stream_of(line)) as client:
        with pytest.raises(errors.Expired):
            await collected(client)


async def test_watch_that_is_cut_off_is_a_failure_and_one_that_falls_silent_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = b'{"type":"ADDED","object":{}}\n'
    async with answering(stream_of(line, cut=True)) as client:
        with pytest.raises(errors.ServiceUnavailable, match="closed the connection"):
            await collected(client)
    monkeypatch.setattr(http, "WATCH", http.aiohttp.ClientTimeout(total=None, sock_read=0.1))
    async with answering(stream_of(line, hang=True)) as client:
        assert len(await collected(client)) == 1


async def test_closed_client_can_be_used_again() -> None:
    async with answering(Seen()) as client:
        await client.get(NODES, "a")
        await client.close()
        assert await client.get(NODES, "a")


async def test_many_requests_at_once_share_few_connections_and_watches_do_not_count() -> None:
    active = most = 0
    connections: set[int] = set()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal active, most
        if "watch" in request.query:
            return await stream_of(hang=True)(request)
        connections.add(id(request.transport))
        active += 1
        most = max(most, active)
        await asyncio.sleep(0.01)
        active -= 1
        return web.json_response({})

    async with answering(handler) as client:
        watching = [asyncio.create_task(collected(client)) for _ in range(20)]
        await asyncio.sleep(0.05)
        await asyncio.gather(*(client.get(NODES, "a") for _ in range(60)))
        for task in watching:
            task.cancel()
        await asyncio.wait(watching)
    assert most <= 16
    assert len(connections) <= 16


async def test_answers_beyond_what_was_agreed_are_not_read() -> None:
    sent = 0

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        assert request.headers["Accept-Encoding"] == "identity"
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b"x" * 100_000)
            sent += 1
        return response

    async with serving(endless) as server:
        client = HttpClient(Connection(server), max_answer_bytes=1_000_000)
        try:
            with pytest.raises(errors.ServiceUnavailable, match="more than 1000000 bytes, which were not read"):
                await client.get(NODES, "a")
            with pytest.raises(errors.ServiceUnavailable, match="more than 1000000 bytes"):
                async for _ in client.watch(NODES, resource_version="1"):
                    pass
        finally:
            await client.close()
    assert sent < 1000
