"""The audit log: what it tells of each request, what it never tells, and that it costs little."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from steelyard.kube.server.api import Api
from steelyard.kube.server.call import User
from steelyard.kube.server.routing import Route
from steelyard.kube.server.transport import audit
from steelyard.kube.server.transport.audit import AuditLog, Entry
from steelyard.kube.store.store import Store
from tests.kube.server import serving
from tests.kube.server.serving import Site

SECRETS = "/api/v1/namespaces/default/secrets"


class Logged(NamedTuple):
    site: Site
    path: Path

    async def events(self, number: int) -> list[dict[str, Any]]:
        for _ in range(200):
            if self.path.exists():
                found = [orjson.loads(line) for line in self.path.read_bytes().splitlines()]
                if len(found) >= number:
                    return found
            await asyncio.sleep(0.02)
        raise AssertionError(self.path.read_text() if self.path.exists() else "no log")


@pytest.fixture
async def logged(tmp_path: Path) -> AsyncGenerator[Logged]:
    store = await Store.open(tmp_path / "db")
    api = await Api.start(store)
    log = AuditLog(tmp_path / "audit.log", max_bytes=1_000_000, keep=2)
    async with serving.served(api, audit=log) as site:
        yield Logged(site, tmp_path / "audit.log")
    await log.close()
    await api.close()
    await store.close()


async def test_a_write_is_told_with_who_what_and_outcome_and_without_its_body(logged: Logged) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"password": "hunter2"}}
    assert (await logged.site.request("POST", SECRETS, body, headers={"User-Agent": "tester/1"})).code == 201
    (event,) = await logged.events(1)
    assert b"hunter2" not in logged.path.read_bytes()
    assert stat.S_IMODE(logged.path.stat().st_mode) == 0o600
    received, answered = event.pop("requestReceivedTimestamp"), event.pop("stageTimestamp")
    assert received <= answered
    assert received.endswith("Z")
    assert len(event.pop("auditID")) == 36
    assert event == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "stage": "ResponseComplete",
        "requestURI": SECRETS,
        "verb": "create",
        "user": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "tester/1",
        "objectRef": {"resource": "secrets", "namespace": "default", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "annotations": {"authorization.k8s.io/decision": "allow"},
    }


async def test_refusals_are_told_as_such(logged: Logged) -> None:
    await logged.site.request("GET", f"{SECRETS}/none")
    await logged.site.request("DELETE", f"{SECRETS}/a", token=serving.JANE_TOKEN)
    await logged.site.request("GET", SECRETS, token="wrong")
    await logged.site.request("GET", "/healthz", token=None)
    missing, forbidden, unknown, health = await logged.events(4)
    assert missing["responseStatus"] == {"metadata": {}, "code": 404, "status": "Failure", "reason": "NotFound"}
    assert missing["annotations"] == {"authorization.k8s.io/decision": "allow"}
    assert forbidden["verb"] == "delete"
    assert forbidden["user"]["username"] == "jane"
    assert forbidden["objectRef"]["name"] == "a"
    assert forbidden["annotations"] == {"authorization.k8s.io/decision": "forbid"}
    assert (unknown["user"], unknown["responseStatus"]["code"]) == ({}, 401)
    assert (health["verb"], health["user"]["username"], "objectRef" in health) == ("get", "system:anonymous", False)


async def test_a_watch_is_told_when_it_ends(logged: Logged) -> None:
    await logged.site.request("GET", f"{SECRETS}?watch=true&timeoutSeconds=1")
    (event,) = await logged.events(1)
    assert (event["verb"], event["responseStatus"]["code"]) == ("watch", 200)
    assert event["requestURI"] == f"{SECRETS}?watch=true&timeoutSeconds=1"


def entry(number: int = 0, acting: User | None = None) -> Entry:
    user = User("jane", ("system:authenticated",), uid="7", extra={"team": ("a", "b")})
    route = Route("get", "apps", "v1", "deployments", "default", f"d{number}", "status")
    return Entry("GET", f"/x/{number}", b"a=b", user, acting, "10.0.0.1", "agent", route, "allow", 200, "", 1.5, 2.5)


def test_an_impersonated_user_stands_beside_the_real_one() -> None:
    made = orjson.loads(orjson.dumps(audit.event(entry(acting=User("joe", ("devs",))), "id")))
    assert made["user"] == {
        "username": "jane", "groups": ["system:authenticated"], "uid": "7", "extra": {"team": ["a", "b"]},
    }  # fmt: skip
    assert made["impersonatedUser"] == {"username": "joe", "groups": ["devs"]}
    assert made["objectRef"] == {
        "resource": "deployments", "namespace": "default", "name": "d0", "apiGroup": "apps", "apiVersion": "v1",
        "subresource": "status",
    }  # fmt: skip
    assert made["requestReceivedTimestamp"] == "1970-01-01T00:00:01.500000Z"


async def test_files_turn_over_at_their_size_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path, max_bytes=200_000, keep=2)
    for number in range(2000):
        log.record(entry(number))
    await log.close()
    sizes = {name: os.stat(tmp_path / name).st_size for name in os.listdir(tmp_path)}
    assert sorted(sizes) == ["audit.log", "audit.log.1", "audit.log.2"]
    assert all(size <= 200_000 for size in sizes.values())
    lines = b"".join((tmp_path / name).read_bytes() for name in sorted(sizes, reverse=True)).splitlines()
    kept = [orjson.loads(line)["requestURI"] for line in lines]
    assert kept == [f"/x/{number}?a=b" for number in range(2000 - len(kept), 2000)]
    again = AuditLog(path, max_bytes=200_000, keep=2)
    again.record(entry(2000))
    await again.close()
    assert orjson.loads(path.read_bytes().splitlines()[-1])["requestURI"] == "/x/2000?a=b"


async def test_a_disk_that_takes_nothing_is_told_and_stops_no_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = AuditLog(tmp_path / "missing" / "audit.log", max_bytes=1000, keep=1)
    log.record(entry())
    await log.close()
    assert "audit log cannot be written" in caplog.text


async def test_a_request_pays_little_for_it(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", max_bytes=10_000_000, keep=1)
    best = 1.0
    for _ in range(20):
        started = time.thread_time()
        for number in range(100):
            log.record(entry(number))
        best = min(best, (time.thread_time() - started) / 100)
    await log.close()
    assert best < 30e-6
