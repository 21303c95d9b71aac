"""The Helm release of a cache: what it is called, and the values of Bitnami's chart for it.

    dev/dev-redis   ->   release redis-dev-redis in dev, reached at redis-dev-redis-master.dev.svc

Everything is in the claim's namespace, except for the Release itself and for what the provider reads of the password.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from steelyard.api.crossplane import EXTERNAL_NAME, RELEASES
from steelyard.api.redis import UsedParameters
from steelyard.compose import managed
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.compose.redisinstance import naming
from steelyard.compose.redisinstance.making import Making
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings.data import Redis

RELEASE: Final = "release"
PORT: Final = 6379
_PASSWORD_KEY: Final = "redis-password"  # noqa: S105 (the key that holds it)
_RELEASE_STAGE: Final = FIRST_STAGE + 1


def making(
    namespace: str,
    name: str,
    used: UsedParameters,
    settings: Redis,
    volume: str,
    credentials: str,
    not_in_force: tuple[str, ...] = (),
) -> Making:
    host = host_of(namespace, name)
    return Making(
        part=part(namespace, name, used, settings, volume, credentials),
        # Templates of External Secrets, filled in where the credentials are: no password is in an object.
        in_vault={
            "host": host,
            "port": str(PORT),
            "password": "{{ .password }}",
            "url": f"redis://:{{{{ .password | urlquery }}}}@{host}:{PORT}",
        },
        status={"release": name, "host": host, "port": PORT},
        details=lambda found: _details(host, found),
        not_in_force=not_in_force,
    )


def _details(host: str, found: Mapping[str, str]) -> dict[str, str] | None:
    password = found.get("password")
    if not password:
        return None
    url = f"redis://:{quote(password, safe='')}@{host}:{PORT}"
    return {"host": host, "endpoint": host, "port": str(PORT), "password": password, "url": url, "uri": url}


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
    return managed.part(
        RELEASES, naming.of_object(namespace, name), spec, stage=_RELEASE_STAGE, annotations=annotations
    )


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
