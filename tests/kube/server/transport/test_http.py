"""The API over HTTPS, spoken to by an ordinary client."""

from __future__ import annotations

import asyncio
import gzip
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import orjson
import pytest
import yaml

from steelyard.kube import pki
from steelyard.kube.server.bodies.documents import Document
from steelyard.kube.server.call import SYSTEM_MASTERS, Call, Reply
from steelyard.kube.server.catalogue import discovery
from steelyard.kube.server.fairness import budgets
from steelyard.kube.server.transport.application import WatchStream
from tests.kube.server import serving
from tests.kube.server.serving import Site, served

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class Backend:
    """Answers with what a test puts in."""

    def __init__(self, reply: Reply | Exception) -> None:
        self.reply = reply
        self.called = asyncio.Event()
        self.wait: asyncio.Event | None = None

    async def call(self, call: Call) -> Reply:
        self.called.set()
        if self.wait is not None:
            await self.wait.wait()
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    async def watch(self, call: Call) -> WatchStream:
        raise NotImplementedError

    def authorize(self, call: Call) -> None:
        return None

    def check(self, call: Call) -> None:
        return None

    def size(self, call: Call) -> int:
        return 0

    def document(self, path: str, accept: str) -> Document | None:
        return None

    def paths(self) -> list[str]:
        return []


async def test_the_index_lists_every_path_whatever_the_method(site: Site) -> None:
    paths: list[str] = []
    for method, path in (("GET", "/"), ("POST", "/"), ("GET", "/index.html")):
        answer = await site.request(method, path, headers={"Accept": "text/plain"})
        assert (answer.code, answer.headers["Content-Type"]) == (200, "application/json")
        paths = answer.json()["paths"]
        assert paths == sorted(paths)
        assert {"/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz", "/openapi/v3", "/version"} <= set(paths)
    # The last is where documents begin, as upstream lists it.
    listed = [each for each in paths if each != "/openapi/v3/"]
    assert [each for each in listed if (await site.request("GET", each)).code != 200] == [], "what is listed is there"
    assert (await site.request("GET", "//")).code == 404


async def test_the_index_is_for_those_who_may_read_it(site: Site) -> None:
    answer = await site.request("GET", "/", token=serving.JANE_TOKEN)
    assert (answer.code, answer.json()["message"]) == (403, 'forbidden: User "jane" cannot get path "/"')
    answer = await site.request("GET", "/", token=None)
    assert (answer.code, answer.json()["message"]) == (403, 'forbidden: User "system:anonymous" cannot get path "/"')


async def test_an_object_goes_through_its_life(site: Site) -> None:
    created = await site.request("POST", CONFIG_MAPS, config_map("a", key="1"))
    assert created.code == 201
    assert created.headers["Content-Type"] == "application/json"
    assert created.json()["metadata"]["resourceVersion"]
    changed = await site.request(
        "PATCH", f"{CONFIG_MAPS}/a", {"data": {"key": "2"}}, headers={"Content-Type": "application/merge-patch+json"}
    )
    assert (changed.code, changed.json()["data"]) == (200, {"key": "2"})
    listed = await site.request("GET", f"{CONFIG_MAPS}?limit=1")
    assert [item["metadata"]["name"] for item in listed.json()["items"]] == ["a"]
    assert (await site.request("DELETE", f"{CONFIG_MAPS}/a")).code == 200
    gone = await site.request("GET", f"{CONFIG_MAPS}/a")
    assert gone.code == 404
    assert gone.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "a" not found',
        "reason": "NotFound",
        "details": {"name": "a", "kind": "configmaps"},
        "code": 404,
    }


async def test_an_object_may_come_as_yaml_and_leave_as_yaml(site: Site) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {when: '2024-01-01'}\n"
    yaml_both_ways = {"Content-Type": "application/yaml", "Accept": "application/yaml"}
    created = await site.request("POST", CONFIG_MAPS, body, headers=yaml_both_ways)
    assert created.code == 201, created.body
    assert created.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(created.body)["data"] == {"when": "2024-01-01"}


