"""What the platform itself has in Vault, whichever claims there are: its store, engines, policies, shared services.

The embedded platform puts these objects into its own API at every start (`app.py`). They carry a label, so that those
which other settings no longer give are found and taken away.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final, TypeAlias

from steelyard.api.externalsecrets.kinds import CLUSTER_SECRET_STORES, PUSH_SECRETS
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.api.vaultstanding import KINDS, LABEL
from steelyard.compose import managed
from steelyard.compose.integrations import sharedservices, vaultentries, vaultpolicies
from steelyard.compose.integrations.vaultentries import OWN
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, Resource
from steelyard.settings import Platform
from steelyard.settings.integrations import Vault, VaultSecret

LOGIN: Final = "vault-login"
LOGIN_KEY: Final = "value"
"""Where the platform's login is kept that is in a file."""
SHARED_SECRET: Final = "vault-shared-services"  # noqa: S105 (a name)

Standing: TypeAlias = tuple[Resource, Object]

_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
_BINDINGS: Final = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
_ADDRESSES: Final = {
    "kafka": "brokers",
    "redis": "url",
    "postgres": "host",
    "temporal": "address",
}
"""Shared services that have a place in Vault, with the key under which it is said where they are."""


def standing(platform: Platform) -> list[Standing]:
    """In the order in which they are made; nothing without Vault."""
    settings = platform.integrations.vault
    if not settings.enabled:
        return []
    return [_labelled(resource, obj) for resource, obj in _all(platform, settings)]


def _all(platform: Platform, settings: Vault) -> Iterator[Standing]:
    for namespace in _namespaces(platform):
        yield NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    yield from _account(settings)
    yield CLUSTER_SECRET_STORES, store(platform)
    if settings.configure:
        yield from _engines(platform, settings)
    yield from _shared_services(platform, settings)
    for name in settings.ci_cd:
        yield PUSH_SECRETS, _whole(settings, f"{vaultpolicies.CI_CD}-{name}", f"{vaultpolicies.CI_CD}/{name}")


def store(platform: Platform) -> Object:
    """It has the platform's login, so it is for the namespaces with the platform's credentials and for no others: who
    could use it from elsewhere would read everything."""
    settings = platform.integrations.vault
    vault: Object = {"server": settings.address, "path": settings.mount, "version": "v2", "auth": _auth(settings)}
    if settings.namespace:
        vault["namespace"] = settings.namespace
    if settings.ca_certificates:
        vault["caBundle"] = base64.b64encode(settings.ca_certificates.encode()).decode()
    return {
        "apiVersion": CLUSTER_SECRET_STORES.api_version,
        "kind": CLUSTER_SECRET_STORES.kind,
        "metadata": {"name": settings.secret_store},
        "spec": {"provider": {"vault": vault}, "conditions": [{"namespaces": _namespaces(platform)}]},
    }


def _namespaces(platform: Platform) -> list[str]:
    """Where credentials are that go to Vault."""
    found = (platform.integrations.vault, platform.postgresql, platform.redis)
    return sorted({each.credentials_namespace for each in found})


def _auth(settings: Vault) -> Object:
    asked, namespace = settings.auth, settings.credentials_namespace
    if asked.token is not None:
        return {"tokenSecretRef": _reference(asked.token, namespace)}
    if asked.app_role is not None:
        role = asked.app_role
        return {
            "appRole": {
                "path": role.mount,
                "roleId": role.role_id,
                "secretRef": _reference(role.secret_id, namespace),
            }
        }
    name, role_name, mount = _kubernetes(settings)
    return {
        "kubernetes": {
            "mountPath": mount,
            "role": role_name,
            "serviceAccountRef": {"name": name, "namespace": namespace},
        }
    }


def _reference(source: VaultSecret, namespace: str) -> Object:
    if source.secret is None:
        return {"name": LOGIN, "namespace": namespace, "key": LOGIN_KEY}
    return {"name": source.secret, "namespace": namespace, "key": source.key}


def _kubernetes(settings: Vault) -> tuple[str, str, str]:
    """The service account, the role and the engine."""
    asked = settings.auth.kubernetes
    if asked is None:
        return "external-secrets-sa", "steelyard", settings.auth_mount
    return asked.service_account, asked.role, asked.mount or settings.auth_mount


