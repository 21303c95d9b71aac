"""What the platform has in Vault: its store, what is set up, who may read what, and logins of databases."""

from __future__ import annotations

import pytest

from steelyard import settings
from steelyard.api.externalsecrets.kinds import CLUSTER_SECRET_STORES, PUSH_SECRETS
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.compose import managed
from steelyard.compose.composed import Observed
from steelyard.compose.integrations import vaultdatabase, vaultplatform, vaultpolicies
from steelyard.compose.integrations.vaultdatabase import Database
from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.compose import upstream

EVERYTHING = """
integrations:
  vault: {enabled: true, address: 'https://vault:8200', ciCd: [harbor], pki: {enabled: true}, auth: {AUTH}}
  sharedServices: {enabled: true}
"""
TOKEN = "token: {file: /run/token}"
APP_ROLE = "appRole: {roleId: r, secretId: {secret: vault, key: id}}"
KUBERNETES = "kubernetes: {role: me}"
DATABASE = Database(
    name="team-a-shop-6b3e35",
    environment="dev",
    namespace="team-a",
    service="shop",
    host="db",
    port=5432,
    database='dev"shop',
    owner="dev'owner",
    admin=("crossplane-system", "postgres-admin-creds"),
)


def standing(auth: str = TOKEN) -> list[tuple[str, Object]]:
    platform = settings.parse(EVERYTHING.replace("AUTH", auth))
    return [(resource.group_resource, obj) for resource, obj in vaultplatform.standing(platform)]


def test_without_vault_there_is_nothing() -> None:
    assert vaultplatform.standing(settings.parse("")) == []


@upstream.needed
@pytest.mark.parametrize("auth", [TOKEN, APP_ROLE, KUBERNETES])
def test_what_stands_passes_upstreams_schemas(auth: str) -> None:
    for resource, obj in vaultplatform.standing(settings.parse(EVERYTHING.replace("AUTH", auth))):
        if resource.group not in upstream.BUILT_IN:
            schema = upstream.schema_of(resource.group_resource, resource.version)
            assert upstream.problems(schema, obj) == [], objects.name(obj)


def test_the_platforms_store_is_for_the_platforms_namespaces_only() -> None:
    (store,) = [obj for name, obj in standing() if name == CLUSTER_SECRET_STORES.group_resource]

    assert store["spec"]["conditions"] == [{"namespaces": ["crossplane-system"]}]


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        (TOKEN, {"tokenSecretRef": {"name": "vault-login", "namespace": "crossplane-system", "key": "value"}}),
        (
            APP_ROLE,
            {
                "appRole": {
                    "path": "approle",
                    "roleId": "r",
                    "secretRef": {"name": "vault", "namespace": "crossplane-system", "key": "id"},
                }
            },
        ),
        (
            KUBERNETES,
            {
                "kubernetes": {
                    "mountPath": "kubernetes",
                    "role": "me",
                    "serviceAccountRef": {"name": "external-secrets-sa", "namespace": "crossplane-system"},
                }
            },
        ),
    ],
    ids=["token", "approle", "kubernetes"],
)
def test_the_store_logs_in_as_the_file_says(auth: str, said: Object) -> None:
    (store,) = [obj for name, obj in standing(auth) if name == CLUSTER_SECRET_STORES.group_resource]

    assert store["spec"]["provider"]["vault"]["auth"] == said


def test_no_two_things_stand_under_one_name_or_path() -> None:
    entries = [obj for name, obj in standing() if name == VAULT_ENTRIES.group_resource]
    pushes = [obj for name, obj in standing() if name == PUSH_SECRETS.group_resource]

    assert (
        len({objects.name(each) for each in entries}) == len({each["spec"]["path"] for each in entries}) == len(entries)
    )
    assert len({objects.name(each) for each in pushes}) == len(pushes)


def test_engines_stay_when_the_platform_goes() -> None:
    engines = [obj for _, obj in standing() if str(objects.at(obj, "spec", "path") or "").startswith("sys/mounts/")]

    assert {each["spec"]["path"] for each in engines} == {"sys/mounts/secret", "sys/mounts/database", "sys/mounts/pki"}
    assert {each["spec"]["deletionPolicy"] for each in engines} == {"Orphan"}


def test_a_login_of_vaults_acts_as_the_owner_and_leaves_nothing() -> None:
    vault = settings.parse("integrations: {vault: {enabled: true}}").integrations.vault
    parts = vaultdatabase.parts(vault, DATABASE)
    role = parts[vaultdatabase.READ_WRITE].object["spec"]

    assert role["path"] == "database/roles/dev.team-a.shop-readwrite"
    assert (role["data"]["default_ttl"], role["data"]["max_ttl"]) == ("1h", "24h")
    created, acts = role["data"]["creation_statements"]
    assert created.endswith('IN ROLE "dev\'owner";')
    assert acts == """ALTER ROLE "{{name}}" IN DATABASE "dev""shop" SET role TO 'dev''owner';"""
    assert [each.split()[0] for each in role["data"]["revocation_statements"]] == [
        "ALTER", "SELECT", "REASSIGN", "DROP", "DROP",
    ]  # fmt: skip
    connection = parts[vaultdatabase.CONNECTION]
    assert "password" not in connection.object["spec"]["data"], "a password is in an object"
    assert connection.deletion_stage > parts[vaultdatabase.READ_WRITE].deletion_stage


def test_where_it_is_turned_off_vault_is_not_told_of_databases() -> None:
    for file in ("", "{enabled: true, configure: false}", "{enabled: true, database: {enabled: false}}"):
        vault = settings.parse(f"integrations: {{vault: {file or '{}'}}}").integrations.vault
        assert vaultdatabase.parts(vault, DATABASE) == {}


def test_a_cluster_reads_nothing_of_another_namespace() -> None:
    vault = settings.parse("integrations: {vault: {enabled: true}}").integrations.vault
    rules = vaultpolicies.of_cluster(vault, "dev", "team-a")

    assert all(set(may) <= {"read", "list"} for may in rules.values())
    for path in rules:
        is_shared = path.endswith(("/dev", "/shared-services/*"))
        assert is_shared or "team-a" in path, path
    assert not any("clusters" in path or "ci-cd" in path for path in rules)


def test_a_vault_that_is_away_makes_nothing_unusable() -> None:
    vault = settings.parse("integrations: {vault: {enabled: true}}").integrations.vault
    push = managed.push(vault, "shop", "secret/apps/dev/shop", {"a": "{{ .a }}"})
    said = {"type": "Ready", "status": "False", "reason": "Errored", "message": "Vault at x is sealed: unseal it"}
    observed = Observed({"vault": {**push.object, "status": {"conditions": [said]}}})

    here = managed.progress({"vault": push}, observed)

    assert "is sealed: unseal it" in here.waiting_for
    assert here.lost == ""