async def test_a_table_is_served_to_those_who_print(site: Site) -> None:
    await site.request("POST", CONFIG_MAPS, config_map("a"))
    table = (await site.request("GET", CONFIG_MAPS, headers={"Accept": TABLE})).json()
    assert table["kind"] == "Table"
    assert table["rows"][0]["cells"][0] == "a"


async def test_who_names_no_field_manager_is_known_by_the_program(site: Site) -> None:
    created = await site.request(
        "POST", CONFIG_MAPS, config_map("a", k="v"), headers={"User-Agent": "kubectl/v1.34 (x)"}
    )
    assert created.json()["metadata"]["managedFields"][0]["manager"] == "kubectl"


async def test_head_is_get_without_the_body(site: Site) -> None:
    answer = await site.request("HEAD", "/apis/apps")
    assert (answer.code, answer.body) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 0
    assert (await site.request("HEAD", CONFIG_MAPS)).code == 405, "built-in resources have no HEAD, as upstream's"


@pytest.mark.parametrize("path", ["namespaces", "namespaces/default", "namespaces?watch=1"])
async def test_builtin_kinds_have_no_head(site: Site, path: str) -> None:
    answer = await site.request("HEAD", f"/api/v1/{path}")
    assert (answer.code, answer.body) == (405, b"")


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "code", "reason"),
    [
        pytest.param("GET", "/api/v1/things", None, {}, 404, "NotFound", id="unknown resource"),
        pytest.param("PUT", CONFIG_MAPS, b"{}", {}, 405, "MethodNotAllowed", id="method on a collection"),
        pytest.param("POST", f"{CONFIG_MAPS}/a", b"{}", {}, 405, "MethodNotAllowed", id="method on an object"),
        pytest.param("PUT", "/api/v1/nothing", b"{}", {}, 404, "NotFound", id="method on what is not served"),
        pytest.param("OPTIONS", CONFIG_MAPS, None, {}, 405, "MethodNotAllowed", id="method without a verb"),
        pytest.param("POST", "/api/v1/configmaps", b"{", {}, 405, "MethodNotAllowed", id="no namespace to create in"),
        pytest.param("POST", "/version", None, {}, 405, "MethodNotAllowed", id="method on the version"),
        pytest.param("POST", "/api/v1", None, {}, 405, "MethodNotAllowed", id="method on a list of resources"),
        pytest.param("DELETE", "/metrics", None, {}, 405, "MethodNotAllowed", id="method on metrics"),
        pytest.param("GET", "/apis/apps/v9", None, {}, 404, "NotFound", id="version of a group of Kubernetes' own"),
        pytest.param("GET", "/version/x", None, {}, 404, "NotFound", id="below the version"),
        pytest.param("POST", CONFIG_MAPS, b"{", {}, 400, "BadRequest", id="malformed JSON"),
        pytest.param("POST", CONFIG_MAPS, b"\xff", {}, 400, "BadRequest", id="not UTF-8"),
        pytest.param("GET", CONFIG_MAPS, None, {"Accept": "text/html"}, 406, "NotAcceptable", id="Accept"),
        pytest.param(
            "POST", CONFIG_MAPS, b"{}", {"Content-Type": "text/plain"}, 415, "UnsupportedMediaType", id="Content-Type"
        ),
        pytest.param(
            "POST", CONFIG_MAPS, b" " * (budgets.MAX_BODY_BYTES + 1), {}, 413, "RequestEntityTooLarge", id="too large"
        ),
        pytest.param("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=x", None, {}, 400, "BadRequest", id="watch"),
    ],
)  # fmt: skip
async def test_whatever_is_wrong_is_answered_with_a_status(
    site: Site, method: str, path: str, body: bytes | None, headers: dict[str, str], code: int, reason: str
) -> None:
    answer = await site.request(method, path, body, headers=headers)
    status = answer.json()
    assert (answer.code, status["code"], status["reason"]) == (code, code, reason)
    assert status["kind"] == "Status"
    assert status["message"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("POST", "localsubjectaccessreviews", 404, id="asked in no namespace"),
        pytest.param("GET", "localsubjectaccessreviews", 404, id="a list of all namespaces"),
        pytest.param("PUT", "localsubjectaccessreviews", 404, id="no such method anywhere"),
        pytest.param("GET", "namespaces/default/localsubjectaccessreviews", 405, id="a list where one can ask"),
        pytest.param("GET", "namespaces/default/localsubjectaccessreviews/a", 404, id="an object of a namespace"),
        pytest.param("GET", "subjectaccessreviews?watch=1", 405, id="a watch where one can ask"),
        pytest.param("GET", "subjectaccessreviews/a", 404, id="an object"),
        pytest.param("POST", "subjectaccessreviews/a", 404, id="a question with a name"),
    ],
)
async def test_a_path_without_any_method_is_not_found(site: Site, method: str, path: str, code: int) -> None:
    answer = await site.request(method, f"/apis/authorization.k8s.io/v1/{path}")
    message = {
        404: "the server could not find the requested resource",
        405: "the server does not allow this method on the requested resource",
    }
    assert (answer.code, answer.json()["message"]) == (code, message[code])


