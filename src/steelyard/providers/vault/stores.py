"""Connections of stores: what a ClusterSecretStore or SecretStore says, turned into a Vault that is logged in to.

Who may use which: a ClusterSecretStore has the platform's own login, or somebody's who administers it, and is for the
namespaces that its `conditions` name. A SecretStore is a tenant's, with a login of the tenant's out of its own
namespace; it leads to the platform's Vault and nowhere else, so that nobody has the platform knock at other doors.
"""

from __future__ import annotations

import base64
import concurrent.futures
import hashlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import orjson

from steelyard.api.externalsecrets.kinds import CLUSTER_SECRET_STORES, SECRET_STORES
from steelyard.frozen import frozen
from steelyard.kube import errors, objects, selectors
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, Resource
from steelyard.vault import client as clients
from steelyard.vault import logins
from steelyard.vault.client import Vault
from steelyard.vault.keyvalue import KeyValue
from steelyard.vault.logins import Login

CLUSTER: Final = CLUSTER_SECRET_STORES.kind
OWN: Final = SECRET_STORES.kind
_SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
_TOKEN_SECONDS: Final = 600
_MOST: Final = 500
"""Connections that are kept."""


class Unusable(Exception):
    """The store cannot be used so; the message says why and what to do."""


@frozen
class Connection:
    vault: Vault
    keys: KeyValue


@frozen
class _Known:
    fingerprint: str
    connection: Connection


