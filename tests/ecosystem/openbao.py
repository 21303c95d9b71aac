"""A real OpenBao behind a real platform: the tree in Vault, what is pushed and pulled, database logins, policies, and
Vault sealed, refusing and killed under way. Each step is what somebody with a Vault would see.

The platform logs in by AppRole with the policy that `steelyard secrets policy` prints, and with nothing more.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import urllib.error
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from psycopg import sql

from steelyard import settings
from steelyard.api import postgresql
from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SETS
from steelyard.api.externalsecrets.kinds import (
    CLUSTER_SECRET_STORES,
    EXTERNAL_SECRETS,
    PASSWORDS,
    PUSH_SECRETS,
    SECRET_STORES,
)
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.compose import managed, names
from steelyard.compose.integrations import vaultdatabase, vaultentries, vaultpolicies
from steelyard.compose.integrations.vaultdatabase import Database
from steelyard.kube import errors, objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.kube.runtime import conditions
from tests import inprocess
from tests.ecosystem.baoserver import BaoServer
from tests.ecosystem.outcome import Outcome
from tests.harness import built
from tests.postgresserver import PostgresServer, programs

T = TypeVar("T")

_NAME: Final = "OpenBao 2.4.0 with storage on disk, and PostgreSQL"
HOME: Final = "crossplane-system"
_STEP_SECONDS: Final = 60.0
_LONG_AGO: Final = "2026-01-01T00:00:00Z"
_STORE: Final[Object] = {"name": "vault-backend", "kind": "ClusterSecretStore"}
_FILE: Final = """\
integrations:
  vault:
    enabled: true
    address: {address}
    caCertificates: |
{authority}
    auth:
      appRole: {{roleId: {role}, secretId: {{file: {secret}}}}}
    ciCd: [harbor]
    pki: {{enabled: true}}
    timeoutSeconds: 5
  externalSecrets: {{enabled: true}}
  sharedServices: {{enabled: true}}
