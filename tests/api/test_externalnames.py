"""Which names outside of the API a claim may have: by the shipped policies, and again where a claim is composed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from steelyard import groundwork, settings
from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.compose import offering
from steelyard.compose.composed import NOTHING
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from tests.compose import printed
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import NAMESPACE, Stage

PLATFORM = """
environments: {dev-two: {like: dev}}
postgresql: {externalNames: [{claimsIn: [team-a], names: [ledger]}]}
"""


@contextlib.asynccontextmanager
async def opened(folder: Path, platform: str = PLATFORM) -> AsyncGenerator[Stage]:
    async with stages.opened(folder, platform) as stage:
        await stage.crash()
        yield stage


def claim_of(kind: str, name: str = "shop", *, external: str = "", **parameters: Any) -> Object:
    group = {"PostgreSQLInstance": "database", "RedisInstance": "cache"}[kind]
    annotations = {EXTERNAL_NAME: external} if external else {}
    return {
        "apiVersion": f"{group}.steelyard.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def resource_of(claim: Object) -> Resource:
    kind = offering.STANDARD.kind_of(claim)
    assert kind is not None
    return kind.resource(printed.domain_of(claim))


def composed_refusal(claim: Object, platform: str = PLATFORM) -> str:
    kind = offering.STANDARD.kind_of(claim)
    assert kind is not None
    refusal = kind.compose(claim, NOTHING, settings.parse(platform)).refusal
    return refusal.message if refusal is not None else ""


GOOD: list[Any] = [
    pytest.param("PostgreSQLInstance", {"external": "dev_shop"}, id="with the prefix"),
    pytest.param("PostgreSQLInstance", {"external": "dev-shop"}, id="with the environment's name"),
    pytest.param("PostgreSQLInstance", {"external": "ledger"}, id="granted"),
    pytest.param("PostgreSQLInstance", {"external": "prod_shop", "environment": "prod"}, id="prefix of an alias"),
    pytest.param("PostgreSQLInstance", {"external": "dev-two-db", "environment": "dev-two"}, id="longer environment"),
    pytest.param("PostgreSQLInstance", {"external": "pr-7-db", "environment": "pr-7"}, id="preview"),
    pytest.param("PostgreSQLInstance", {"vaultPath": "secret/database/dev"}, id="path of the environment"),
    pytest.param("PostgreSQLInstance", {"vaultPath": "secret/apps/team-a/db"}, id="path of the namespace"),
    pytest.param(
        "PostgreSQLInstance", {"vaultPath": "secret/apps/production", "environment": "prod"}, id="path of an alias"
    ),
    pytest.param("PostgreSQLInstance", {"vaultPath": "secret/apps/dev/team-a/db"}, id="path as it is derived"),
    pytest.param("PostgreSQLInstance", {"vaultPath": "secret/database/team-a"}, id="path of the namespace alone"),
    pytest.param("RedisInstance", {"external": "redis-dev"}, id="release"),
]
BAD: list[Any] = [
    pytest.param("PostgreSQLInstance", {"external": "postgres"}, "must begin with dev_ or dev-", id="the server's own"),
    pytest.param("PostgreSQLInstance", {"external": "prod_shop"}, "must begin with dev_", id="another environment's"),
    pytest.param("PostgreSQLInstance", {"external": "dev-two-db"}, "must begin with dev_", id="a longer environment's"),
    pytest.param("PostgreSQLInstance", {"external": "pr-7-db"}, "must begin with dev_", id="a preview's"),
    pytest.param(
        "PostgreSQLInstance",
        {"external": "pr-70-db", "environment": "pr-7"},
        "must begin with pr",
        id="a longer number",
    ),
    pytest.param("PostgreSQLInstance", {"external": "dev_x_owner"}, "not end in _owner", id="an owner's"),
    pytest.param(
        "PostgreSQLInstance", {"external": "dev_b_shop_0123456789"}, "hexadecimal", id="derived for somebody else"
    ),
    pytest.param("PostgreSQLInstance", {"external": "Dev_shop"}, "lower-case", id="capitals"),
    pytest.param("PostgreSQLInstance", {"external": 'dev_"; DROP'}, "lower-case", id="quotes"),
    pytest.param("PostgreSQLInstance", {"external": "dev_" + "x" * 60}, "1 to 57", id="too long"),
    *(
        pytest.param("PostgreSQLInstance", {"vaultPath": path}, "secret/apps/ or secret/database/", id=each)
        for each, path in {
            "another environment's path": "secret/database/production",
            "another engine": "pki/apps/dev",
            "another kind's folder": "secret/clusters/dev",
            "another namespace's path": "secret/apps/team-b",
            "one of another namespace's paths": "secret/apps/team-b/shop",
            "derived for another namespace": "secret/apps/dev/team-b/shop",
            "derived for the environment's namespace": "secret/apps/dev/shop",
            "derived for a claim called as the namespace": "secret/apps/dev/team-a",
            "its own namespace behind another": "secret/apps/team-b/team-a/shop",
            "its environment behind another": "secret/apps/team-b/dev",
            "deep below the namespace's": "secret/apps/team-a/dev/shop",
            "a folder": "secret/apps",
        }.items()
    ),
    pytest.param("RedisInstance", {"external": "vault"}, "must begin with redis-", id="another release"),
    pytest.param("RedisInstance", {"external": "redis-" + "x" * 40}, "at most 40", id="too long a release"),
]


@pytest.mark.parametrize(("kind", "said"), GOOD)
def test_a_name_of_ones_own_is_composed(kind: str, said: dict[str, Any]) -> None:
    assert composed_refusal(claim_of(kind, **said)) == ""


@pytest.mark.parametrize(("kind", "said", "because"), BAD)
def test_a_name_of_somebody_else_is_refused_where_it_is_used(kind: str, said: dict[str, Any], because: str) -> None:
    assert because in composed_refusal(claim_of(kind, **said))


async def test_the_api_says_the_same_when_a_claim_is_written(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        for good in GOOD:
            kind, said = good.values
            claim = claim_of(kind, **said)
            assert await stage.client.create(resource_of(claim), claim, dry_run=True), good.id
        for bad in BAD:
            kind, said, because = bad.values
            claim = claim_of(kind, **said)
            with pytest.raises((errors.Invalid, errors.Forbidden)) as refused:
                await stage.client.create(resource_of(claim), claim, dry_run=True)
            assert because in refused.value.message, bad.id


async def test_a_grant_is_for_its_namespace_alone(tmp_path: Path) -> None:
    claim = claim_of("PostgreSQLInstance", external="ledger")
    claim["metadata"]["namespace"] = "team-b"
    assert "must begin with dev_" in composed_refusal(claim)
    async with opened(tmp_path) as stage:
        await stage.namespace("team-b")
        with pytest.raises(errors.Forbidden, match=r"postgresql\.externalNames in the platform file"):
            await stage.client.create(resource_of(claim), claim)


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "dev_other"), ("dev_shop", "dev_other"), ("dev_shop", "")],
    ids=["set later", "changed", "taken off"],
)
async def test_a_name_stays_as_it_is(tmp_path: Path, before: str, after: str) -> None:
    claim = claim_of("PostgreSQLInstance", external=before)
    async with opened(tmp_path) as stage:
        await stage.client.create(resource_of(claim), claim)
        change: Object = {"metadata": {"annotations": {EXTERNAL_NAME: after or None}}}
        with pytest.raises(errors.Invalid, match="it cannot be set, changed or taken off later"):
            await stage.client.patch(resource_of(claim), "shop", change, NAMESPACE)
        label: Object = {"metadata": {"labels": {"kept": "yes"}}}
        assert await stage.client.patch(resource_of(claim), "shop", label, NAMESPACE)


async def test_a_stored_claim_is_not_locked_out_by_another_platform_file(tmp_path: Path) -> None:
    claim = claim_of("PostgreSQLInstance", external="ledger")
    async with opened(tmp_path) as stage:
        await stage.client.create(resource_of(claim), claim)
        stage.platform = settings.parse("environments: {dev-two: {like: dev}}")
        await groundwork.guard_claims(stage.api, stage.client, stage.platform)
        await stage.start()
        await stage.settle()
        found = await stage.client.get(resource_of(claim), "shop", NAMESPACE)
        assert "externalNames in the platform file" in found["status"]["message"]
        await stage.client.delete(resource_of(claim), "shop", NAMESPACE)
        await stage.settle()
        assert await stage.find(resource_of(claim), "shop") is None


@pytest.mark.parametrize("domain", ["pnats.cloud", "yourdomain.com"])
async def test_every_printed_claim_is_accepted_as_it_stands(tmp_path: Path, domain: str) -> None:
    claims = [claim for claim in printed.EVERYTHING.values() if printed.domain_of(claim) == domain]
    async with opened(tmp_path, f"domain: {domain}") as stage:
        for namespace in {"vault", "argocd", *map(objects.namespace, claims)} - {"default"}:
            await stage.namespace(namespace)
        for claim in claims:
            created = await stage.client.create(resource_of(claim), claim, dry_run=True)
            assert created["spec"] == claim["spec"], "nothing is pruned"


REFUSED: list[Any] = [
    pytest.param({"storageGB": 20}, {"storageGB": 10}, "does not shrink", id="shrinking"),
    pytest.param({"storageGB": 20}, {"storageGB": None}, "does not shrink", id="shrinking to the default"),
    pytest.param({}, {"environment": "staging"}, "a database stays in its environment, dev", id="environment"),
    pytest.param({}, {"size": "huge"}, "small", id="size"),
    pytest.param({}, {"storageGB": 0}, "greater than or equal to 1", id="nothing"),
    pytest.param({}, {"multiTenant": False}, "no claim gets a server of its own", id="own server"),
    pytest.param({}, {"primaryClusterDB": False}, "the platform's own PostgreSQL alone", id="elsewhere"),
    pytest.param({}, {"vaultPath": "secret/dev/../x"}, "vaultPath", id="upwards"),
]


async def test_what_cannot_be_done_to_a_database_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        for number, each in enumerate(REFUSED):
            before, change, because = each.values
            claim = claim_of("PostgreSQLInstance", f"shop-{number}", **before)
            await stage.client.create(resource_of(claim), claim)
            patch: Object = {"spec": {"parameters": change}}
            with pytest.raises(errors.Invalid) as refused:
                await stage.client.patch(resource_of(claim), f"shop-{number}", patch, NAMESPACE)
            assert because in refused.value.message, each.id


async def test_less_than_the_default_that_is_in_use_is_refused(tmp_path: Path) -> None:
    claim = claim_of("PostgreSQLInstance")
    async with opened(tmp_path) as stage:
        await stage.client.create(resource_of(claim), claim)
        used: Object = {"environment": "dev", "size": "small", "storageGB": 20, "enableBackup": True, "connections": 20}
        status: Object = {"status": {"parameters": used}}
        await stage.client.patch(resource_of(claim), "shop", status, NAMESPACE, subresource="status")
        with pytest.raises(errors.Invalid, match="the platform file's default"):
            await stage.client.patch(resource_of(claim), "shop", {"spec": {"parameters": {"storageGB": 19}}}, NAMESPACE)
        grown: Object = {"spec": {"parameters": {"size": "medium", "storageGB": 50}}}
        assert await stage.client.patch(resource_of(claim), "shop", grown, NAMESPACE)


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"replicas": 0}, "greater than or equal to 1"),
        ({"memoryGB": 0}, "greater than or equal to 1"),
        ({"environment": "staging"}, "a cache stays in its environment, dev"),
    ],
    ids=["no server", "no memory", "environment"],
)
async def test_what_cannot_be_done_to_a_cache_is_refused(tmp_path: Path, change: Object, because: str) -> None:
    claim = claim_of("RedisInstance")
    async with opened(tmp_path) as stage:
        await stage.client.create(resource_of(claim), claim)
        with pytest.raises(errors.Invalid) as refused:
            await stage.client.patch(resource_of(claim), "shop", {"spec": {"parameters": change}}, NAMESPACE)
    assert because in refused.value.message
