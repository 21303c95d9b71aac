"""What a platform begins with: the same, made ahead or the long way."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard import app, defining, founding, groundwork, parts
from steelyard.api.clusterapi import definitions as clusterapi
from steelyard.compose import offering, shipped
from steelyard.kube import objects
from steelyard.kube.client.local import LocalClient
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.server.access import defaults
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store
from steelyard.settings import Platform
from tests.harness import PlatformProcess


@pytest.mark.parametrize("domain", ["steelyard.dev", "aa.example", "zz-1.very.long.name.of-some.company.example"])
async def test_the_table_has_what_the_long_way_gives(tmp_path: Path, domain: str) -> None:
    platform = Platform(domain=domain)
    store = await Store.open(tmp_path / "state.db", fsync=False)
    api = await Api.start(store)
    begin = store.revision
    await api.access.activate()
    client = LocalClient(api, app.CONTROLLERS, field_manager=app.FIELD_MANAGER)
    of_providers = [each for provider in parts.PROVIDERS for each in provider.definitions()]
    definitions = [*shipped.definitions(platform, offering.STANDARD), *clusterapi.crds(), *of_providers]
    own = [each for each in definitions if groundwork.is_own(each)]
    upstream = [each for each in definitions if not groundwork.is_own(each)]
    await defining.define(client, own, upstream, field_manager=app.FIELD_MANAGER, tell=print)
    await groundwork.guard_claims(api, client, platform, offering.STANDARD)
    stored = {each.key.removeprefix("main/"): each.value for each in store.scan("main/") if each.revision > begin}
    stored = {place: value for place, value in stored.items() if not place.startswith("core/serviceaccounts/")}
    await api.close()
    await store.close()
    made = founding.read(domain)
    assert made is not None
    table = {each.place: each for group in made.groups.values() for each in group}
    assert table.keys() == stored.keys()
    assert [place for place, each in table.items() if not each.is_what(stored[place])] == []
    assert list(made.claims) == [kind.resource(domain) for kind in offering.STANDARD.kinds]


def test_policies_of_other_settings_are_not_taken_from_the_table() -> None:
    assert founding.has_guards_of(Platform())
    assert founding.has_guards_of(Platform(domain="example.org"))
    environments = Platform().environments
    other = Platform().model_copy(update={"environments": {**environments, "load": environments["dev"]}})
    assert not founding.has_guards_of(other)


async def test_a_definition_that_is_gone_or_was_changed_is_put_back_at_the_next_start(tmp_path: Path) -> None:
    changed = "workloadclusters.compute.steelyard.dev"
    with PlatformProcess(tmp_path) as platform:
        platform.start()
        client = platform.client()
        names = {each["metadata"]["name"] for each in (await client.list(CUSTOM_RESOURCE_DEFINITIONS)).items}
        before = await client.get(CUSTOM_RESOURCE_DEFINITIONS, changed)
        gone = next(name for name in names if name.startswith("redisservers."))
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, gone)
        patch = {"spec": {"names": {"shortNames": ["mine"]}}}
        await client.patch(CUSTOM_RESOURCE_DEFINITIONS, changed, patch)
        await client.close()
        assert platform.terminate() == 0
        platform.start()
        client = platform.client()
        after = await client.get(CUSTOM_RESOURCE_DEFINITIONS, changed)
        assert after["spec"] == before["spec"]
        assert {each["metadata"]["name"] for each in (await client.list(CUSTOM_RESOURCE_DEFINITIONS)).items} == names
        await client.close()
        assert platform.terminate() == 0


async def test_a_role_that_is_gone_or_grants_less_is_put_back_at_the_next_start(tmp_path: Path) -> None:
    roles = defaults.RESOURCES["clusterroles"]
    gone, changed, closed = "system:node-proxier", "system:discovery", "system:public-info-viewer"
    with PlatformProcess(tmp_path) as platform:
        platform.start()
        client = platform.client()
        before = {each["metadata"]["name"]: each["rules"] for each in (await client.list(roles)).items}
        await client.delete(roles, gone)
        await client.patch(roles, changed, {"rules": []})
        annotations = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
        await client.patch(roles, closed, {"metadata": {"annotations": annotations}, "rules": []})
        await client.close()
        assert platform.terminate() == 0
        platform.start()
        client = platform.client()
        after = {each["metadata"]["name"]: objects.sequence(each["rules"]) for each in (await client.list(roles)).items}
        await client.close()
        assert platform.terminate() == 0
    # What is missing is added rule by rule.
    granted = {url for rule in after[changed] for url in rule["nonResourceURLs"]}
    assert granted == {url for rule in before[changed] for url in rule["nonResourceURLs"]}
    assert {**after, changed: before[changed]} == {**before, closed: []}
