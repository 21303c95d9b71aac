"""A hostile tenant: may create claims in one namespace, and tries to read, write and delete elsewhere through them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from steelyard.api import authors, resources
from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.api.clusterapi import wellknown
from steelyard.compose import names
from steelyard.compose.composed import NOTHING, Composed, Desired
from steelyard.controllers.claims import applying
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, SECRETS, Resource
from steelyard.kube.server.call import AUTHENTICATED, User
from steelyard.plan import changes
from steelyard.plan.changes import Change
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import CLAIMS, NAMESPACE, Stage

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding")
MALLORY = User("mallory", (AUTHENTICATED, "team-a"))
ROBOT = User("system:serviceaccount:argocd:controller", ("system:masters",))
ELSEWHERE: Object = {"name": "copy", "namespace": "kube-system"}


async def grant(stage: Stage, name: str, namespace: str, group: str, plural: str, *, to: str = "User") -> None:
    rules = [{"verbs": ["*"], "apiGroups": [group], "resources": [plural, f"{plural}/status"]}]
    await stage.client.apply(
        ROLES,
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        field_manager="test",
    )
    subject = {"kind": to, "apiGroup": RBAC, "name": "mallory" if to == "User" else "team-a"}
    binding: Object = {
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    }
    await stage.client.create(BINDINGS, binding)


@pytest.fixture
async def mallory(stage: Stage) -> Client:
    await grant(stage, "claims", NAMESPACE, CLAIMS.group, CLAIMS.plural)
    return stage.as_(MALLORY)


def claim(name: str = "dev", connection: Object | None = None, **metadata: Any) -> Object:
    spec: Object = {"parameters": {"environment": "dev"}}
    if connection is not None:
        spec["writeConnectionSecretToRef"] = connection
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "spec": spec,
    }


async def test_a_secret_in_another_namespace_needs_its_authors_right(stage: Stage, mallory: Client) -> None:
    with pytest.raises(errors.Forbidden) as caught:
        await mallory.create(CLAIMS, claim(connection=ELSEWHERE))
    assert caught.value.message.endswith(
        "denied request: the connection Secret cannot go to namespace kube-system: mallory may not create Secrets "
        "there. Ask the platform's administrators to grant claims in team-a that namespace (connectionSecrets.grants "
        "in the platform file), or leave out writeConnectionSecretToRef.namespace."
    )
    await mallory.create(CLAIMS, claim(connection={"name": "copy"}))
    with pytest.raises(errors.Forbidden):
        await mallory.patch(CLAIMS, "dev", {"spec": {"writeConnectionSecretToRef": ELSEWHERE}}, NAMESPACE)
    with pytest.raises(errors.Forbidden):
        await mallory.apply(CLAIMS, claim(connection=ELSEWHERE), field_manager="mallory")
    await grant(stage, "secrets", "kube-system", "", "secrets")
    await mallory.patch(CLAIMS, "dev", {"spec": {"writeConnectionSecretToRef": ELSEWHERE}}, NAMESPACE)
    await stage.settle()
    await stage.becomes_ready()
    assert await stage.find(SECRETS, "copy", "kube-system") is not None


async def test_what_others_may_is_no_help_to_who_changes_something_else(stage: Stage, mallory: Client) -> None:
    """Who only patches a finalizer, a label or a size is not asked, and does not become the author."""
    await stage.namespace("argocd")
    await stage.claim(connection={"name": "copy", "namespace": "argocd"})
    for patch in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"parameters": {"workerReplicas": 1}}}):
        await mallory.patch(CLAIMS, "dev", patch, NAMESPACE)
    assert authors.of(await stage.get()) == authors.Author("steelyard", ("system:masters",))
    with pytest.raises(errors.Forbidden):
        await mallory.patch(CLAIMS, "dev", {"spec": {"writeConnectionSecretToRef": {"name": "other"}}}, NAMESPACE)


async def test_nobody_writes_down_another_author(stage: Stage, mallory: Client) -> None:
    forged = {authors.AUTHOR: "root", authors.GROUPS: "system:masters"}
    await mallory.create(CLAIMS, claim(annotations=forged))
    assert authors.of(await stage.get()) is None, "it says nothing where nothing is asked of anybody"
    await grant(stage, "secrets", "kube-system", "", "secrets", to="Group")
    await mallory.patch(CLAIMS, "dev", {"spec": {"writeConnectionSecretToRef": ELSEWHERE}}, NAMESPACE)
    await mallory.patch(CLAIMS, "dev", {"metadata": {"annotations": forged}}, NAMESPACE)
    known = await stage.get()
    await mallory.update(CLAIMS, {**known, "metadata": {**known["metadata"], "annotations": forged}})
    await mallory.update(CLAIMS, {**await stage.get(), "metadata": {**_of(await stage.get()), "annotations": {}}})
    assert authors.of(await stage.get()) == authors.Author("mallory", MALLORY.groups)


def _of(obj: Object) -> Object:
    return objects.metadata(obj)


async def test_a_right_that_is_taken_away_is_gone_at_the_next_use(stage: Stage, mallory: Client) -> None:
    await grant(stage, "secrets", "kube-system", "", "secrets", to="Group")
    await mallory.create(CLAIMS, claim(connection=ELSEWHERE))
    await stage.settle()
    await stage.client.delete(BINDINGS, "secrets", "kube-system")
    await stage.becomes_ready()

    assert await stage.find(SECRETS, "copy", "kube-system") is None
    assert await stage.condition("Synced") == (
        "False",
        "ConnectionSecretForbidden",
        "the connection Secret cannot go to namespace kube-system: mallory may not create Secrets there. Allow mallory "
        "to create Secrets there, grant it to claims in team-a (connectionSecrets.grants in the platform file), or "
        "leave out writeConnectionSecretToRef.namespace",
    )
    assert any(event.startswith("ConnectionSecretForbidden: ") for event in await stage.events())
    await grant(stage, "again", "kube-system", "", "secrets")
    await stage.look_again()
    assert await stage.find(SECRETS, "copy", "kube-system") is not None
    assert (await stage.condition("Ready"))[0] == "True"


PLATFORM = """
connectionSecrets:
  grants:
  - {claimsIn: [team-a], secretsTo: [argocd]}
  robots: [argocd/controller]
