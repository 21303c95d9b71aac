"""Composes a RedisInstance: the claim and what was observed in, the Helm release and status of a cache out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from steelyard.api.crossplane import EXTERNAL_NAME, RELEASES
from steelyard.api.redis import RedisInstanceSpec, UsedParameters
from steelyard.compose import connection, managed, names
from steelyard.compose import refusing as refusals
from steelyard.compose.composed import Composed, Observed, Requirement
from steelyard.compose.connection import CONNECTION
from steelyard.compose.managed import VAULT, Progress
from steelyard.compose.redisinstance import release
from steelyard.compose.redisinstance.release import PORT, RELEASE
from steelyard.compose.refusing import Refused, refusing
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform

REVISION: Final = "v1"
"""The revision that new claims get. A change of what is composed is a new one, beside the old."""
REVISIONS: Final = frozenset({"v1"})

CREDENTIALS: Final = "credentials"
NAMESAKE: Final = "namesake"
OF_CREDENTIALS: Final = "redis"
"""What the names of Secrets with passwords begin with."""


@refusing
def compose(claim: Object, observed: Observed, platform: Platform) -> Composed:
    spec = refusals.spec(claim, RedisInstanceSpec)
    revision = refusals.revision(claim, REVISIONS, REVISION)
    environment = platform.environment_name(spec.parameters.environment)
    if not environment:
        raise Refused(
            "EnvironmentNotAvailable",
            f"the platform file has no environment {spec.parameters.environment}; the cache stays as it is. Bring the "
            f"environment back; there are {', '.join(platform.environments)}",
        )
    namespace, name = objects.namespace(claim), release.name_of(claim)
    _refuse_anothers(claim, name, observed)
    used = _used(spec, platform, environment)
    credentials = managed.credentials_name(OF_CREDENTIALS, claim)
    host = release.host_of(namespace, name)
    volume = release.volume_of(observed.resources.get(RELEASE), used, platform.redis)
    desired = {RELEASE: release.part(namespace, name, used, platform.redis, volume, credentials)}
    path = managed.vault_path(claim, platform.redis.vault_mount, "caches", environment)
    if platform.integrations.vault.enabled:
        desired[VAULT] = managed.push(platform.redis, credentials, path, _in_vault(host))
    here = managed.progress(desired, observed)
    details = _details(observed, host)
    asked = spec.write_connection_secret_to_ref
    if asked is not None and details is not None:
        desired[CONNECTION] = connection.secret(claim, asked, managed.encoded(details))
    waiting_for = here.waiting_for or _waiting_for_secrets(claim, spec, observed, details)
    servers = f"a primary and {used.replicas} replicas" if used.replicas > 1 else "one server"
    told = f"{servers} with {used.memory_gb} GiB of memory"
    return Composed(
        desired=managed.with_readiness(desired, observed),
        requirements={
            CREDENTIALS: Requirement(SECRETS, platform.redis.credentials_namespace, credentials),
            NAMESAKE: Requirement(RELEASES, "", release.object_of(namespace, name)),
        },
        conditions=managed.conditions(claim, "cache", Progress(waiting_for, here.lost), told),
        status={
            "parameters": used.to_json(),
            "compositionRevision": revision,
            "release": name,
            "host": host,
            "port": PORT,
            **({"vaultPath": path} if platform.integrations.vault.enabled else {}),
            **_secret(claim, spec, details),
        },
        retained=frozenset({CONNECTION} if asked is not None and details is None else ()),
    )


def _used(spec: RedisInstanceSpec, platform: Platform, environment: str) -> UsedParameters:
    asked, default = spec.parameters, platform.redis
    return UsedParameters(
        environment=environment,
        replicas=asked.replicas or default.replicas,
        memoryGB=asked.memory_gb or default.memory_gb,
    )


def _refuse_anothers(claim: Object, name: str, observed: Observed) -> None:
    """No release of somebody else is taken over."""
    found = observed.one(NAMESAKE)
    if found is not None and not objects.matches(names.claim_labels(claim), found):
        raise Refused(
            "ExternalNameTaken",
            f"the release {name} is not this claim's: Release {objects.name(found)} was made for another one, or by "
            f"hand. Make a claim with another {EXTERNAL_NAME}, or without one",
        )


def _in_vault(host: str) -> dict[str, str]:
    """Templates of External Secrets, filled in where the credentials are: no password is in an object."""
    return {
        "host": host,
        "port": str(PORT),
        "password": "{{ .password }}",
        "url": f"redis://:{{{{ .password | urlquery }}}}@{host}:{PORT}",
    }


def _details(observed: Observed, host: str) -> dict[str, str] | None:
    """What an application needs to connect; None until the provider has read the password."""
    found = managed.own(observed.one(CREDENTIALS), observed.resources.get(RELEASE)) or {}
    password = found.get("password")
    if not password:
        return None
    url = f"redis://:{quote(password, safe='')}@{host}:{PORT}"
    return {"host": host, "endpoint": host, "port": str(PORT), "password": password, "url": url, "uri": url}


def _waiting_for_secrets(
    claim: Object, spec: RedisInstanceSpec, observed: Observed, details: Mapping[str, str] | None
) -> str:
    if details is None:
        found = observed.one(CREDENTIALS)
        if found is None:
            return "waiting for the cache's password"
        return (
            f"waiting for the cache's password: Secret {objects.qualified_name(found)} is not the cache's, or lacks "
            "it; if it is somebody else's, delete it"
        )
    return connection.waiting_for(claim, spec.write_connection_secret_to_ref, observed, "password")


def _secret(claim: Object, spec: RedisInstanceSpec, details: Mapping[str, str] | None) -> Object:
    asked = spec.write_connection_secret_to_ref
    if asked is None or details is None:
        return {}
    return {"connectionSecret": {"name": asked.name, "namespace": connection.namespace_of(claim, asked)}}