def _account(settings: Vault) -> Iterator[Standing]:
    if settings.auth.token is not None or settings.auth.app_role is not None:
        return
    name, _, _ = _kubernetes(settings)
    account: Object = {"name": name, "namespace": settings.credentials_namespace}
    yield _ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}
    # Vault asks whether a login is genuine with the very token that logs in.
    yield (
        _BINDINGS,
        {
            "apiVersion": _BINDINGS.api_version,
            "kind": _BINDINGS.kind,
            "metadata": {"name": f"{OWN}-vault-{name}"},
            "roleRef": {"apiGroup": _BINDINGS.group, "kind": "ClusterRole", "name": "system:auth-delegator"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
    )


def _engines(platform: Platform, settings: Vault) -> Iterator[Standing]:
    """None of them goes with the platform: what others keep in them stays."""
    made = "Made by Steelyard."
    engines: dict[str, Object] = {
        settings.mount: {"type": "kv", "description": made, "options": {"version": "2"}},
    }
    if settings.database.enabled:
        engines[settings.database.mount] = {"type": "database", "description": made}
    if settings.pki.enabled:
        longest: Object = {"max_lease_ttl": "87600h"}
        engines[settings.pki.mount] = {"type": "pki", "description": made, "config": longest}
    for mount, data in engines.items():
        name = f"engine-{mount.replace('/', '.').replace('_', '-').lower()}"
        yield VAULT_ENTRIES, vaultentries.entry(settings, name, f"sys/mounts/{mount}", data, stays=True).object
    delivery = vaultentries.policy(settings, f"{OWN}-{vaultpolicies.CI_CD}", vaultpolicies.of_delivery(settings))
    yield VAULT_ENTRIES, delivery.object
    if settings.pki.enabled:
        yield from _certificates(platform, settings)


def _certificates(platform: Platform, settings: Vault) -> Iterator[Standing]:
    mount = settings.pki.mount
    authority: Object = {"common_name": settings.pki.common_name, "ttl": "87600h", "key_type": "ec", "key_bits": 256}
    yield (
        VAULT_ENTRIES,
        vaultentries.entry(
            settings,
            "pki-authority",
            f"{mount}/root/generate/internal",
            authority,
            read_path=f"{mount}/cert/ca",
            only_if_absent=True,
            stays=True,
        ).object,
    )
    for environment in platform.environments:
        data: Object = {
            "allowed_domains": [platform.ingress_domain(environment)],
            "allow_subdomains": True,
            "allow_bare_domains": True,
            "allow_wildcard_certificates": True,
            "key_type": "any",
            "max_ttl": settings.pki.max_ttl,
        }
        role = vaultpolicies.certificate_role(environment)
        yield VAULT_ENTRIES, vaultentries.entry(settings, f"pki-{role}", f"{mount}/roles/{role}", data).object


def _shared_services(platform: Platform, settings: Vault) -> Iterator[Standing]:
    shared = platform.integrations.shared_services
    if not shared.enabled:
        return
    where: dict[str, dict[str, str]] = {}
    for each in shared.services:
        key = _ADDRESSES.get(each.name)
        if key is None or each.name in where:
            continue
        host = f"{each.name}.{sharedservices.zone(shared)}"
        if key == "host":
            where[each.name] = {"host": host, "port": str(each.port)}
        else:
            where[each.name] = {key: f"{'redis://' if key == 'url' else ''}{host}:{each.port}"}
    if not where:
        return
    values = {f"{name}.{key}": value for name, each in where.items() for key, value in each.items()}
    yield (
        SECRETS,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SHARED_SECRET, "namespace": settings.credentials_namespace},
            "type": "Opaque",
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in sorted(values.items())},
        },
    )
    for name, each in where.items():
        template = {key: f'{{{{ index . "{name}.{key}" }}}}' for key in each}
        path = f"{settings.mount}/{vaultpolicies.SHARED}/{name}"
        yield PUSH_SECRETS, managed.push(settings, SHARED_SECRET, path, template).object


def _whole(settings: Vault, secret: str, path: str) -> Object:
    """Puts everything that is in a Secret at the path."""
    push = managed.push(settings, secret, f"{settings.mount}/{path}", {}).object
    spec: Object = {**push["spec"], "data": [{"match": {"remoteRef": {"remoteKey": path}}}]}
    del spec["template"]
    return {**push, "spec": spec}


def _labelled(resource: Resource, obj: Object) -> Standing:
    if resource not in KINDS:
        return resource, obj
    metadata = {**objects.metadata(obj), "labels": dict((LABEL,))}
    return resource, {**obj, "metadata": metadata}
