"""Webhooks are asked whichever way a request comes, and a restart forgets none of them."""

from __future__ import annotations

import pytest

from steelyard.kube import errors
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.store.store import Store
from tests.kube.server.admission.hooks import MUTATING, VALIDATING, Hooks, configuration, deny, hook, put, rule
from tests.kube.server.admission.test_conversion import NEW, OLD, convert, definition
from tests.kube.server.bench import WIDGETS, Bench, make, widget
from tests.kube.server.serving import served


async def configure(bench: Bench, webhook: Hooks) -> None:
    check = hook("check", webhook.client_config("/check"), rule(WIDGETS, "*"))
    await bench.create(VALIDATING, configuration(VALIDATING, "check", check))


async def test_a_denial_over_http_has_the_code_and_the_warnings(bench: Bench, webhook: Hooks) -> None:
    def refuse(request: Object) -> Object:
        return {**deny(code=418, message="a teapot")(request), "warnings": ["short and stout"]}  # type: ignore[dict-item]

    webhook.answers["/check"] = refuse
    await configure(bench, webhook)
    async with served(bench.api) as site:
        response = await site.request("POST", WIDGETS.path("default"), widget("a"))
    assert response.code == 418
    assert response.headers["Warning"] == '299 - "short and stout"'
    assert response.json()["message"] == 'admission webhook "check.example.com" denied the request: a teapot'


async def test_a_client_in_the_same_process_is_asked_about_too(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/size"] = put("/spec/size", 4)
    size = hook("size", webhook.client_config("/size"), rule(WIDGETS, "CREATE"))
    await bench.create(MUTATING, configuration(MUTATING, "size", size))
    client = LocalClient(bench.api)
    created = await client.create(WIDGETS, widget("a", namespace="default"))
    assert created["spec"]["size"] == 4
    webhook.answers["/size"] = deny(code=403, reason="Forbidden")
    with pytest.raises(errors.Forbidden):
        await client.create(WIDGETS, widget("b", namespace="default"))


async def test_a_client_in_the_same_process_reads_converted_objects(bench: Bench, webhook: Hooks) -> None:
    webhook.answers["/convert"] = convert
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, definition(webhook))
    await bench.create(NEW, make(NEW, "a", {"address": "h", "port": 1}))
    client = LocalClient(bench.api)
    assert (await client.get(OLD, "a", "default"))["spec"] == {"host": "h:1"}
    assert [item["spec"] for item in (await client.list(OLD, "default")).items] == [{"host": "h:1"}]


async def test_a_restarted_server_asks_again(bench: Bench, webhook: Hooks, store: Store) -> None:
    await configure(bench, webhook)
    await bench.api.close()
    again = await Bench.start(store, define=False)
    try:
        await again.create(WIDGETS, widget("a"))
    finally:
        await again.api.close()
    assert webhook.paths() == ["/check"]


async def test_a_removed_configuration_is_asked_no_more(bench: Bench, webhook: Hooks) -> None:
    await configure(bench, webhook)
    await bench.call("deletecollection", VALIDATING)
    await bench.create(WIDGETS, widget("a"))
    assert webhook.requests == []


async def test_a_definition_names_its_webhook_by_the_same_rules(bench: Bench, webhook: Hooks) -> None:
    crd = definition(webhook)
    crd["spec"]["conversion"]["webhook"]["clientConfig"] = {"url": "http://127.0.0.1"}
    with pytest.raises(errors.Invalid, match=r"webhookClientConfig.url: .*'https' is the only allowed URL scheme"):
        await bench.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
