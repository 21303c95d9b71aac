"""Databases and caches with the claims controller alone: first where nobody serves the kinds that they are made of,
then with definitions of those kinds, where the tests play the provider by writing statuses and Secrets."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from steelyard import settings
from steelyard.api import crossplane, postgresql, redis
from steelyard.api.crossplane import DATABASES, GRANTS, RELEASES, ROLES
from steelyard.api.databases import BACKUPS, COPIES, USAGES
from steelyard.api.redisserver import RESOURCE as SERVERS
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS, Resource
from steelyard.kube.runtime import conditions
from steelyard.kube.server.call import User
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import NAMESPACE, Stage

CLAIMS = postgresql.resource("steelyard.dev")
CACHES = redis.resource("steelyard.dev")
_RBAC = "rbac.authorization.k8s.io"
RBAC = {
    "ClusterRole": Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    "RoleBinding": Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
}
PARTS = (ROLES, DATABASES, GRANTS, USAGES, BACKUPS)
"""What a database is made of."""
FINALIZER = "finalizer.managedresource.crossplane.io"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.kube.runtime.informer._MISSING_DELAY", 0.05)


def claim(
    name: str = "shop", *, resource: Resource = CLAIMS, namespace: str = NAMESPACE, external: str = "", **spec: Any
) -> Object:
    metadata: Object = {"name": name, "namespace": namespace}
    if external:
        metadata["annotations"] = {crossplane.EXTERNAL_NAME: external}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": {"parameters": {"environment": "dev"}, **spec},
    }


def definition(resource: Resource) -> Object:
    """Of a kind of a provider's, as far as it matters here: any fields, and a status of its own."""
    anything: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema: Object = {"type": "object", "properties": {"spec": anything, "status": anything}}
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": resource.group_resource},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "listKind": f"{resource.kind}List",
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


async def install(stage: Stage, *resources: Resource) -> None:
    """Returns when the controllers know of it."""
    for each in resources:
        await stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(each))
    async with asyncio.timeout(60):
        for each in resources:
            while stage.manager.informers.of(each, optional=True).is_missing:  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)


async def condition(stage: Stage, type_: str, name: str = "shop", resource: Resource = CLAIMS) -> tuple[str, str, str]:
    found = conditions.find(await stage.client.get(resource, name, NAMESPACE), type_) or {}
    return str(found.get("status")), str(found.get("reason")), str(found.get("message"))


async def until(
    stage: Stage, resource: Resource, name: str, *, gone: bool = False, word: str = "", namespace: str = NAMESPACE
) -> Object:
    async with asyncio.timeout(60):
        while True:
            found = await stage.find(resource, name, namespace)
            if gone and found is None:
                return {}
            if found is not None and word and objects.at(found, "status", "state") == word:
                return found
            await asyncio.sleep(0.02)


async def made(stage: Stage, resource: Resource) -> list[Object]:
    return list((await stage.client.list(resource)).items)


async def provider_is_done(stage: Stage, *resources: Resource) -> None:
    """Every object of these kinds is ready, and is not let go before the test says so."""
    for resource in resources:
        for obj in await made(stage, resource):
            ready: Object = {"lastTransitionTime": "2026-01-01T00:00:00Z", "status": "True"}
            found = [{"type": "Ready", "reason": "Available", **ready}, {"type": "Synced", "reason": "Done", **ready}]
            await stage.client.patch(resource, objects.name(obj), {"metadata": {"finalizers": [FINALIZER]}})
            await stage.client.patch(
                resource, objects.name(obj), {"status": {"conditions": found}}, subresource="status"
            )


async def credentials(stage: Stage, maker: Object, values: dict[str, str]) -> None:
    place = maker["spec"]["writeConnectionSecretToRef"]
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**place, "ownerReferences": [objects.owner_reference(maker, controller=True)]},
        "type": "connection.crossplane.io/v1alpha1",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }
    await stage.client.create(SECRETS, secret)


async def login_of(stage: Stage, name: str = "shop") -> Object:
    return next(each for each in await made(stage, ROLES) if "writeConnectionSecretToRef" in each["spec"])