@pytest.mark.parametrize("path", ["/nothing/here", "/apis/none.io/v1/things", "/apis/none.io/v1", "/apis//v1"])
async def test_where_nothing_is_served_the_answer_is_plain_text(site: Site, path: str) -> None:
    answer = await site.request("GET", path)
    assert (answer.code, answer.body) == (404, b"404 page not found\n")
    assert answer.headers["Content-Type"].startswith("text/plain")


async def test_a_body_of_unknown_length_is_cut_off_at_the_limit(site: Site) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * 65536

    async with site.session.post(
        site.url(CONFIG_MAPS), data=endless(), headers=site.headers, ssl=serving.client_context()
    ) as response:
        assert response.status == 413


async def test_an_unexpected_error_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    async with served(Backend(RuntimeError("inner detail"))) as site:
        with caplog.at_level(logging.ERROR):
            answer = await site.request("GET", CONFIG_MAPS)
    assert answer.code == 500
    assert b"inner detail" not in answer.body
    assert "inner detail" in caplog.text


async def test_warnings_reach_the_client(site: Site) -> None:
    backend = Backend(Reply(200, {"kind": "X"}, warnings=('say "no"\nto this', "é")))
    async with served(backend) as site:
        reader, writer = await site.connect()
        writer.write(b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert b'warning: 299 - "say \\"no\\" to this"\r\n' in head
    assert 'warning: 299 - "é"\r\n'.encode() in head


async def test_a_document_of_openapi_is_kept_under_its_hash(site: Site) -> None:
    path = "/openapi/v3/apis/authorization.k8s.io/v1"
    moved = await site.request("GET", f"{path}?hash=old")
    assert (moved.code, moved.body) == (301, b"")
    current = moved.headers["Location"]
    found = await site.request("GET", current)
    assert (found.code, found.headers["Cache-Control"]) == (200, "public, immutable")
    assert current == f"{path}?hash={found.headers['ETag'][1:-1]}"
    again = await site.request("GET", path, headers={"If-None-Match": found.headers["ETag"]})
    assert (again.code, again.headers["Cache-Control"]) == (304, "no-cache, private")
    assert (await site.request("GET", "/openapi/v3/apis/none.io/v1")).code == 404


async def test_large_answers_are_compressed_for_those_who_can_read_them() -> None:
    body = b'{"text":"' + b"x" * 200_000 + b'"}'
    async with served(Backend(Reply(200, raw=body))) as site:
        answer = await site.request("GET", CONFIG_MAPS, headers={"Accept-Encoding": "gzip"})
        assert answer.headers["Content-Encoding"] == "gzip"
        assert len(answer.body) < 10_000
        assert gzip.decompress(answer.body) == body
        plain = await site.request("GET", CONFIG_MAPS, headers={"Accept-Encoding": "identity"})
        assert plain.body == body


class TestWhoCalls:
    async def test_a_wrong_token_is_refused(self, site: Site) -> None:
        answer = await site.request("GET", "/version", token="wrong")
        assert (answer.code, answer.json()["reason"], answer.json()["message"]) == (401, "Unauthorized", "Unauthorized")

    async def test_without_credentials_only_health_and_version_are_open(self, site: Site) -> None:
        for path in ("/healthz", "/livez", "/readyz", "/version"):
            assert (await site.request("GET", path, token=None)).code == 200
        for path in ("/api", "/metrics", CONFIG_MAPS):
            answer = await site.request("GET", path, token=None)
            assert answer.code == 403
            assert 'User "system:anonymous" cannot' in answer.json()["message"]

    async def test_a_user_without_rights_may_discover_and_nothing_else(self, site: Site) -> None:
        assert (await site.request("GET", "/apis", token=serving.JANE_TOKEN)).code == 200
        answer = await site.request("GET", CONFIG_MAPS, token=serving.JANE_TOKEN)
        assert answer.code == 403
        assert answer.json()["message"] == (
            'configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group ""'
            ' in the namespace "default"'
        )
        assert (await site.request("POST", CONFIG_MAPS, b"{", token=serving.JANE_TOKEN)).code == 403

    async def test_a_client_certificate_names_user_and_groups(self, site: Site) -> None:
        admin = pki.issue_client(serving.AUTHORITY, "root", [SYSTEM_MASTERS], now=serving.NOW)
        assert (await site.request("GET", CONFIG_MAPS, token=None, certificate=admin)).code == 200
        other = pki.issue_client(serving.AUTHORITY, "joe", now=serving.NOW)
        answer = await site.request("GET", CONFIG_MAPS, token=None, certificate=other)
        assert answer.code == 403
        assert 'User "joe"' in answer.json()["message"]

    async def test_a_space_before_the_token_is_told_of(self, site: Site) -> None:
        answer = await site.request("GET", CONFIG_MAPS, headers={"Authorization": "Bearer  x"})
        assert answer.code == 403
        assert answer.headers["Warning"] == (
            '299 - "the provided Authorization header contains extra space before the bearer token, and is ignored"'
        )

    async def test_impersonating_nobody_is_refused_before_anything_else(self, site: Site) -> None:
        answer = await site.request("GET", f"{CONFIG_MAPS}?limit=1", headers={"Impersonate-Group": "a"})
        assert (answer.code, answer.headers["Content-Type"]) == (500, "text/plain; charset=utf-8")
        assert answer.body.decode() == (
            f'Internal Server Error: "{CONFIG_MAPS}?limit=1": requested [{{Group  a    }}] without impersonating a '
            "user\n"
        )


class TestPathsThatAreNoResources:
    async def test_health(self, site: Site) -> None:
        assert (await site.request("GET", "/readyz")).body == b"ok"
        assert (await site.request("GET", "/livez/ping")).body == b"ok"
        assert (await site.request("GET", "/livez/unknown")).code == 404
        verbose = await site.request("GET", "/healthz?verbose")
        assert verbose.body == b"[+]ping ok\nhealthz check passed\n"

    @pytest.mark.parametrize(
        ("path", "code", "body"),
        [
            ("/readyz?exclude=ping", 200, b"ok"),
            ("/readyz?verbose&exclude=ping", 200, b"[+]ping excluded: ok\nreadyz check passed\n"),
            (
                "/livez?verbose&exclude=x",
                200,
                b'[+]ping ok\nwarn: some health checks cannot be excluded: no matches for "x"\nlivez check passed\n',
            ),
            ("/healthz/", 404, b"404 page not found\n"),
            ("/readyz/ping/", 404, b"404 page not found\n"),
        ],
    )
    async def test_checks_are_left_out_and_paths_are_exact(self, site: Site, path: str, code: int, body: bytes) -> None:
        answer = await site.request("GET", path)
        assert (answer.code, answer.body) == (code, body)

    async def test_health_names_what_failed_and_tells_the_reason_only_where_it_takes_a_right(self) -> None:
        async with served(Backend(Reply(200)), checks={"store": lambda: "disk full"}) as site:
            answer = await site.request("GET", "/readyz")
            reason = await site.request("GET", "/readyz/store")
        assert (reason.code, reason.body) == (500, b"internal server error: disk full\n")
        assert answer.code == 500
        assert answer.body == b"[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n"

    async def test_version(self) -> None:
        async with served(Backend(Reply(200)), version="v1.33.7") as site:
            found = (await site.request("GET", "/version")).json()
        assert (found["major"], found["minor"], found["gitVersion"]) == ("1", "33", "v1.33.7")

    async def test_discovery_is_not_sent_again_to_those_who_have_it(self, site: Site) -> None:
        aggregated = {"Accept": discovery.AGGREGATED_V2}
        first = await site.request("GET", "/apis", headers=aggregated)
        assert first.json()["kind"] == "APIGroupDiscoveryList"
        assert first.headers["Cache-Control"] == "public"
        again = await site.request("GET", "/apis", headers={**aggregated, "If-None-Match": first.headers["ETag"]})
        assert (again.code, again.body) == (304, b"")

    async def test_metrics_count_requests_by_what_they_asked_for(self, site: Site) -> None:
        await site.request("GET", "/api/v1/namespaces/default")
        await site.request("GET", "/api/v1/namespaces/default")
        await site.request("GET", "/apis/made.up/v1/names")
        text = (await site.request("GET", "/metrics")).body.decode()
        asked = 'apiserver_request_total{code="200",group="",resource="namespaces",verb="GET",version="v1"} 2.0'
        labels = 'le="+Inf",resource="namespaces",verb="GET",version="v1"'
        assert asked in text
        assert f'apiserver_request_duration_seconds_bucket{{group="",{labels}}} 2.0' in text
        assert "made.up" not in text


async def test_requests_are_answered_while_an_openapi_document_is_made() -> None:
    class Slow(Backend):
        def document(self, path: str, accept: str) -> Document | None:
            made.wait(60)
            return None

    made = threading.Event()
    async with served(Slow(Reply(200, {"kind": "X"}))) as site:
        asked = asyncio.create_task(site.request("GET", "/openapi/v2"))
        assert (await site.request("GET", CONFIG_MAPS)).code == 200
        assert not asked.done()
        made.set()
        assert (await asked).code == 404


class TestWatch:
    async def test_events_are_lines_as_they_happen(self, site: Site) -> None:
        async with site.session.get(
            site.url(f"{CONFIG_MAPS}?watch=true"), headers=site.headers, ssl=serving.client_context()
        ) as response:
            assert response.headers["Transfer-Encoding"] == "chunked"
            await site.request("POST", CONFIG_MAPS, config_map("a"))
            await site.request("DELETE", f"{CONFIG_MAPS}/a")
            seen: list[tuple[str, str]] = []
            async with asyncio.timeout(60):
                while len(seen) < 2:
                    event = orjson.loads(await response.content.readline())
                    seen.append((event["type"], event["object"]["metadata"]["name"]))
        assert seen == [("ADDED", "a"), ("DELETED", "a")]

    async def test_it_ends_when_the_client_said(self, site: Site) -> None:
        async with asyncio.timeout(60):
            answer = await site.request("GET", f"{CONFIG_MAPS}?watch=true&timeoutSeconds=3&allowWatchBookmarks=true")
        assert answer.code == 200
        assert [orjson.loads(line)["type"] for line in answer.body.splitlines()][-1:] == ["BOOKMARK"]

    async def test_an_error_on_the_way_is_the_last_event(self) -> None:
        class Broken(Backend):
            async def watch(self, call: Call) -> WatchStream:
                return Stream()

        class Stream:
            async def batch(self) -> list[Any]:
                raise RuntimeError("inner detail")

            def when_cut_off(self, callback: Callable[[], None]) -> None: ...

            def close(self) -> None: ...

        async with served(Broken(Reply(200))) as site:
            answer = await site.request("GET", f"{CONFIG_MAPS}?watch=true")
        event = orjson.loads(answer.body)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 500)

    async def test_a_client_that_leaves_ends_its_watch(self) -> None:
        closed = asyncio.Event()

        class Stream:
            async def batch(self) -> list[Any]:
                await closed.wait()
                return []

            def when_cut_off(self, callback: Callable[[], None]) -> None: ...

            def close(self) -> None:
                closed.set()

        class Watched(Backend):
            async def watch(self, call: Call) -> WatchStream:
                return Stream()

        async with served(Watched(Reply(200))) as site:
            reader, writer = await site.connect()
            writer.write(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            assert not closed.is_set()
            writer.transport.abort()
            async with asyncio.timeout(60):
                await closed.wait()


class TestConnections:
    REQUEST = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"

    async def test_several_requests_may_be_sent_ahead(self, site: Site) -> None:
        reader, writer = await site.connect()
        writer.write(self.REQUEST * 3)
        for _ in range(3):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            assert orjson.loads(await reader.readexactly(length))["major"] == "1"
        writer.close()

    @pytest.mark.parametrize(
        ("target", "code", "body"),
        [
            (f"{CONFIG_MAPS}?limit=%zz", b"200", b'"kind":"ConfigMapList"'),
            (f"{CONFIG_MAPS}?labelSelector=a%3", b"200", b'"kind":"ConfigMapList"'),
            (f"{CONFIG_MAPS}?%zz=1&limit=x", b"400", b"strconv.ParseInt"),
            ("/readyz?verbose=%zz", b"200", b"ok"),
            ("/readyz?verbose=1;a", b"200", b"ok"),
        ],
    )
    async def test_a_parameter_with_a_bad_escape_is_none(
        self, site: Site, target: str, code: bytes, body: bytes
    ) -> None:
        reader, writer = await site.connect()
        head = f"Host: x\r\nAuthorization: Bearer {serving.ADMIN_TOKEN}\r\nConnection: close\r\n"
        writer.write(f"GET {target} HTTP/1.1\r\n{head}\r\n".encode())
        async with asyncio.timeout(60):
            status, _, answer = (await reader.read()).partition(b"\r\n")
        assert status.split()[1] == code
        assert body in answer.partition(b"\r\n\r\n")[2]
        assert b"ping" not in answer, "not verbose"
        writer.close()

    async def test_something_that_is_not_http_is_refused(self, site: Site) -> None:
        reader, writer = await site.connect()
        writer.write(b"\x00\x01\x02 nonsense\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()

    async def test_a_head_without_end_is_refused(self, site: Site) -> None:
        reader, writer = await site.connect()
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nX: ")
        writer.write(b"x" * 1024 * 1024)
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()

    async def test_closing_lets_requests_in_flight_finish_and_accepts_no_more(self) -> None:
        backend = Backend(Reply(200, {"kind": "Late"}))
        backend.wait = asyncio.Event()
        async with served(backend) as site:
            idle_reader, idle_writer = await site.connect()
            request = asyncio.create_task(site.request("GET", CONFIG_MAPS))
            async with asyncio.timeout(60):
                await backend.called.wait()
            closing = asyncio.create_task(site.listener.close())
            await asyncio.sleep(0.05)
            with pytest.raises(OSError):
                await site.connect()
            assert await idle_reader.read() == b"", "an idle connection is closed at once"
            idle_writer.close()
            backend.wait.set()
            assert (await request).json() == {"kind": "Late"}
            await closing

    async def test_closing_does_not_wait_for_ever(self) -> None:
        backend = Backend(Reply(200))
        backend.wait = asyncio.Event()
        async with served(backend) as site:
            request = asyncio.create_task(site.request("GET", CONFIG_MAPS))
            async with asyncio.timeout(60):
                await backend.called.wait()
                await site.listener.close(deadline=0.05)
            with pytest.raises(aiohttp.ClientError):
                await request


class TestRequestsInPieces:
    """What reaches the server is bytes in whatever portions the network makes of them."""

    HEAD = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {serving.ADMIN_TOKEN}\r\n".encode()
    BODY = orjson.dumps(config_map("a", key="value"))

    def whole(self, *headers: str) -> bytes:
        lines = "".join(f"{line}\r\n" for line in (f"Content-Length: {len(self.BODY)}", *headers))
        return self.HEAD + lines.encode() + b"\r\n" + self.BODY

    async def test_byte_by_byte(self, site: Site) -> None:
        reader, writer = await site.connect()
        for byte in self.whole():
            writer.write(bytes([byte]))
            await writer.drain()
        assert (await reader.readline()) == b"HTTP/1.1 201 Created\r\n"
        writer.close()

    async def test_in_chunks(self, site: Site) -> None:
        reader, writer = await site.connect()
        writer.write(self.HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(self.BODY), 10):
            part = self.BODY[start : start + 10]
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await asyncio.sleep(0.001)
        writer.write(b"0\r\n\r\n")
        assert (await reader.readline()) == b"HTTP/1.1 201 Created\r\n"
        writer.close()

    async def test_in_very_many_tiny_chunks(self, site: Site) -> None:
        reader, writer = await site.connect()
        writer.write(self.HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * (budgets.MAX_PIECES + 10))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        writer.close()

    async def test_a_client_that_waits_for_a_word_before_its_body_gets_it(self, site: Site) -> None:
        reader, writer = await site.connect()
        head, _, body = self.whole("Expect: 100-continue").partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await reader.readline()) == b"HTTP/1.1 201 Created\r\n"
        writer.close()

    async def test_who_is_not_known_is_refused_without_the_body(self, site: Site) -> None:
        reader, writer = await site.connect()
        writer.write(
            f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n"
            "Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n".encode()
        )
        assert (await reader.readline()) == b"HTTP/1.1 401 Unauthorized\r\n"
        writer.close()

    async def test_what_follows_a_body_that_is_too_large_is_answered(self, site: Site) -> None:
        reader, writer = await site.connect()
        size = budgets.MAX_BODY_BYTES + 1
        writer.write(self.HEAD + b"Content-Length: %d\r\n\r\n" % size)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 413 ")
        writer.write(b" " * size + self.whole("Connection: close"))
        assert b"HTTP/1.1 201 Created\r\n" in await reader.read()
        writer.close()

    @pytest.mark.parametrize(
        "request_",
        [
            pytest.param(b"GET /version HTTP/1.0\r\n\r\n", id="an old client"),
            pytest.param(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", id="one that asks for it"),
            pytest.param(
                b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n",
                id="one that wants another protocol",
            ),
            pytest.param(b"GET https://x/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", id="a proxy"),
        ],
    )
    async def test_the_connection_ends_after_the_answer_to(self, site: Site, request_: bytes) -> None:
        reader, writer = await site.connect()
        writer.write(request_)
        async with asyncio.timeout(60):
            answer = await reader.read()
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"connection: close" in head
        assert orjson.loads(body)["major"] == "1"
        writer.close()

    async def test_a_client_that_leaves_in_the_middle_of_its_body_is_forgotten(self, site: Site) -> None:
        _, writer = await site.connect()
        writer.write(self.HEAD + b"Content-Length: 100\r\n\r\n{")
        await asyncio.sleep(0.05)
        writer.transport.abort()
        async with asyncio.timeout(60):
            await site.listener.close()
