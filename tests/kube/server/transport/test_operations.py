"""Operations on the whole server: who may, and how results and failures arrive."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import aiohttp
import pytest

from steelyard.kube import errors, pki
from steelyard.kube.objects import Object
from steelyard.kube.server.api import Api
from steelyard.kube.server.transport.operations import About, Operation
from steelyard.kube.store.store import Store
from tests.kube.server import serving
from tests.kube.server.serving import Site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Site]:
    content = tmp_path / "content"
    content.write_bytes(b"0123456789" * 100_000)

    @contextlib.asynccontextmanager
    async def file(_: Mapping[str, str]) -> AsyncGenerator[Path]:
        yield content

    @contextlib.asynccontextmanager
    async def act(options: Mapping[str, str]) -> AsyncGenerator[Object]:
        if "fail" in options:
            raise errors.TooManyRequests("busy", retry_after=5)
        yield {"done": options.get("what", "")}

    store = await Store.open(tmp_path / "db")
    api = await Api.start(store)

    def about(options: Mapping[str, str]) -> About:
        if "name" not in options:
            raise errors.BadRequest("name is missing")
        return About("", "configmaps", "team-a", options["name"])

    operations = {
        "/x/file": Operation("GET", file),
        "/x/act": Operation("POST", act),
        "/x/look": Operation("GET", act, about),
    }
    async with serving.served(api, operations=operations) as site:
        yield site
    await api.close()
    await store.close()


async def test_a_file_is_sent_as_it_is(site: Site) -> None:
    answer = await site.request("GET", "/x/file")
    assert (answer.code, answer.body) == (200, b"0123456789" * 100_000)
    assert answer.headers["Content-Length"] == "1000000"


async def test_an_action_answers_with_json_or_a_status(site: Site) -> None:
    assert (await site.request("POST", "/x/act?what=this")).json() == {"done": "this"}
    refused = await site.request("POST", "/x/act?fail=yes")
    assert (refused.code, refused.headers["Retry-After"]) == (429, "5")


async def test_only_masters_may(site: Site) -> None:
    assert (await site.request("GET", "/x/file", token=serving.JANE_TOKEN)).code == 403
    assert (await site.request("GET", "/x/file", token=None)).code == 403
    joe = pki.issue_client(serving.AUTHORITY, "joe", now=serving.NOW)
    assert (await site.request("GET", "/x/file", token=None, certificate=joe)).code == 403


async def test_what_is_about_an_object_is_for_who_may_get_it(site: Site) -> None:
    path = "/x/look?what=this&name=a"
    assert (await site.request("GET", path)).json() == {"done": "this"}
    refused = await site.request("GET", path, token=serving.JANE_TOKEN)
    assert refused.code == 403
    assert 'User "jane" cannot get resource "configmaps"' in refused.json()["message"]
    assert (await site.request("GET", "/x/look", token=serving.JANE_TOKEN)).code == 400
    assert (await site.request("POST", path)).code == 405


async def test_only_its_own_method_is_allowed(site: Site) -> None:
    assert (await site.request("GET", "/x/act")).code == 405
    assert (await site.request("DELETE", "/x/file")).code == 405


async def test_who_leaves_early_leaves_the_server_well(site: Site) -> None:
    request = site.session.get(site.url("/x/file"), headers=site.headers, ssl=serving.client_context())
    async with request as response:
        await response.content.read(10)
        response.close()
    with contextlib.suppress(aiohttp.ClientError):
        assert (await site.request("GET", "/x/file")).code == 200