@pytest.mark.parametrize(
    ("resource", "said"),
    [
        (CLAIMS, "the API does not serve this kind: install Crossplane's provider-sql"),
        (CACHES, "only a platform that runs by itself makes caches as processes"),
    ],
    ids=["database", "cache"],
)
async def test_a_claim_says_what_to_install_and_can_be_deleted(stage: Stage, resource: Resource, said: str) -> None:
    assert stage.manager.problem() is None, "what is not installed is not a fault of the platform"
    await stage.client.create(resource, claim(resource=resource))
    failing = await until(stage, resource, "shop", word="Failing")
    assert failing["status"]["message"].endswith(said)
    assert stage.manager.problem() is None

    await stage.client.delete(resource, "shop", NAMESPACE)
    await until(stage, resource, "shop", gone=True)


async def test_a_missing_kind_holds_up_nobody_else(stage: Stage) -> None:
    await stage.client.create(CLAIMS, claim())
    await stage.claim()
    await stage.becomes_ready()
    assert (await stage.condition("Ready"))[0] == "True"


async def test_what_is_installed_later_is_made_use_of(stage: Stage) -> None:
    await stage.client.create(CLAIMS, claim())
    await until(stage, CLAIMS, "shop", word="Failing")
    await install(stage, *PARTS)
    await until(stage, CLAIMS, "shop", word="Creating")
    assert [len(await made(stage, each)) for each in (ROLES, DATABASES, GRANTS)] == [2, 1, 2]


async def test_a_database_becomes_ready_and_its_secret_is_copied(stage: Stage) -> None:
    await install(stage, *PARTS)
    await stage.namespace("crossplane-system")
    await stage.client.create(CLAIMS, claim(writeConnectionSecretToRef={"name": "connection"}))
    await until(stage, CLAIMS, "shop", word="Creating")
    login = await login_of(stage)
    await provider_is_done(stage, *PARTS)
    await credentials(
        stage,
        login,
        {"username": login["metadata"]["annotations"][crossplane.EXTERNAL_NAME], "password": "p@ss/word",
         "endpoint": "db.example.org", "port": "5432"},
    )  # fmt: skip
    ready = await until(stage, CLAIMS, "shop", word="Ready")

    status = ready["status"]
    secret = await stage.client.get(SECRETS, "connection", NAMESPACE)
    data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert data["database"] == status["database"] == status["role"]
    assert data["database"].startswith("dev_team_a_shop_")
    assert data["url"] == (
        f"postgresql://{status['role']}:p%40ss%2Fword@db.example.org:5432/{status['database']}?sslmode=require"
    )
    assert (status["host"], status["port"]) == ("db.example.org", 5432)
    assert status["connectionSecret"] == {"name": "connection", "namespace": NAMESPACE}
    assert "p@ss" not in str(status)


async def test_a_secret_that_only_has_the_name_is_not_copied(stage: Stage) -> None:
    await install(stage, *PARTS)
    await stage.namespace("crossplane-system")
    await stage.client.create(CLAIMS, claim(writeConnectionSecretToRef={"name": "connection"}))
    await until(stage, CLAIMS, "shop", word="Creating")
    login = await login_of(stage)
    await provider_is_done(stage, *PARTS)
    owner = next(each for each in await made(stage, ROLES) if objects.uid(each) != objects.uid(login))
    other = {**login, "metadata": owner["metadata"]}
    await credentials(stage, other, {"username": "root", "password": "x", "endpoint": "db", "port": "5432"})
    await stage.settle()

    assert "is not the login's" in (await condition(stage, "Ready"))[2]
    assert await stage.find(SECRETS, "connection") is None


async def test_grants_go_before_the_database_and_the_database_before_roles(stage: Stage) -> None:
    await install(stage, *PARTS)
    await stage.client.create(CLAIMS, claim())
    await until(stage, CLAIMS, "shop", word="Creating")
    await provider_is_done(stage, *PARTS)
    await stage.client.delete(CLAIMS, "shop", NAMESPACE)
    for together in ((GRANTS, USAGES, BACKUPS), (DATABASES,), (ROLES,)):
        await until(stage, CLAIMS, "shop", word="Deleting")
        await stage.settle()
        leaving = {each.kind for each in PARTS for obj in await made(stage, each) if objects.is_being_deleted(obj)}
        assert leaving == {each.kind for each in together}
        for resource in together:
            for obj in await made(stage, resource):
                await stage.client.patch(resource, objects.name(obj), {"metadata": {"finalizers": None}})
        await stage.settle()
    await until(stage, CLAIMS, "shop", gone=True)