class Stores:
    def __init__(self, client: Client, *, address: str, folder: Path, timeout: float) -> None:
        """`address` is the platform's Vault, `folder` for files with who signed its certificate."""
        self._client = client
        self._address = address.rstrip("/")
        self._folder = folder
        self._timeout = timeout
        self._threads = concurrent.futures.ThreadPoolExecutor(clients.THREADS, thread_name_prefix="vault")
        self._known: dict[tuple[str, str, str], _Known] = {}

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def for_use(self, kind: str, name: str, namespace: str) -> Connection:
        """The store's connection, for an object in that namespace. Raises Unusable."""
        store = await self._find(kind, name, namespace)
        if kind == CLUSTER and not await self._is_open_to(store, namespace):
            raise Unusable(
                f"ClusterSecretStore {name} is not for namespace {namespace}: its conditions name others. Make a "
                "SecretStore with a login of your own"
            )
        return await self.connect(store)

    async def for_platform(self, name: str) -> Connection:
        """That of a ClusterSecretStore, for an object which only the platform writes."""
        return await self.connect(await self._find(CLUSTER, name, ""))

    async def connect(self, store: Object) -> Connection:
        """Raises Unusable for one that says something that cannot be done."""
        kind, namespace = str(store.get("kind")), objects.namespace(store)
        key = (kind, namespace, objects.name(store))
        vault = objects.mapping(objects.at(store, "spec", "provider", "vault"))
        self._check(kind, vault)
        login, versions = await self._login(kind, namespace, objects.mapping(vault.get("auth")))
        said = orjson.dumps([vault, versions, objects.uid(store)], option=orjson.OPT_SORT_KEYS)
        fingerprint = hashlib.sha256(said).hexdigest()
        known = self._known.get(key)
        if known is not None and known.fingerprint == fingerprint:
            return known.connection
        made = Vault(
            str(vault["server"]),
            login,
            verify=self._authorities(vault),
            namespace=str(vault["namespace"]) if vault.get("namespace") else None,
            timeout=self._timeout,
            threads=self._threads,
        )
        connection = Connection(made, KeyValue(made, str(vault["path"])))
        self._known.pop(key, None)
        while len(self._known) >= _MOST:
            self._known.pop(next(iter(self._known)))
        self._known[key] = _Known(fingerprint, connection)
        return connection

    async def _find(self, kind: str, name: str, namespace: str) -> Object:
        resource = CLUSTER_SECRET_STORES if kind == CLUSTER else SECRET_STORES
        try:
            store = await self._client.get(resource, name, "" if kind == CLUSTER else namespace)
        except errors.NotFound:
            raise Unusable(f"there is no {kind} {name}: make it, or name another") from None
        return {"kind": kind, **store}

    def _check(self, kind: str, vault: Object) -> None:
        if not vault.get("server"):
            raise Unusable("spec.provider must be vault, with a server: this platform knows no other provider")
        server = str(vault["server"]).rstrip("/")
        if kind == OWN and server != self._address:
            raise Unusable(f"spec.provider.vault.server must be {self._address}, the platform's Vault, and is {server}")
        if str(vault.get("version") or "v2") != "v2":
            raise Unusable("spec.provider.vault.version must be v2: version 1 of the key-value engine is not supported")
        if not vault.get("path"):
            raise Unusable("spec.provider.vault.path must name the key-value engine, such as secret")
        for field in ("caProvider", "tls"):
            if vault.get(field):
                raise Unusable(f"spec.provider.vault.{field} is not supported here: use caBundle")

    def _authorities(self, vault: Object) -> bool | str:
        bundle = str(vault.get("caBundle") or "")
        if not bundle:
            return True
        try:
            text = base64.b64decode(bundle, validate=True)
        except ValueError:
            raise Unusable("spec.provider.vault.caBundle is not base64") from None
        path = self._folder / f"authorities-{hashlib.sha256(text).hexdigest()[:16]}.pem"
        if not path.exists():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_bytes(text)
            unfinished.rename(path)
        return str(path)

    async def _is_open_to(self, store: Object, namespace: str) -> bool:
        """As External Secrets decides it: without conditions to everybody, else to whom one of them names."""
        asked = [objects.mapping(each) for each in objects.sequence(objects.at(store, "spec", "conditions"))]
        if not asked:
            return True
        labels: dict[str, str] | None = None
        for condition in asked:
            if namespace in objects.sequence(condition.get("namespaces")):
                return True
            if condition.get("namespaceRegexes"):
                raise Unusable(
                    "spec.conditions.namespaceRegexes is not supported here: name namespaces, or select them"
                )
            selector = condition.get("namespaceSelector")
            if selector is not None:
                if labels is None:
                    labels = dict(objects.labels(await self._client.get(NAMESPACES, namespace)))
                if selectors.from_object(objects.mapping(selector)).matches(labels):
                    return True
        return False

    async def _login(self, kind: str, namespace: str, auth: Object) -> tuple[Login, list[str]]:
        """How to log in, and which versions of which Secrets that is of."""
        if token := objects.mapping(auth.get("tokenSecretRef")):
            value, version = await self._secret(kind, namespace, token, "token")
            return logins.Token(value.strip()), [version]
        if role := objects.mapping(auth.get("appRole")):
            role_id, versions = str(role.get("roleId") or ""), list[str]()
            if reference := objects.mapping(role.get("roleRef")):
                role_id, version = await self._secret(kind, namespace, reference, "role-id")
                versions.append(version)
            reference = objects.mapping(role.get("secretRef"))
            _, version = await self._secret(kind, namespace, reference, "secret-id")
            mount = str(role.get("path") or "approle")
            return logins.app_role(mount, role_id.strip(), self._later(kind, namespace, reference, "secret-id")), [
                *versions,
                version,
            ]
        if account := objects.mapping(auth.get("kubernetes")):
            mount, role_name = str(account.get("mountPath") or "kubernetes"), str(account.get("role") or "")
            if reference := objects.mapping(account.get("secretRef")):
                return logins.kubernetes(mount, role_name, self._later(kind, namespace, reference, "token")), []
            named = objects.mapping(account.get("serviceAccountRef"))
            if named:
                return logins.kubernetes(mount, role_name, self._account_token(kind, namespace, named)), []
        raise Unusable(
            "spec.provider.vault.auth must be tokenSecretRef, appRole, or kubernetes with a serviceAccountRef or a "
            "secretRef: other ways to log in are not supported here"
        )

    def _later(self, kind: str, namespace: str, reference: Object, key: str) -> Callable[[], Awaitable[str]]:
        async def read() -> str:
            return (await self._secret(kind, namespace, reference, key))[0].strip()

        return read

    def _account_token(self, kind: str, namespace: str, named: Object) -> Callable[[], Awaitable[str]]:
        async def ask() -> str:
            place = self._place(kind, namespace, named)
            audiences = [str(each) for each in objects.sequence(named.get("audiences"))]
            spec: Object = {"expirationSeconds": _TOKEN_SECONDS}
            if audiences:
                spec["audiences"] = audiences
            body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            path = _SERVICE_ACCOUNTS.path(place, str(named.get("name") or ""), "token")
            try:
                answer: Any = await self._client.request("POST", path, body=body)
            except errors.NotFound:
                raise Unusable(
                    f"there is no ServiceAccount {place}/{named.get('name')} to log in to Vault with"
                ) from None
            return str(objects.at(answer, "status", "token") or "")

        return ask

    async def _secret(self, kind: str, namespace: str, reference: Object, key: str) -> tuple[str, str]:
        place, name = self._place(kind, namespace, reference), str(reference.get("name") or "")
        key = str(reference.get("key") or key)
        try:
            secret = await self._client.get(SECRETS, name, place)
        except errors.NotFound:
            raise Unusable(f"there is no Secret {place}/{name}, which has the login to Vault") from None
        value = objects.at(secret, "data", key)
        try:
            text = base64.b64decode(str(value or ""), validate=True).decode()
        except ValueError:
            text = ""
        if not text.strip():
            raise Unusable(f"Secret {place}/{name} has no {key}, which is the login to Vault")
        return text, f"{objects.uid(secret)}/{objects.resource_version(secret)}"

    def _place(self, kind: str, namespace: str, reference: Object) -> str:
        """A tenant's store has its login in the tenant's namespace."""
        named = str(reference.get("namespace") or "")
        if kind == CLUSTER:
            if not named:
                raise Unusable("a ClusterSecretStore must name the namespace of what it logs in with")
            return named
        if named not in ("", namespace):
            raise Unusable(f"a SecretStore logs in with what is in its own namespace, and not in {named}")
        return namespace
