"""Composes a RedisInstance: the claim and what was observed in, the objects and status of a cache out.

A cache is processes of the platform's machine (revision v2) or a Helm release on a cluster (v1). The platform file says
which of them new claims get; one that is made stays what it is. A claim of v1 whose release was never made, as there
was nothing to make it, is made as processes where the platform file says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from steelyard.api.crossplane import EXTERNAL_NAME, RELEASES
from steelyard.api.redis import ROTATE, RedisInstanceSpec, UsedParameters
from steelyard.api.redisserver import RESOURCE as SERVERS
from steelyard.compose import connection, delivery, managed, names
from steelyard.compose import refusing as refusals
from steelyard.compose.composed import Composed, Observed, Requirement
from steelyard.compose.connection import CONNECTION
from steelyard.compose.delivery import InVault
from steelyard.compose.managed import VAULT, Progress
from steelyard.compose.redisinstance import naming, release, server
from steelyard.compose.redisinstance.making import Making
from steelyard.compose.redisinstance.release import RELEASE
from steelyard.compose.redisinstance.server import SERVER
from steelyard.compose.refusing import Refused, refusing
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform

AS_RELEASE: Final = "v1"
AS_PROCESSES: Final = "v2"
REVISIONS: Final = frozenset({AS_RELEASE, AS_PROCESSES})

CREDENTIALS: Final = "credentials"
NAMESAKE: Final = "namesake"
FORMER: Final = "former"
OF_CREDENTIALS: Final = "redis"
"""What the names of Secrets with passwords begin with."""


@refusing
def compose(claim: Object, observed: Observed, platform: Platform) -> Composed:
    spec = refusals.spec(claim, RedisInstanceSpec)
    revision = _revision(claim, platform)
    is_asked_for = refusals.REVISION in objects.annotations(claim)
    may_move = revision == AS_RELEASE and platform.redis.mode == "process" and not is_asked_for
    if may_move and not _is_there(claim, observed):
        revision = AS_PROCESSES
    environment = platform.environment_name(spec.parameters.environment)
    if not environment:
        raise Refused(
            "EnvironmentNotAvailable",
            f"the platform file has no environment {spec.parameters.environment}; the cache stays as it is. Bring the "
            f"environment back; there are {', '.join(platform.environments)}",
        )
    name = naming.of(claim)
    _refuse_anothers(claim, name, observed, revision)
    used = _used(spec, platform, environment)
    credentials = managed.credentials_name(OF_CREDENTIALS, claim)
    maker = RELEASE if revision == AS_RELEASE else SERVER
    made = _making(claim, spec, name, used, platform, observed, revision, credentials)
    desired = {maker: made.part}
    path = managed.vault_path(claim, platform.redis.vault_mount, "caches", environment)
    if platform.integrations.vault.enabled:
        desired[VAULT] = managed.push(platform.redis, credentials, path, made.in_vault)
    here = managed.progress(desired, observed)
    details = made.details(managed.own(observed.one(CREDENTIALS), observed.resources.get(maker)) or {})
    asked = spec.write_connection_secret_to_ref
    if asked is not None and details is not None:
        desired[CONNECTION] = connection.secret(claim, asked, managed.encoded(details))
    delivered = delivery.compose(
        claim,
        spec.parameters.deliver_to,
        observed,
        platform,
        credentials_namespace=platform.redis.credentials_namespace,
        data=delivery.environment(details, {"REDIS_URL": "url"}),
        in_vault=InVault(path, {**{key: key for key in made.in_vault}, "REDIS_URL": "url"}),
    )
    waiting_for = here.waiting_for or _waiting_for_secrets(claim, spec, observed, details) or made.behind
    servers = f"a primary and {used.replicas} replicas" if used.replicas > 1 else "one server"
    told = f"{servers} with {used.memory_gb} GiB of memory{made.told}"
    called = naming.of_object(objects.namespace(claim), name)
    resource = RELEASES if revision == AS_RELEASE else SERVERS
    requirements = {
        CREDENTIALS: Requirement(SECRETS, platform.redis.credentials_namespace, credentials),
        NAMESAKE: Requirement(resource, "", called),
    }
    if may_move:
        requirements[FORMER] = Requirement(RELEASES, "", called)
    return Composed(
        desired={**managed.with_readiness(desired, observed), **delivered.desired},
        requirements={**requirements, **delivered.requirements},
        conditions=delivered.conditions(
            [
                *managed.conditions(claim, "cache", Progress(waiting_for, here.lost), told),
                *managed.not_in_force(made.not_in_force),
            ]
        ),
        status={
            "parameters": used.to_json(),
            "compositionRevision": revision,
            **made.status,
            **({"vaultPath": path} if platform.integrations.vault.enabled else {}),
            **_secret(claim, spec, details),
            **delivered.status,
        },
        retained=frozenset({CONNECTION} if asked is not None and details is None else ()) | delivered.retained,
        waits_untold=delivered.waits_untold,
    )


def _revision(claim: Object, platform: Platform) -> str:
    newest = AS_PROCESSES if platform.redis.mode == "process" else AS_RELEASE
    return refusals.revision(claim, REVISIONS, newest)


def _is_there(claim: Object, observed: Observed) -> bool:
    """Whether the claim has a release."""
    found = observed.one(FORMER)
    return found is not None and objects.matches(names.claim_labels(claim), found)


def _making(
    claim: Object,
    spec: RedisInstanceSpec,
    name: str,
    used: UsedParameters,
    platform: Platform,
    observed: Observed,
    revision: str,
    credentials: str,
) -> Making:
    settings = platform.redis
    if revision == AS_PROCESSES:
        return server.making(claim, name, used, settings, observed.resources.get(SERVER), credentials)
    volume = release.volume_of(observed.resources.get(RELEASE), used, settings)
    return release.making(
        objects.namespace(claim), name, used, settings, volume, credentials, _without_rotation(claim, spec)
    )


def _without_rotation(claim: Object, spec: RedisInstanceSpec) -> tuple[str, ...]:
    asked = [f"the annotation {ROTATE}"] if ROTATE in objects.annotations(claim) else []
    asked += ["spec.parameters.rotateEvery"] if spec.parameters.rotate_every else []
    told = "has no effect: the password of a Helm release is not rotated"
    return tuple(f"{each} {told}" for each in asked)


def _used(spec: RedisInstanceSpec, platform: Platform, environment: str) -> UsedParameters:
    asked, default = spec.parameters, platform.redis
    return UsedParameters(
        environment=environment,
        replicas=asked.replicas or default.replicas,
        memoryGB=asked.memory_gb or default.memory_gb,
        rotate_every=asked.rotate_every,
    )


def _refuse_anothers(claim: Object, name: str, observed: Observed, revision: str) -> None:
    """No cache of somebody else is taken over."""
    found = observed.one(NAMESAKE)
    if found is not None and not objects.matches(names.claim_labels(claim), found):
        what, kind = ("release", RELEASES.kind) if revision == AS_RELEASE else ("cache", SERVERS.kind)
        raise Refused(
            "ExternalNameTaken",
            f"the {what} {name} is not this claim's: {kind} {objects.name(found)} was made for another one, or by "
            f"hand. Make a claim with another {EXTERNAL_NAME}, or without one",
        )


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