async def test_nobody_gets_hold_of_anothers_database_by_its_name(stage: Stage) -> None:
    await install(stage, *PARTS)
    await stage.namespace("team-b")
    await stage.client.create(CLAIMS, claim("ours", external="dev-ledger"))
    await until(stage, CLAIMS, "ours", word="Creating")
    before = [await made(stage, each) for each in (ROLES, DATABASES, GRANTS)]

    await stage.client.create(CLAIMS, claim("theirs", namespace="team-b", external="dev-ledger"))
    refused = await until(stage, CLAIMS, "theirs", word="Refused", namespace="team-b")
    assert "the database dev-ledger is not this claim's" in refused["status"]["message"]
    await stage.client.delete(CLAIMS, "theirs", "team-b")
    await stage.settle()
    assert [await made(stage, each) for each in (ROLES, DATABASES, GRANTS)] == before


async def test_a_database_made_by_hand_is_not_taken_over(stage: Stage) -> None:
    await install(stage, *PARTS)
    by_hand: Object = {"apiVersion": DATABASES.api_version, "kind": "Database", "metadata": {"name": "dev-ledger"}}
    await stage.client.create(DATABASES, {**by_hand, "spec": {"forProvider": {}}})
    await stage.settle()
    await stage.client.create(CLAIMS, claim(external="dev-ledger"))
    refused = await until(stage, CLAIMS, "shop", word="Refused")
    assert "Database dev-ledger was made for another one, or by hand" in refused["status"]["message"]
    assert await made(stage, ROLES) == []


async def test_a_status_that_names_anothers_database_leads_to_none(stage: Stage) -> None:
    """Who may write the status of a claim is told of it, and gets nothing."""
    await install(stage, *PARTS)
    await stage.client.create(CLAIMS, claim("ours"))
    ours = await until(stage, CLAIMS, "ours", word="Creating")
    await stage.crash()
    await stage.client.create(CLAIMS, claim("theirs"))
    forged: Object = {"status": {"database": ours["status"]["database"]}}
    await stage.client.patch(CLAIMS, "theirs", forged, NAMESPACE, subresource="status")
    await stage.start()
    refused = await until(stage, CLAIMS, "theirs", word="Refused")
    assert "a database does not change its name" in refused["status"]["message"]
    assert len(await made(stage, DATABASES)) == 1


@pytest.fixture
async def on_cluster(tmp_path: Path) -> AsyncGenerator[Stage]:
    """Where caches are Helm releases."""
    async with stages.opened(tmp_path, "redis: {mode: helm}") as opened:
        yield opened


async def test_a_cache_waits_for_provider_helm_and_can_be_deleted(on_cluster: Stage) -> None:
    await on_cluster.client.create(CACHES, claim(resource=CACHES))
    failing = await until(on_cluster, CACHES, "shop", word="Failing")
    assert failing["status"]["message"].endswith("install Crossplane's provider-helm")

    await on_cluster.client.delete(CACHES, "shop", NAMESPACE)
    await until(on_cluster, CACHES, "shop", gone=True)


async def test_a_cache_that_waited_in_vain_is_made_as_processes(on_cluster: Stage) -> None:
    """Claims of platforms that run by themselves, from before they could make caches."""
    await on_cluster.client.create(CACHES, claim(resource=CACHES))
    waiting = await until(on_cluster, CACHES, "shop", word="Failing")
    assert waiting["status"]["compositionRevision"] == "v1"
    await on_cluster.crash()
    await on_cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(SERVERS))
    on_cluster.platform = settings.parse("")
    await on_cluster.start()
    moved = await until(on_cluster, CACHES, "shop", word="Creating")
    assert [objects.name(each) for each in await made(on_cluster, SERVERS)] == [moved["status"]["server"]]
    assert (moved["status"]["compositionRevision"], "release" in moved["status"]) == ("v2", False)


async def test_a_release_that_is_there_stays_where_new_caches_are_processes(on_cluster: Stage) -> None:
    await install(on_cluster, RELEASES)
    await on_cluster.client.create(CACHES, claim(resource=CACHES))
    await until(on_cluster, CACHES, "shop", word="Creating")
    before = await made(on_cluster, RELEASES)
    await on_cluster.crash()
    await on_cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(SERVERS))
    on_cluster.platform = settings.parse("")
    await on_cluster.start()
    await on_cluster.settle()
    assert await made(on_cluster, RELEASES) == before
    assert await made(on_cluster, SERVERS) == []


