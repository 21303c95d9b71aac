"""What the platform puts into its API at every start stays as it is wanted, and is written only if it is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from steelyard import standing
from steelyard.api import policies
from steelyard.api.clusterapi import definitions
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, Resource
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.store.store import Store


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    api = await Api.start(store)
    yield LocalClient(api, User("admin", (SYSTEM_MASTERS,)), field_manager="steelyard")
    await api.close()
    await store.close()


def settings(**data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default"},
        "data": data,
    }


POLICY: Object = {
    "apiVersion": policies.POLICIES.api_version,
    "kind": policies.POLICIES.kind,
    "metadata": {"name": "small"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
            ]
        },
        "variables": [{"name": "entries", "expression": "object.?data.orValue({})"}],
        "validations": [{"expression": "variables.entries.size() < 10"}],
    },
}


async def ensured(client: Client, resource: Resource, wanted: Object) -> Object:
    await standing.ensure(client, resource, wanted, field_manager="steelyard")
    return await client.get(resource, objects.name(wanted), objects.namespace(wanted))


async def test_a_field_that_is_no_longer_wanted_goes(client: Client) -> None:
    await ensured(client, CONFIG_MAPS, settings(a="1", b="2"))
    assert (await ensured(client, CONFIG_MAPS, settings(a="1")))["data"] == {"a": "1"}


async def test_what_somebody_changed_is_changed_back_and_what_they_added_stays(client: Client) -> None:
    await ensured(client, CONFIG_MAPS, settings(a="1"))
    await client.patch(CONFIG_MAPS, "settings", {"data": {"a": "9", "theirs": "x"}}, "default")
    assert (await ensured(client, CONFIG_MAPS, settings(a="1")))["data"] == {"a": "1", "theirs": "x"}


@pytest.mark.parametrize(
    ("resource", "wanted"),
    [
        pytest.param(CONFIG_MAPS, settings(a="1"), id="a plain object"),
        *(pytest.param(CUSTOM_RESOURCE_DEFINITIONS, each, id=objects.name(each)) for each in definitions.crds()),
        pytest.param(policies.POLICIES, POLICY, id="a policy, with its defaults"),
    ],
)
async def test_what_stands_is_recognised_whatever_the_server_added_to_it(
    client: Client, resource: Resource, wanted: Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await ensured(client, resource, wanted)

    async def refuse(*_: Any, **__: Any) -> Object:
        raise AssertionError("it is there already")

    monkeypatch.setattr(LocalClient, "apply", refuse)
    after = await ensured(client, resource, wanted)
    assert objects.resource_version(after) == objects.resource_version(before)


async def test_what_is_no_longer_wanted_of_a_mark_goes_and_the_rest_stays(client: Client) -> None:
    mark = standing.Mark("of", "vault", (CONFIG_MAPS,))
    marked = {**settings(a="1"), "metadata": {"name": "one", "namespace": "default", "labels": {"of": "vault"}}}
    other = {**settings(a="1"), "metadata": {"name": "two", "namespace": "default", "labels": {"of": "vault"}}}
    await client.create(CONFIG_MAPS, settings(a="not of the mark"))

    await standing.keep(client, [(CONFIG_MAPS, marked), (CONFIG_MAPS, other)], mark, "steelyard")
    await standing.keep(client, [(CONFIG_MAPS, other)], mark, "steelyard")

    left = {objects.name(each) for each in (await client.list(CONFIG_MAPS, "default")).items}
    assert {"settings", "two"} <= left
    assert "one" not in left