"""


async def test_grants_stand_in_for_rights_and_alone_count_for_robots(tmp_path: Path) -> None:
    async with stages.opened(tmp_path, PLATFORM) as stage:
        await stage.namespace("argocd")
        await grant(stage, "claims", NAMESPACE, CLAIMS.group, CLAIMS.plural)
        mallory, robot = stage.as_(MALLORY), stage.as_(ROBOT)
        await mallory.create(CLAIMS, claim("dev", {"name": "copy", "namespace": "argocd"}))
        await robot.create(CLAIMS, claim("two", {"name": "second", "namespace": "argocd"}))
        for client in (mallory, robot):
            with pytest.raises(errors.Forbidden):
                await client.create(CLAIMS, claim("three", ELSEWHERE))
        with pytest.raises(errors.Forbidden, match="acts for others, so its own rights do not count"):
            await robot.create(CLAIMS, claim("three", ELSEWHERE))
        await stage.settle()
        for name in ("dev", "two"):
            await stage.becomes_ready(name)
        assert {"copy", "second"} <= {objects.name(each) for each in (await stage.client.list(SECRETS, "argocd")).items}


async def test_a_grant_that_is_gone_leaves_a_robot_without_any(tmp_path: Path) -> None:
    async with stages.opened(tmp_path, PLATFORM) as stage:
        await stage.namespace("argocd")
        await stage.as_(ROBOT).create(CLAIMS, claim("dev", {"name": "copy", "namespace": "argocd"}))
        await stage.settle()
        await stage.crash()
        without = stage.platform.connection_secrets.model_copy(update={"grants": ()})
        stage.platform = stage.platform.model_copy(update={"connection_secrets": without})
        await stage.start()
        await stage.becomes_ready()
        status, reason, message = await stage.condition("Synced")
        assert (status, reason) == ("False", "ConnectionSecretForbidden")
        assert "its own rights do not count" in message
        assert await stage.find(SECRETS, "copy", "argocd") is None


async def test_the_kubeconfig_of_a_foreign_cluster_is_not_copied(stage: Stage, mallory: Client) -> None:
    """One of that name may be there before the claim, or come to lie there while the claim has a cluster of its own."""
    foreign: Object = {
        "metadata": {
            "name": "prod-kubeconfig",
            "namespace": NAMESPACE,
            "labels": {wellknown.CLUSTER_NAME_LABEL: "prod"},
        },
        "data": {"value": "c2VjcmV0"},
    }
    await stage.client.create(SECRETS, foreign)
    await mallory.create(CLAIMS, claim("prod", {"name": "mine"}))
    await stage.settle()
    await stage.infrastructure_is_there("prod")
    await stage.machines_are(True, "prod")
    await stage.settle()

    assert await stage.find(SECRETS, "mine") is None
    status = (await stage.get("prod"))["status"]
    assert "kubeconfigSecret" not in status
    assert "the one of that name is not this cluster's" in status["message"]


async def test_a_foreign_secret_is_not_the_connection_secret_even_by_its_own_name(
    stage: Stage, mallory: Client
) -> None:
    await stage.client.create(SECRETS, {"metadata": {"name": "taken", "namespace": NAMESPACE}, "data": {"a": "Yg=="}})
    await mallory.create(CLAIMS, claim(connection={"name": "taken"}))
    await stage.settle()
    await stage.becomes_ready()
    assert (await stage.client.get(SECRETS, "taken", NAMESPACE))["data"] == {"a": "Yg=="}
    assert "it exists and was not made for this claim" in (await stage.condition("Synced"))[2]


@pytest.mark.parametrize("name", ["other-ca", "other-etcd", "other-sa", "other-proxy", "other-kubeconfig"])
async def test_nobody_takes_the_name_of_what_cluster_api_makes_for_another_cluster(mallory: Client, name: str) -> None:
    with pytest.raises(errors.Invalid, match=f"Cluster API makes a Secret called {name} for a cluster in this namesp"):
        await mallory.create(CLAIMS, claim(connection={"name": name}))


async def test_a_foreign_cluster_of_the_same_name_is_neither_adopted_nor_changed(stage: Stage, mallory: Client) -> None:
    foreign: Object = {
        "apiVersion": clusterapi_resources.CLUSTERS.api_version,
        "kind": "Cluster",
        "metadata": {"name": "prod", "namespace": NAMESPACE},
        "spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["10.1.0.0/16"]}}},
    }
    before = await stage.client.create(clusterapi_resources.CLUSTERS, foreign)
    await mallory.create(CLAIMS, claim("prod"))
    await stage.settle()
    assert await stage.client.get(clusterapi_resources.CLUSTERS, "prod", NAMESPACE) == before
    await mallory.delete(CLAIMS, "prod", NAMESPACE)
    await stage.settle()
    assert await stage.client.get(clusterapi_resources.CLUSTERS, "prod", NAMESPACE) == before


def to_make(part: Desired) -> Change:
    """What is decided about a part that was not observed."""
    [change] = changes.decide(Composed(desired={"it": part}), NOTHING, (), {})
    return change


async def test_what_came_to_be_since_it_was_looked_for_is_not_overwritten(stage: Stage) -> None:
    """The cache knows nothing of it yet."""
    taken: Object = {"metadata": {"name": "c", "namespace": NAMESPACE}, "data": {"a": "b"}, "apiVersion": "v1"}
    before = await stage.client.create(CONFIG_MAPS, {**taken, "kind": "ConfigMap"})
    wanted = Desired(CONFIG_MAPS, {**taken, "kind": "ConfigMap", "data": {"a": "mine"}})
    with pytest.raises(errors.Conflict):
        await applying.carry_out(stage.client, to_make(wanted))
    assert await stage.client.get(CONFIG_MAPS, "c", NAMESPACE) == before
    fresh = dataclasses.replace(wanted, object={**wanted.object, "metadata": {"name": "d", "namespace": NAMESPACE}})
    assert await applying.carry_out(stage.client, to_make(fresh))


async def test_a_forged_inventory_deletes_nothing_of_others(stage: Stage, mallory: Client) -> None:
    """Not even what carries the claim's labels, as a copy in another namespace does."""
    await stage.namespace("team-b")
    await mallory.create(CLAIMS, claim())
    await stage.settle()
    labels = names.claim_labels(await stage.get())
    victims: list[tuple[Resource, Object]] = [
        (SECRETS, {"metadata": {"name": "victim", "namespace": NAMESPACE}}),
        (SECRETS, {"metadata": {"name": "labelled", "namespace": NAMESPACE, "labels": labels}}),
        (
            resources.SIMULATED_CLUSTERS,
            {
                "apiVersion": resources.SIMULATED_CLUSTERS.api_version,
                "kind": resources.SIMULATED_CLUSTERS.kind,
                "metadata": {
                    "name": "copied",
                    "namespace": "team-b",
                    "labels": labels,
                    "annotations": {names.RESOURCE_NAME: "infrastructure"},
                },
            },
        ),
    ]
    for resource, victim in victims:
        await stage.client.create(resource, victim)
    forged = [
        {
            "resourceName": "infrastructure",
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "namespace": objects.namespace(victim),
            "name": objects.name(victim),
        }
        for resource, victim in victims
    ]
    known = objects.sequence(objects.at(await stage.get(), "status", "inventory"))
    body: Object = {"status": {"inventory": [*known, *forged]}}
    await mallory.patch(CLAIMS, "dev", body, NAMESPACE, subresource="status")
    await stage.settle()
    await stage.becomes_ready()
    await stage.look_again()
    await mallory.patch(CLAIMS, "dev", body, NAMESPACE, subresource="status")
    await mallory.delete(CLAIMS, "dev", NAMESPACE)
    await stage.settle()
    assert await stage.find(CLAIMS, "dev") is None
    for resource, victim in victims:
        assert await stage.find(resource, objects.name(victim), objects.namespace(victim)) is not None