async def test_a_release_is_made_for_a_cache_and_goes_with_it(on_cluster: Stage) -> None:
    stage = on_cluster
    await install(stage, RELEASES)
    await stage.namespace("crossplane-system")
    await stage.client.create(CACHES, claim(resource=CACHES, writeConnectionSecretToRef={"name": "cache"}))
    await until(stage, CACHES, "shop", word="Creating")
    (release,) = await made(stage, RELEASES)
    await provider_is_done(stage, RELEASES)
    await credentials(stage, release, {"password": "secret"})
    await until(stage, CACHES, "shop", word="Ready")
    secret = await stage.client.get(SECRETS, "cache", NAMESPACE)
    assert base64.b64decode(secret["data"]["url"]) == b"redis://:secret@redis-shop-master.team-a.svc:6379"

    await stage.client.delete(CACHES, "shop", NAMESPACE)
    await stage.settle()
    assert await stage.find(SECRETS, "cache") is None
    await stage.client.patch(RELEASES, objects.name(release), {"metadata": {"finalizers": None}})
    await until(stage, CACHES, "shop", gone=True)


async def test_a_tenant_cannot_have_the_secret_written_elsewhere(stage: Stage) -> None:
    await stage.namespace("vault")
    tenant = stage.as_(User("mallory", ("system:masters",)))
    assert await tenant.create(CLAIMS, claim("admins", writeConnectionSecretToRef={"name": "c", "namespace": "vault"}))
    with pytest.raises(errors.ApiError):
        await stage.as_(User("mallory", ())).create(
            CLAIMS, claim(writeConnectionSecretToRef={"name": "c", "namespace": "vault"})
        )


async def test_a_copy_is_made_with_the_rights_of_who_asked_for_it_and_asked_again_at_each_use(stage: Stage) -> None:
    await install(stage, *PARTS, COPIES)
    await stage.namespace("team-b")
    theirs = claim("theirs", namespace="team-b", external="dev-theirs")
    await stage.client.create(CLAIMS, theirs)
    await stage.settle()
    mine = claim("mine", external="dev-mine")
    mine["spec"]["parameters"]["cloneFrom"] = {"name": "theirs", "namespace": "team-b"}
    jane = stage.as_(User("jane", ("system:authenticated",)))
    with pytest.raises(errors.Forbidden):
        await jane.create(CLAIMS, mine)

    made_by_admin = await stage.client.create(CLAIMS, mine)
    annotations = made_by_admin["metadata"]["annotations"]
    assert annotations["steelyard.dev/clone-author"]
    await stage.settle()
    assert len(await made(stage, COPIES)) == 1, "who may read Secrets there may have a copy"


async def test_a_copy_whose_author_has_lost_the_right_is_not_made(stage: Stage) -> None:
    await install(stage, *PARTS, COPIES)
    await stage.namespace("team-b")
    await stage.client.create(CLAIMS, claim("theirs", namespace="team-b", external="dev-theirs"))
    for body in rights_of("jane", "team-b"):
        await stage.client.create(RBAC[body["kind"]], body)
    await stage.client.create(RBAC["RoleBinding"], binding_of("claims", "jane", NAMESPACE))
    mine = claim("mine", external="dev-mine")
    mine["spec"]["parameters"]["cloneFrom"] = {"name": "theirs", "namespace": "team-b"}
    await stage.crash()
    await stage.as_(User("jane", ("system:authenticated",))).create(CLAIMS, mine)
    await stage.client.delete(RBAC["RoleBinding"], "secrets-jane", "team-b")
    await stage.start()
    await stage.settle()

    assert await made(stage, COPIES) == []
    status, reason, message = await condition(stage, "Synced", "mine")
    assert (status, reason) == ("False", "CloneForbidden")
    assert "jane may not read Secrets there" in message


def rights_of(user: str, namespace: str) -> list[Object]:
    """To claims, and to read Secrets in a namespace."""
    rules = {
        "claims": [{"apiGroups": ["*"], "resources": ["postgresqlinstances"], "verbs": ["*"]}],
        "secrets": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    api = "rbac.authorization.k8s.io/v1"
    roles: list[Object] = [
        {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": f"test-{name}"}, "rules": each}
        for name, each in rules.items()
    ]
    return [*roles, binding_of("secrets", user, namespace)]


def binding_of(role: str, user: str, namespace: str) -> Object:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{role}-{user}", "namespace": namespace},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": f"test-{role}"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
