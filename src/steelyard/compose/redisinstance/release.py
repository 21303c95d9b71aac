"""The Helm release of a cache: what it is called, and the values of Bitnami's chart for it.

    dev/dev-redis   ->   release redis-dev-redis in dev, reached at redis-dev-redis-master.dev.svc

Everything is in the claim's namespace, except for the Release itself and for what the provider reads of the password.
"""

from __future__ import annotations

import hashlib
from typing import Final

from steelyard.api import externalnames
from steelyard.api.crossplane import EXTERNAL_NAME, RELEASES
from steelyard.api.externalnames import RELEASE_MAX, RELEASE_PREFIX
from steelyard.api.redis import UsedParameters
from steelyard.compose import managed
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.compose.refusing import Refused
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings.data import Redis

RELEASE: Final = "release"
PORT: Final = 6379
_PASSWORD_KEY: Final = "redis-password"  # noqa: S105 (the key that holds it)
_RELEASE_STAGE: Final = FIRST_STAGE + 1


def name_of(claim: Object) -> str:
    """Raises `Refused` where the claim may not have the name that it gives, or once had another."""
    asked = objects.annotations(claim).get(EXTERNAL_NAME, "")
    if problem := externalnames.release_problem(asked) if asked else "":
        raise Refused("ExternalNameForbidden", f"the annotation {EXTERNAL_NAME}: {asked[:100]}: {problem}")
    name = asked or _derived(claim)
    recorded = str(objects.at(claim, "status", "release") or name)
    if recorded != name:
        raise Refused(
            "ExternalNameChanged",
            f"the claim's release is {recorded}, and the annotation {EXTERNAL_NAME} says {asked or 'nothing'}; a "
            f"release does not change its name. Put the annotation back as it was, or make another claim",
        )
    return name


def object_of(namespace: str, name: str) -> str:
    """One release is one object, and the API lets nobody have it twice."""
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:8]
    return f"{namespace}-{name}-{digest}"


def host_of(namespace: str, name: str) -> str:
    return f"{name}-master.{namespace}.svc"


def part(namespace: str, name: str, used: UsedParameters, settings: Redis, volume: str, credentials: str) -> Desired:
    """`volume` is the size of each server's, `credentials` the Secret for the password."""
    spec: Object = {
        "forProvider": {
            "chart": {
                "name": settings.chart,
                "repository": settings.repository,
                "version": settings.chart_version,
            },
            "namespace": namespace,
            "skipCreateNamespace": True,
            "wait": True,
            "values": _values(name, used, settings, volume),
        },
        "providerConfigRef": {"name": settings.provider_config},
        "connectionDetails": [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "name": name,
                "namespace": namespace,
                "fieldPath": f"data.{_PASSWORD_KEY}",
                "toConnectionSecretKey": "password",
            }
        ],
        "writeConnectionSecretToRef": {"namespace": settings.credentials_namespace, "name": credentials},
    }
    annotations = {EXTERNAL_NAME: name}
    return managed.part(RELEASES, object_of(namespace, name), spec, stage=_RELEASE_STAGE, annotations=annotations)


def volume_of(observed: Object | None, used: UsedParameters, settings: Redis) -> str:
    """As it is where there is one: a volume keeps the size that it was made with."""
    path = ("spec", "forProvider", "values", "master", "persistence", "size")
    return str(objects.at(observed, *path) or f"{max(settings.storage_gb, 2 * used.memory_gb)}Gi")


def _values(name: str, used: UsedParameters, settings: Redis, volume: str) -> Object:
    server: Object = {
        "persistence": {"enabled": True, "size": volume},
        "resources": {"requests": {"memory": f"{used.memory_gb}Gi"}, "limits": {"memory": f"{used.memory_gb}Gi"}},
    }
    return {
        "fullnameOverride": name,
        "architecture": "replication" if used.replicas > 1 else "standalone",
        "auth": {"enabled": True},
        "commonConfiguration": "\n".join(
            (
                "appendonly yes",
                'save ""',
                f"maxmemory {used.memory_gb * 1024 * settings.memory_percent // 100}mb",
                f"maxmemory-policy {settings.when_full}",
            )
        ),
        "master": server,
        "replica": {"replicaCount": used.replicas, **objects.copy(server)},
    }


def _derived(claim: Object) -> str:
    name = objects.name(claim)
    whole = f"{RELEASE_PREFIX}{name}"
    if len(whole) <= RELEASE_MAX:
        return whole
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{whole[: RELEASE_MAX - 9].rstrip('-')}-{digest}"
