"""What a server refuses to bear: too many requests at once, bodies that are nested too deeply."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from steelyard.kube import errors, pki
from steelyard.kube.server.access import defaults
from steelyard.kube.server.api import Api
from steelyard.kube.server.bodies import bodies
from steelyard.kube.server.bodies.documents import Document
from steelyard.kube.server.call import Call, Reply
from steelyard.kube.server.fairness import budgets
from steelyard.kube.server.fairness.budgets import MAX_DEPTH
from steelyard.kube.server.fairness.shares import Limits
from steelyard.kube.server.rights import authz
from steelyard.kube.server.rights.authz import Authorizer
from steelyard.kube.server.verbs.watching import WatchStream
from steelyard.kube.store.store import Store
from tests.kube.server import payloads, serving
from tests.kube.server.serving import Site

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Slow:
    """Answers when told to."""

    def __init__(self, authorizer: Authorizer | None = None) -> None:
        self.authorizer = authorizer
        self.entered = 0
        self.go_on = asyncio.Event()

    async def call(self, call: Call) -> Reply:
        self.entered += 1
        await self.go_on.wait()
        return Reply(200, body={"kind": "ConfigMap"})

    async def watch(self, call: Call) -> WatchStream:
        raise errors.Expired("too old")

    def authorize(self, call: Call) -> None:
        if self.authorizer is not None:
            authz.authorize_call(self.authorizer, call)

    def check(self, call: Call) -> None:
        return None

    def size(self, call: Call) -> int:
        return 0

    def document(self, path: str, accept: str) -> Document | None:
        return None

    def paths(self) -> list[str]:
        return []


async def test_who_is_refused_for_another_reason_takes_no_place() -> None:
    async with serving.served(Slow(defaults.policy()), limits=Limits(reading=1, writing=1)) as site:
        stranger = pki.issue_client(serving.AUTHORITY, "joe", now=serving.NOW)
        for _ in range(3):
            answer = await site.request("GET", CONFIG_MAPS, token=None, certificate=stranger)
            assert answer.code == 403
            assert (await site.request("POST", CONFIG_MAPS, b"{", token=None, certificate=stranger)).code == 403


def nested(levels: int) -> dict[str, Any]:
    value: Any = "end"
    for number in range(levels):
        value = {"a": value} if number % 2 or number == levels - 1 else [value]
    return value


@pytest.mark.parametrize("content_type", ["application/json", "application/yaml"])
def test_bodies_may_be_as_deep_as_the_limit_and_no_deeper(content_type: str) -> None:
    def encode(value: object) -> bytes:
        return orjson.dumps(value) if content_type == "application/json" else yaml.safe_dump(value).encode()

    allowed = nested(MAX_DEPTH)
    assert payloads.read("create", content_type, encode(allowed))[0] == allowed
    with pytest.raises(errors.BadRequest, match="deep"):
        payloads.read("create", content_type, encode(nested(MAX_DEPTH + 1)))


@pytest.mark.parametrize("levels", [129, 300, 1_000, 5_000, 100_000])
@pytest.mark.parametrize("content_type", ["application/json", "application/yaml"])
def test_absurd_depth_is_a_bad_request(content_type: str, levels: int) -> None:
    with pytest.raises(errors.BadRequest if levels < budgets.MAX_VALUES else errors.TooLarge):
        payloads.read("create", content_type, b'{"a":' * levels + b"1" + b"}" * levels)


@pytest.mark.parametrize("opening", [b"- ", b"[", b"? ", b"a: [", b"- ? "])
def test_yaml_has_other_ways_to_be_deep(opening: bytes) -> None:
    with pytest.raises((errors.BadRequest, bodies.Unreadable)):
        payloads.read("patch", "application/apply-patch+yaml", opening * 100_000)


@pytest.mark.parametrize("media_type", ["merge-patch+json", "apply-patch+yaml", "json-patch+json"])
def test_patches_are_held_to_it_too(media_type: str) -> None:
    deep = b"[" * 200 + b"]" * 200
    body = (
        b'[{"op": "add", "path": "/x", "value": ' + deep + b"}]"
        if "json-patch" in media_type
        else b'{"a":' + deep + b"}"
    )
    with pytest.raises(errors.BadRequest, match="deep"):
        payloads.read("patch", f"application/{media_type}", body)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Site]:
    store = await Store.open(tmp_path / "db")
    api = await Api.start(store)
    async with serving.served(api) as site:
        yield site
    await api.close()
    await store.close()


async def test_a_patch_that_doubles_the_depth_is_refused_and_changes_nothing(site: Site) -> None:
    """Each copy puts a field into its own innermost place; bodies stay shallow all the while."""
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "deeps.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "deeps", "singular": "deep", "kind": "Deep", "listKind": "DeepList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    assert (await site.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)).code == 201
    path = "/apis/example.com/v1/namespaces/default/deeps"
    body: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Deep", "metadata": {"name": "d"}, "a": {"a": {}}}
    assert (await site.request("POST", path, body)).code == 201
    headers = {"Content-Type": "application/json-patch+json"}
    depth, codes = 2, list[int]()
    while depth < 2000 and (not codes or codes[-1] == 200):
        patch = [{"op": "copy", "from": "/a", "path": "/a" * (depth + 1)}]
        codes.append((await site.request("PATCH", f"{path}/d", orjson.dumps(patch), headers=headers)).code)
        depth *= 2
    assert codes[-1] == 400
    assert (await site.request("GET", f"{path}/d")).code == 200
    assert (await site.request("GET", path)).code == 200


async def test_what_a_refused_request_brought_goes_with_its_answer(site: Site) -> None:
    """Otherwise it stays until somebody looks for garbage, and to look through it holds everybody up."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"text": "x"}}
    assert (await site.request("POST", CONFIG_MAPS, body)).code == 201
    copies = [{"op": "copy", "from": "/data", "path": f"/data/c{number}"} for number in range(40)]
    headers = {"Content-Type": "application/json-patch+json"}
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            assert (await site.request("PATCH", f"{CONFIG_MAPS}/c", copies, headers=headers)).code == 422
        assert gc.collect() < 10_000
    finally:
        gc.enable()


async def test_a_head_of_less_is_read(site: Site) -> None:
    answer = await site.request("GET", CONFIG_MAPS, headers={"x": "x" * 900_000})
    assert answer.code == 200
    assert (await site.request("GET", f"{CONFIG_MAPS}?labelSelector={'a' * 60_000}")).code == 400