"""


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    bao = BaoServer(built("bao")[0], fresh(folder / "bao"))
    passed: list[str] = []
    # PostgreSQL does not run as root, and must get into its folder.
    with tempfile.TemporaryDirectory(prefix="ecosystem-postgres-", ignore_cleanup_errors=True) as place:
        postgres = PostgresServer(Path(place), programs() or Path("/nonexistent"))
        try:
            postgres.start()
            bao.set_up()
            asyncio.run(collect(_story(folder, bao, postgres), passed))
        except (AssertionError, OSError, subprocess.SubprocessError, errors.ApiError, psycopg.Error) as error:
            log = bao.log.read_text()[-2000:] if bao.log.exists() else ""
            story = f"after: {'; '.join(passed)}\n{type(error).__name__}: {error}\nthe end of OpenBao's log:\n{log}"
            return Outcome(_NAME, len(passed), 1, story=story)
        finally:
            bao.stop()
            postgres.stop()
    return Outcome(_NAME, len(passed), 0, "; ".join(passed))


def fresh(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


async def collect(steps: AsyncIterator[str], passed: list[str]) -> None:
    async for each in steps:
        passed += [each]


async def _story(folder: Path, bao: BaoServer, postgres: PostgresServer) -> AsyncIterator[str]:
    text = platform_file(folder, bao)
    platform = settings.parse(text)
    let_platform_in(bao, platform)
    async with inprocess.platform(folder, text) as client:
        for step in (_tree, _pushes, _pulls, _hostile, _policies, _cluster, _certificates):
            async for each in step(client, bao):
                yield each
        async for each in _logins(client, bao, postgres, platform):
            yield each
        async for each in _claim(client, bao, postgres.programs / "psql"):
            yield each
        async for each in _command_line(folder, bao):
            yield each
        async for each in _troubles(client, bao):
            yield each
    async for each in _token(folder, bao):
        yield each


def platform_file(folder: Path, bao: BaoServer) -> str:
    authority = textwrap.indent(bao.authority.read_text(), " " * 6)
    return _FILE.format(address=bao.address, authority=authority, role="steelyard-role", secret=folder / "secret-id")


def let_platform_in(bao: BaoServer, platform: settings.Platform) -> None:
    """What an administrator of Vault does once."""
    rules = vaultentries.text(vaultpolicies.of_platform(platform.integrations.vault))
    bao.call("PUT", "sys/policies/acl/steelyard", {"policy": rules})
    bao.call("POST", "sys/auth/approle", {"type": "approle"})
    role = {"token_policies": ["steelyard"], "token_ttl": "20s", "token_max_ttl": "60s"}
    bao.call("POST", "auth/approle/role/steelyard", role)
    bao.call("POST", "auth/approle/role/steelyard/role-id", {"role_id": "steelyard-role"})
    _new_secret_id(bao, platform)


def _new_secret_id(bao: BaoServer, platform: settings.Platform) -> None:
    asked = platform.integrations.vault.auth.app_role
    assert asked is not None
    assert asked.secret_id.file is not None
    made = bao.call("POST", "auth/approle/role/steelyard/secret-id", {})
    Path(asked.secret_id.file).write_text(made["data"]["secret_id"] + "\n")


async def _tree(client: Client, bao: BaoServer) -> AsyncIterator[str]:
    await ready(client, CLUSTER_SECRET_STORES, "vault-backend")
    for entry in (await client.list(VAULT_ENTRIES)).items:
        await ready(client, VAULT_ENTRIES, objects.name(entry))
    found = bao.call("GET", "sys/mounts")["data"]
    assert found["secret/"]["options"]["version"] == "2", found
    assert {"database/", "pki/"} <= set(found), found
    yield "by AppRole, with the printed policy alone, the platform makes the engines"
    await until(lambda: now(bao.secret("shared-services/kafka")), lambda it: it is not None)
    assert bao.secret("shared-services/kafka") == {"brokers": "kafka.shared-services.svc.cluster.local:9092"}
    assert bao.secret("shared-services/redis") == {"url": "redis://redis.shared-services.svc.cluster.local:6379"}
    await client.create(SECRETS, secret("ci-cd-harbor", username="robot", password="first"))
    await until(lambda: now(bao.secret("ci-cd/harbor")), lambda it: it is not None)
    assert bao.secret("ci-cd/harbor") == {"username": "robot", "password": "first"}
    yield "shared services and the delivery pipeline have their places in the tree"


async def _pushes(client: Client, bao: BaoServer) -> AsyncIterator[str]:
    await client.create(SECRETS, secret("shop", username="app", password="p@ss word/1", endpoint="db", port="5432"))
    template = {"database-url": "postgresql://{{ .username | urlquery }}:{{ .password | urlquery }}@{{ .endpoint }}"}
    push = managed.push(Pushing(), "shop", "secret/apps/dev/shop", template).object
    await client.create(PUSH_SECRETS, push)
    name = objects.name(push)
    await ready(client, PUSH_SECRETS, name, HOME)
    assert bao.secret("apps/dev/shop") == {"database-url": "postgresql://app:p%40ss+word%2F1@db"}
    yield "a push is templated as External Secrets does it"

    platform = settings.parse("integrations: {vault: {enabled: true}}")
    for part in vaultdatabase.api_key(platform.integrations.vault, Pushing(), "secret/apps/dev/shop").values():
        await client.create(part.resource, part.object)
    await until(lambda: now(bao.secret("apps/dev/shop") or {}), lambda it: "api-key" in it)
    key = (bao.secret("apps/dev/shop") or {})["api-key"]
    assert len(key) == 40, "of another length"
    assert key.isalnum(), "of letters and digits"
    yield "an api-key is made up beside it"

    version = bao.version("apps/dev/shop")
    await touch(client, PUSH_SECRETS, name, HOME)
    await touch(client, PUSH_SECRETS, f"{name}-api-key", HOME)
    await asyncio.sleep(2)
    assert bao.version("apps/dev/shop") == version, "written though nothing had changed"
    yield "nothing is written while nothing changes"

    await set_values(client, "shop", password="second")
    await until(lambda: now(bao.secret("apps/dev/shop") or {}), lambda it: "second" in it["database-url"])
    assert (bao.secret("apps/dev/shop") or {})["api-key"] == key
    yield "a rotated password follows, and the api-key stays"

    bao.call("POST", "secret/data/apps/dev/shop", {"data": {"database-url": "tampered", "api-key": key}})
    await touch(client, PUSH_SECRETS, name, HOME)
    await until(lambda: now(bao.secret("apps/dev/shop") or {}), lambda it: "second" in it["database-url"])
    yield "what was changed in Vault is put right at the next look"

    bao.call("POST", "secret/data/apps/dev/theirs", {"data": {"password": "of somebody else"}})
    theirs = managed.push(Pushing(), "shop", "secret/apps/dev/theirs", {"password": "{{ .password }}"}).object
    await client.create(PUSH_SECRETS, theirs)
    told = await _says(client, PUSH_SECRETS, objects.name(theirs), HOME, "somebody else")
    assert bao.secret("apps/dev/theirs") == {"password": "of somebody else"}
    assert not any(each in told for each in ("second", "of somebody")), told
    await client.delete(PUSH_SECRETS, objects.name(theirs), HOME)
    await gone(client, PUSH_SECRETS, objects.name(theirs), HOME)
    assert bao.secret("apps/dev/theirs") == {"password": "of somebody else"}
    yield "what others put there is neither overwritten nor deleted"

    await client.delete(PUSH_SECRETS, name, HOME)
    await gone(client, PUSH_SECRETS, name, HOME)
    assert bao.secret("apps/dev/shop") == {"api-key": key}
    await client.delete(PUSH_SECRETS, f"{name}-api-key", HOME)
    await client.delete(PASSWORDS, f"{name}-api-key", HOME)
    await gone(client, PUSH_SECRETS, f"{name}-api-key", HOME)
    assert bao.status("GET", "secret/metadata/apps/dev/shop") == 404, "the history is still there"
    yield "a deleted push takes its keys away, the last one the whole secret"


async def _pulls(client: Client, bao: BaoServer) -> AsyncIterator[str]:
    bao.call("POST", "secret/data/apps/dev/pulled", {"data": {"user": "u", "password": "one"}})
    spec: Object = {
        "refreshInterval": "2s",
        "secretStoreRef": _STORE,
        "target": {
            "name": "made",
            "creationPolicy": "Owner",
            "template": {"data": {"url": "{{ .u }}:{{ .password }}"}},
        },
        "data": [{"secretKey": "u", "remoteRef": {"key": "apps/dev/pulled", "property": "user"}}],
        "dataFrom": [{"extract": {"key": "apps/dev/pulled"}}],
    }
    await client.create(EXTERNAL_SECRETS, new(EXTERNAL_SECRETS, "pull", HOME, spec))
    await ready(client, EXTERNAL_SECRETS, "pull", HOME)
    assert await _values(client, "made") == {"url": "u:one"}
    yield "an ExternalSecret makes a Secret of it"
    bao.call("POST", "secret/data/apps/dev/pulled", {"data": {"user": "u", "password": "two"}})
    await until(lambda: _values(client, "made"), lambda it: it == {"url": "u:two"})
    yield "and makes it again when it was rotated in Vault"
    bao.call("DELETE", "secret/metadata/apps/dev/pulled")
    await _says(client, EXTERNAL_SECRETS, "pull", HOME, "there is nothing at apps/dev/pulled")
    assert await _values(client, "made") == {"url": "u:two"}
    await client.delete(EXTERNAL_SECRETS, "pull", HOME)
    await gone(client, SECRETS, "made", HOME)
    yield "what is gone from Vault stays in the Secret, and goes with the ExternalSecret"


async def _hostile(client: Client, bao: BaoServer) -> AsyncIterator[str]:
    await inprocess.namespace(client, "team-a")
    spec: Object = {"secretStoreRef": _STORE, "dataFrom": [{"extract": {"key": "ci-cd/harbor"}}]}
    await client.create(EXTERNAL_SECRETS, new(EXTERNAL_SECRETS, "thief", "team-a", spec))
    await _says(client, EXTERNAL_SECRETS, "thief", "team-a", "is not for namespace team-a")
    assert not await _exists(client, SECRETS, "thief", "team-a")
    yield "a tenant cannot read with the platform's store"

    for path in ("apps/../../sys/mounts", "apps/x?list=true", "apps/%2e%2e/x", "/apps"):
        crafted = managed.push(Pushing(), "shop", "secret/apps/x", {"a": "b"}).object
        data: list[Object] = [{"match": {"secretKey": "a", "remoteRef": {"remoteKey": path, "property": "a"}}}]
        crafted = new(PUSH_SECRETS, "crafted", HOME, {**crafted["spec"], "data": data})
        await client.create(PUSH_SECRETS, crafted)
        await _says(client, PUSH_SECRETS, "crafted", HOME, "is no path in Vault")
        await client.delete(PUSH_SECRETS, "crafted", HOME)
        await gone(client, PUSH_SECRETS, "crafted", HOME)
    yield "paths that lead elsewhere are refused"

    await client.create(SECRETS, secret("mine", "team-a", token="tenant"))
    for field, server in (("loopback", "http://127.0.0.1:1"), ("elsewhere", "https://vault.example.com")):
        login: Object = {"tokenSecretRef": {"name": "mine", "key": "token"}}
        vault: Object = {"server": server, "path": "secret", "version": "v2", "auth": login}
        store = new(SECRET_STORES, field, "team-a", {"provider": {"vault": vault}})
        await client.create(SECRET_STORES, store)
        await _says(client, SECRET_STORES, field, "team-a", "the platform's Vault")
    yield "a tenant's store leads to the platform's Vault and nowhere else"


async def _policies(client: Client, bao: BaoServer) -> AsyncIterator[str]:
    vault = settings.parse("integrations: {vault: {enabled: true, pki: {enabled: true}}}").integrations.vault
    policy = vaultentries.policy(vault, "steelyard-cluster-test", vaultpolicies.of_cluster(vault, "dev", "team-a"))
    await client.create(policy.resource, policy.object)
    await ready(client, VAULT_ENTRIES, "steelyard-cluster-test")
    token = bao.call("POST", "auth/token/create", {"policies": ["steelyard-cluster-test"]})["auth"]["client_token"]
    may = ("apps/dev/team-a/shop", "apps/team-a/shop", "apps/team-a", "apps/dev", "shared-services/kafka")
    may_not = (
        "apps/dev/team-b/shop",
        "apps/team-b/shop",
        "apps/staging/team-a/shop",
        "apps/dev/shop",
        "clusters/dev/team-a/shop",
        "ci-cd/harbor",
    )
    for path in may:
        bao.call("POST", f"secret/data/{path}", {"data": {"a": "b"}})
        assert bao.status("GET", f"secret/data/{path}", token=token) == 200, path
        assert bao.status("POST", f"secret/data/{path}", {"data": {}}, token=token) == 403, path
    for path in may_not:
        assert bao.status("GET", f"secret/data/{path}", token=token) == 403, path
    for path in (
        "database/creds/dev.team-b.shop-readwrite",
        "sys/policies/acl/steelyard",
        "sys/auth",
        "pki/roles/dev-cert",
    ):
        assert bao.status("GET", path, token=token) == 403, path
    yield "a cluster's policy lets it read its namespace's and shared things, and nothing else"
    bao.call("PUT", "sys/policies/acl/steelyard-cluster-test", {"policy": 'path "*" { capabilities = ["read"] }'})
    await touch(client, VAULT_ENTRIES, "steelyard-cluster-test")
    await until(lambda: now(bao.status("GET", "secret/data/ci-cd/harbor", token=token)), lambda it: it == 403)
    yield "a policy that somebody widened is put right"


async def _cluster(client: Client, bao: BaoServer) -> AsyncIterator[str]:
    """A simulated cluster, whose API is asked by Vault whether a service account is genuine."""
    namespace = "default"
    await client.create(inprocess.CLAIMS, inprocess.claim("shop", workerReplicas=1))
    await until(
        lambda: client.get(CLUSTER_RESOURCE_SETS, "shop-secret-store", namespace),
        lambda it: conditions.is_true(it, "ResourcesApplied"),
    )
    await until(
        lambda: client.get(inprocess.CLAIMS, "shop", namespace),
        lambda it: conditions.is_true(it, "VaultConfigured"),
    )
    entries = {objects.name(each): each for each in (await client.list(VAULT_ENTRIES)).items}
    engine = next(
        str(each["spec"]["path"]) for each in entries.values() if str(each["spec"]["path"]).startswith("sys/auth")
    )
    stored = bao.secret(f"clusters/dev/{namespace}/shop")
    assert stored is not None, "no kubeconfig in Vault"
    assert stored["api-url"].startswith("https://"), stored["api-url"]
    kubeconfig = (bao.secret(f"clusters/dev/{namespace}/shop/kubeconfig") or {})["value"]
    assert base64.b64decode(stored["kubeconfig"]).decode() == kubeconfig
    yield "a cluster's kubeconfig is in Vault, under both paths"

    token = await _account_token(kubeconfig, "external-secrets", "external-secrets-sa")
    login = f"auth/{engine.removeprefix('sys/auth/')}/login"
    # In a thread: Vault asks the cluster's API, which is served by this very process.
    body = {"role": "vcluster-dev", "jwt": token}
    own = (await asyncio.to_thread(bao.call, "POST", login, body, ""))["auth"]["client_token"]
    assert bao.status("GET", "secret/data/shared-services/kafka", token=own) == 200
    assert bao.status("GET", f"secret/data/clusters/dev/{namespace}/shop", token=own) == 403
    other = await _account_token(kubeconfig, "default", "default")
    body = {"role": "vcluster-dev", "jwt": other}
    assert await asyncio.to_thread(bao.status, "POST", login, body, "") in (400, 403)
    yield "External Secrets' service account of the cluster logs in to Vault, another does not"

    await client.delete(inprocess.CLAIMS, "shop", namespace)
    await gone(client, inprocess.CLAIMS, "shop", namespace)
    assert engine.removeprefix("sys/auth/") + "/" not in bao.call("GET", "sys/auth")["data"]
    assert bao.secret(f"clusters/dev/{namespace}/shop") is None
    left = [each for each in bao.call("LIST", "sys/policies/acl")["data"]["keys"] if "cluster" in each]
    assert left == ["steelyard-cluster-test"], left
    yield "with the cluster its engine, policy and secrets are gone"


async def _account_token(kubeconfig: str, namespace: str, name: str) -> str:
    cluster = HttpClient.from_kubeconfig(kubeconfig)
    try:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = await cluster.request("POST", path, body=body)
        return str(answer["status"]["token"])
    finally:
        await cluster.close()


async def _certificates(client: Client, bao: BaoServer) -> AsyncIterator[str]:
    await ready(client, VAULT_ENTRIES, "pki-authority")
    made = bao.call("POST", "pki/sign/dev-cert", {"csr": _request_for("shop.dev.steelyard.dev"), "ttl": "1h"})
    assert "BEGIN CERTIFICATE" in made["data"]["certificate"]
    assert bao.status("POST", "pki/sign/dev-cert", {"csr": _request_for("shop.staging.steelyard.dev")}) == 400
    yield "an environment's role gives certificates for its domain and for no other"


def _request_for(name: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode()


async def _logins(
    client: Client, bao: BaoServer, postgres: PostgresServer, platform: settings.Platform
) -> AsyncIterator[str]:
    for statement in (
        "CREATE ROLE dev_shop_owner NOLOGIN",
        "CREATE DATABASE dev_shop OWNER dev_shop_owner",
        "REVOKE ALL ON DATABASE dev_shop FROM PUBLIC",
        "CREATE ROLE vaultadmin SUPERUSER LOGIN PASSWORD 'adm in/1'",
    ):
        with postgres.connect() as connection:
            connection.execute(statement)  # pyright: ignore[reportArgumentType] (texts from above)
    await client.create(SECRETS, secret("postgres-admin-creds-test", username="vaultadmin", password="adm in/1"))
    database = Database(
        name="dev-shop",
        environment="dev",
        namespace="team-a",
        service="shop",
        host="127.0.0.1",
        port=postgres.port,
        database="dev_shop",
        owner="dev_shop_owner",
        admin=(HOME, "postgres-admin-creds-test"),
        ssl_mode="disable",
    )
    parts = vaultdatabase.parts(platform.integrations.vault, database)
    for part in parts.values():
        await client.create(part.resource, part.object)
    for part in parts.values():
        await ready(client, VAULT_ENTRIES, objects.name(part.object))
    shown = bao.call("GET", "database/config/postgres-dev.team-a.shop")["data"]
    assert "password" not in shown["connection_details"]
    assert "adm in" not in str(shown)
    role = vaultdatabase.role_of(database)
    assert bao.call("GET", f"database/roles/{role}")["data"]["default_ttl"] == 3600
    assert bao.call("GET", f"database/roles/{role}")["data"]["max_ttl"] == 86400
    yield "a database has its connection and roles, for an hour and a day at most"

    bao.call(
        "POST", f"database/roles/{role}", {**bao.call("GET", f"database/roles/{role}")["data"], "default_ttl": "4s"}
    )
    made = bao.call("GET", f"database/creds/{role}")["data"]
    psql = str(postgres.programs / "psql")
    address = f"postgresql://{made['username']}@127.0.0.1:{postgres.port}/dev_shop"
    done = await asyncio.to_thread(
        subprocess.run,
        [
            psql,
            "-X",
            "-At",
            "-c",
            "CREATE TABLE orders (id int); INSERT INTO orders VALUES (7)",
            "-c",
            "TABLE orders",
            address,
        ],
        env={"PGPASSWORD": made["password"], "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "7", done.stdout
    with postgres.connect("dev_shop") as connection:
        # What it makes without acting as the owner is its own, and is handed over.
        owner = connection.execute("SELECT tableowner FROM pg_tables WHERE tablename = 'orders'").fetchone()
        connection.execute("CREATE TABLE own (id int)")
        connection.execute(sql.SQL("ALTER TABLE own OWNER TO {}").format(sql.Identifier(made["username"])))
    assert owner == ("dev_shop_owner",), owner
    session = psycopg.connect(f"{postgres.dsn('dev_shop', made['username'])} password={made['password']}")
    yield "psql uses a login of Vault's; what it creates is the owner's"

    await until(lambda: now(_roles(postgres, made["username"])), lambda it: it == 0, seconds=30)
    with postgres.connect("dev_shop") as connection:
        owners = connection.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert owners == [("dev_shop_owner",)], owners
    try:
        session.execute("SELECT 1")
        raise AssertionError("its session goes on")
    except psycopg.OperationalError:
        session.close()
    yield "at its end its session is ended, its tables are the owner's, and it is gone"

    await touch(client, VAULT_ENTRIES, "database-dev-shop-readwrite")
    await until(lambda: now(bao.call("GET", f"database/roles/{role}")["data"]["default_ttl"]), lambda it: it == 3600)
    reader = bao.call("GET", f"database/creds/{vaultdatabase.role_of(database, 'readonly')}")
    login = psycopg.connect(postgres.dsn("dev_shop", reader["data"]["username"]), autocommit=True)
    assert login.execute("TABLE orders").fetchone() == (7,)
    try:
        login.execute("INSERT INTO orders VALUES (8)")
        raise AssertionError("a reader could write")
    except psycopg.errors.InsufficientPrivilege:
        pass
    bao.call("PUT", "sys/leases/revoke", {"lease_id": reader["lease_id"]})
    login.close()
    await until(lambda: now(_roles(postgres, reader["data"]["username"])), lambda it: it == 0)
    yield "a reader reads and does not write; revoked before its time it is gone at once"

    held = bao.call("GET", f"database/creds/{role}")["data"]["username"]
    for name in ("database-dev-shop-readwrite", "database-dev-shop-readonly", "database-dev-shop"):
        await client.delete(VAULT_ENTRIES, name)
        await gone(client, VAULT_ENTRIES, name)
    assert bao.status("GET", "database/config/postgres-dev.team-a.shop") == 404
    assert _roles(postgres, held) == 0, "a login that was given out lives on"
    with postgres.connect() as connection:
        connection.execute("DROP DATABASE dev_shop")
    yield "Vault forgets the database, takes back the logins, and holds no session in it"


async def _claim(client: Client, bao: BaoServer, psql: Path) -> AsyncIterator[str]:
    """A developer's claim on the platform's own PostgreSQL, through Vault and back."""
    await inprocess.namespace(client, "team-a")
    claims = postgresql.resource("steelyard.dev")
    spec: Object = {
        "parameters": {"environment": "dev", "size": "small", "enableBackup": False},
        "writeConnectionSecretToRef": {"name": "ledger-database"},
    }
    await client.create(claims, new(claims, "ledger", "team-a", spec))
    await ready(client, claims, "ledger", "team-a", seconds=180)
    path = "apps/dev/team-a/ledger"
    stored = await until(lambda: now(bao.secret(path) or {}), lambda it: {"password", "api-key"} <= set(it))
    connection = await client.get(SECRETS, "ledger-database", "team-a")
    assert stored["password"] == base64.b64decode(connection["data"]["password"]).decode()
    assert len(stored["api-key"]) == 40
    named = f"database-{names.external('team-a', 'ledger')}"
    for each in (named, f"{named}-readwrite"):
        await ready(client, VAULT_ENTRIES, each)
    made = bao.call("GET", "database/creds/dev.team-a.ledger-readwrite")
    url = f"postgresql://{made['data']['username']}@{stored['host']}:{stored['port']}/{stored['database']}"
    done = await asyncio.to_thread(
        subprocess.run,
        [
            str(psql),
            "-X",
            "-At",
            "-c",
            "CREATE TABLE orders (id int)",
            "-c",
            "SELECT tableowner FROM pg_tables WHERE tablename = 'orders'",
            url,
        ],
        env={"PGPASSWORD": made["data"]["password"], "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] != made["data"]["username"], "what it made is its own"
    yield "a PostgreSQLInstance has its credentials and api-key in Vault, and logins of Vault's use its database"

    bao.seal()
    await _look_now(client)
    found: Object = await until(
        lambda: client.get(claims, "ledger", "team-a"),
        lambda it: "is sealed: unseal it" in str(conditions.of(it)),
        seconds=120,
    )
    assert conditions.is_true(found, "Ready"), conditions.of(found)
    bao.unseal()
    await ready(client, claims, "ledger", "team-a", seconds=120)
    yield "while Vault is sealed the claim says so and stays Ready"

    await client.delete(claims, "ledger", "team-a")
    await gone(client, claims, "ledger", "team-a")
    assert bao.secret(path) is None
    assert bao.status("GET", "database/roles/dev.team-a.ledger-readwrite") == 404
    assert bao.status("GET", "database/config/postgres-dev.team-a.ledger") == 404
    admin = await _values(client, "postgres-admin-creds")
    server = f"host={admin['endpoint']} port={admin['port']} user={admin['username']} dbname=postgres"
    with psycopg.connect(server, password=admin["password"]) as login:
        left = login.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'v-%'").fetchall()
    assert left == [], left
    yield "with the claim nothing of it is left in Vault, and no login of Vault's on the server"


async def _look_now(client: Client) -> None:
    """Has the pushes looked at now, and not at their next refresh."""
    for each in (await client.list(PUSH_SECRETS, HOME)).items:
        await touch(client, PUSH_SECRETS, objects.name(each), HOME)


async def _command_line(folder: Path, bao: BaoServer) -> AsyncIterator[str]:
    def called(*words: str) -> tuple[int, Any]:
        command = [
            sys.executable,
            "-m",
            "steelyard",
            "secrets",
            *words,
            "--data-dir",
            str(folder / "data"),
            "-o",
            "json",
        ]
        login = {"VAULT_ADDR": bao.address, "VAULT_TOKEN": bao.token, "VAULT_CACERT": str(bao.authority)}
        done = subprocess.run(
            command, env={**os.environ, **login}, capture_output=True, text=True, check=False, timeout=60
        )
        assert not any(each in done.stdout + done.stderr for each in (bao.token, "first")), "a value is printed"
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    _, listed = await asyncio.to_thread(called, "tree")
    kept = {each["path"]: each for each in listed}
    assert kept["shared-services/kafka"]["keys"] == ["brokers"]
    assert kept["sys/policies/acl/steelyard-ci-cd"]["state"] == "kept"
    yield "steelyard secrets tree lists what is kept where"

    code, found = await asyncio.to_thread(called, "diff")
    different = {each["path"]: each["difference"] for each in found}
    assert code == 1, found
    assert different["apps/dev/theirs"] == "not the platform's", found
    before = bao.call("GET", "secret/data/shared-services/postgres")["data"]["data"]
    bao.call("POST", "secret/data/shared-services/postgres", {"data": {"host": "x", "user": "y"}})
    bao.call("DELETE", "sys/policies/acl/steelyard-ci-cd")
    bao.call("DELETE", "secret/metadata/shared-services/temporal")
    code, found = await asyncio.to_thread(called, "diff")
    changed = ("shared-services/postgres", "shared-services/temporal")
    told = [each["difference"] for each in found if each["path"] in changed]
    expected = ["keys missing: port", "keys that the platform did not put there: user", "missing"]
    assert sorted(told) == sorted(expected), found
    assert {"path": "sys/policies/acl/steelyard-ci-cd", "difference": "missing"} in found
    bao.call("POST", "secret/data/shared-services/postgres", {"data": before})
    yield "steelyard secrets diff tells what is missing, too much and changed, and no value"


async def _troubles(client: Client, bao: BaoServer) -> AsyncIterator[str]:
    bao.seal()
    await _says(client, CLUSTER_SECRET_STORES, "vault-backend", "", "is sealed: unseal it")
    await set_values(client, "ci-cd-harbor", password="while sealed")
    name = await push_of(client, "ci-cd/harbor")
    told = await _says(client, PUSH_SECRETS, name, HOME, "is sealed: unseal it")
    assert "while sealed" not in told
    entry = await client.get(VAULT_ENTRIES, "steelyard-ci-cd")
    assert conditions.is_true(entry, "Ready"), "what was set up is told not to be there"
    before = await _writes(client)
    await asyncio.sleep(5)
    assert await _writes(client) == before, "objects are written to while nothing changes"
    yield "while Vault is sealed the objects say so and what to do, what is there stays, and nothing is written"
    bao.unseal()
    await until(
        lambda: now((bao.secret("ci-cd/harbor") or {}).get("password")), lambda it: it == "while sealed", seconds=90
    )
    await ready(client, PUSH_SECRETS, name, HOME)
    yield "unsealed, everything catches up by itself"

    bao.kill()
    await set_values(client, "ci-cd-harbor", password="while away")
    await _says(client, PUSH_SECRETS, name, HOME, "cannot be reached")
    bao.start()
    bao.unseal()
    await until(
        lambda: now((bao.secret("ci-cd/harbor") or {}).get("password")), lambda it: it == "while away", seconds=90
    )
    await ready(client, CLUSTER_SECRET_STORES, "vault-backend")
    yield "killed and started again, too"

    bao.call("POST", "auth/approle/role/steelyard", {"token_policies": ["default"]})
    accessors = bao.call("LIST", "auth/token/accessors")["data"]["keys"]
    own = bao.call("GET", "auth/token/lookup-self")["data"]["accessor"]
    for each in accessors:
        if each != own:
            try:
                bao.call("POST", "auth/token/revoke-accessor", {"accessor": each})
            except urllib.error.HTTPError:
                continue
    await set_values(client, "ci-cd-harbor", password="while refused")
    await _says(client, PUSH_SECRETS, name, HOME, "refuses")
    bao.call("POST", "auth/approle/role/steelyard", {"token_policies": ["steelyard"]})
    for each in bao.call("LIST", "auth/token/accessors")["data"]["keys"]:
        if each != own:
            try:
                bao.call("POST", "auth/token/revoke-accessor", {"accessor": each})
            except urllib.error.HTTPError:
                continue
    await until(
        lambda: now((bao.secret("ci-cd/harbor") or {}).get("password")), lambda it: it == "while refused", seconds=120
    )
    yield "a login that is refused is told, and works again when it is allowed"


async def _token(folder: Path, bao: BaoServer) -> AsyncIterator[str]:
    """Another platform on the same Vault, with a token that is renewed."""
    made = bao.call("POST", "auth/token/create", {"policies": ["steelyard"], "ttl": "20s", "renewable": True})
    file = folder / "token"
    file.write_text(made["auth"]["client_token"])
    authority = textwrap.indent(bao.authority.read_text(), " " * 6)
    text = (
        f"integrations:\n  vault:\n    enabled: true\n    address: {bao.address}\n    caCertificates: |\n{authority}\n"
        f"    auth: {{token: {{file: {file}}}}}\n"
    )
    second = folder / "second"
    second.mkdir()
    async with inprocess.platform(second, text) as client:
        await ready(client, CLUSTER_SECRET_STORES, "vault-backend")
        await asyncio.sleep(25)
        assert bao.status("GET", "auth/token/lookup-self", token=made["auth"]["client_token"]) == 200, "not renewed"
        await ready(client, CLUSTER_SECRET_STORES, "vault-backend")
        secret = await client.get(SECRETS, "vault-login", HOME)
        assert objects.mapping(secret.get("data")), secret
        yield "a token from a file is kept alive by renewing it"
        bao.call("POST", "auth/token/revoke", {"token": made["auth"]["client_token"]})
        await _says(client, CLUSTER_SECRET_STORES, "vault-backend", "", "refuses")
        renewed = bao.call("POST", "auth/token/create", {"policies": ["steelyard"], "ttl": "1h"})
        file.write_text(renewed["auth"]["client_token"])
        await ready(client, CLUSTER_SECRET_STORES, "vault-backend")
        yield "another token in the file is taken without a restart"
    for path in (second / "data").rglob("*"):
        if path.is_file():
            assert made["auth"]["client_token"].encode() not in path.read_bytes(), path
    yield "no file of the platform's has the token in clear"


class Pushing:
    credentials_namespace = HOME
    secret_store = "vault-backend"


def secret(name: str, namespace: str = HOME, **values: str) -> Object:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data}


def new(resource: Resource, name: str, namespace: str, spec: Object) -> Object:
    metadata: Object = {"name": name, "namespace": namespace}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


async def set_values(client: Client, name: str, **values: str) -> None:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    await client.patch(SECRETS, name, {"data": data}, HOME)


async def _values(client: Client, name: str) -> dict[str, str]:
    secret = await client.get(SECRETS, name, HOME)
    return {key: base64.b64decode(value).decode() for key, value in objects.mapping(secret.get("data")).items()}


async def touch(client: Client, resource: Resource, name: str, namespace: str = "") -> None:
    """Has it looked at now."""
    value = str(asyncio.get_running_loop().time())
    await client.patch(resource, name, {"metadata": {"annotations": {"looked-at": value}}}, namespace)


async def _writes(client: Client) -> dict[str, str]:
    found = [*(await client.list(PUSH_SECRETS)).items, *(await client.list(VAULT_ENTRIES)).items]
    return {objects.qualified_name(each): objects.resource_version(each) for each in found}


async def push_of(client: Client, path: str) -> str:
    for each in (await client.list(PUSH_SECRETS)).items:
        if each["spec"]["data"][0]["match"]["remoteRef"]["remoteKey"] == path:
            return objects.name(each)
    raise AssertionError(f"nothing is pushed to {path}")


def _roles(postgres: PostgresServer, name: str) -> int:
    with postgres.connect() as connection:
        found = connection.execute("SELECT count(*) FROM pg_roles WHERE rolname = %s", (name,)).fetchone()
    assert found is not None
    return int(found[0])


async def _exists(client: Client, resource: Resource, name: str, namespace: str) -> bool:
    try:
        await client.get(resource, name, namespace)
    except errors.NotFound:
        return False
    return True


async def gone(client: Client, resource: Resource, name: str, namespace: str = "") -> None:
    await until(lambda: _exists(client, resource, name, namespace), lambda it: not it)


async def ready(
    client: Client, resource: Resource, name: str, namespace: str = "", seconds: float = _STEP_SECONDS
) -> Object:
    return await until(
        lambda: client.get(resource, name, namespace),
        lambda it: conditions.is_true(it, "Ready") and not conditions.is_false(it, "Synced"),
        seconds,
    )


async def _says(client: Client, resource: Resource, name: str, namespace: str, text: str) -> str:
    found = await until(
        lambda: client.get(resource, name, namespace),
        lambda it: any(text in conditions.message_of(it, each) for each in ("Ready", "Synced")),
    )
    return "; ".join(str(each.get("message")) for each in conditions.of(found))


async def now(value: T) -> T:
    return value


async def until(get: Callable[[], Any], good: Callable[[Any], bool], seconds: float = _STEP_SECONDS) -> Any:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        try:
            found = await get()
        except (errors.NotFound, errors.ServiceUnavailable, urllib.error.URLError) as error:
            found = error
        if not isinstance(found, Exception) and good(found):
            return found
        if loop.time() > deadline:
            raise AssertionError(f"never so after {seconds:.0f} s: {found}")
        await asyncio.sleep(0.1)
