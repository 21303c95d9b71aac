"""The first revision of what a PostgreSQLInstance is composed to: one login for ever, and nothing that watches it.

spec.parameters: {environment: dev}   ->   two Roles, Database, two Grants; connection Secret; PushSecret to Vault

What it gives never changes: claims are pinned to it until somebody moves them to the next (`revision2.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from steelyard.api.crossplane import DATABASES
from steelyard.api.postgresql import PostgreSQLInstanceSpec, UsedParameters
from steelyard.compose import connection, managed
from steelyard.compose.composed import Composed, Observed, Requirement
from steelyard.compose.connection import CONNECTION
from steelyard.compose.managed import VAULT, Progress
from steelyard.compose.postgresqlinstance import naming, parts, sharing
from steelyard.compose.postgresqlinstance.naming import Names
from steelyard.compose.postgresqlinstance.sharing import NAMESAKES
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform

REVISION: Final = "v1"

CREDENTIALS: Final = "credentials"
_ANNOTATIONS_OF_DOCUMENTS: Final = {
    "ttl": "the claim does not go away by itself; delete it when it is no longer needed",
    "source": "nothing is copied into the database",
}


def compose(
    claim: Object, spec: PostgreSQLInstanceSpec, environment: str, observed: Observed, platform: Platform
) -> Composed:
    named = naming.of(claim, platform, environment)
    sharing.refuse_anothers(claim, named, observed)
    used = _used(spec, platform, environment)
    path = sharing.vault_path(claim, spec, platform, environment)
    credentials = managed.credentials_name(sharing.OF_CREDENTIALS, claim)
    desired = parts.of(named, used, platform.postgresql, credentials)
    if platform.integrations.vault.enabled:
        template = sharing.in_vault(platform.postgresql, named.database)
        desired[VAULT] = managed.push(platform.postgresql, credentials, path, template)
    here = managed.progress(desired, observed)
    details = _details(observed, named, platform)
    asked = spec.write_connection_secret_to_ref
    if asked is not None and details is not None:
        desired[CONNECTION] = connection.secret(claim, asked, managed.encoded(details))
    waiting_for = here.waiting_for or _waiting_for_secrets(claim, spec, observed, details)
    told = f"database {named.database}, {used.connections} connections at once"
    return Composed(
        desired=managed.with_readiness(desired, observed),
        requirements=_requirements(named, credentials, platform),
        conditions=[
            *managed.conditions(claim, "database", Progress(waiting_for, here.lost), told),
            *managed.not_in_force(_not_in_force(claim, spec, used, platform)),
        ],
        status=_status(claim, spec, used, platform, named, path, details) | {"compositionRevision": REVISION},
        retained=frozenset({CONNECTION} if asked is not None and details is None else ()),
    )


def _used(spec: PostgreSQLInstanceSpec, platform: Platform, environment: str) -> UsedParameters:
    asked, default = spec.parameters, platform.postgresql
    size = asked.size or default.size
    return UsedParameters(
        environment=environment,
        size=size,
        storageGB=asked.storage_gb or default.storage_gb,
        enable_backup=default.enable_backup if asked.enable_backup is None else asked.enable_backup,
        connections=default.sizes.of(size).connections,
    )


def _requirements(named: Names, credentials: str, platform: Platform) -> dict[str, Requirement]:
    own, by_hand = NAMESAKES
    found = {
        CREDENTIALS: Requirement(SECRETS, platform.postgresql.credentials_namespace, credentials),
        own: Requirement(DATABASES, "", naming.of_object(named.database)),
    }
    if "_" not in named.database:
        # One that somebody made by hand is called as its database, unless they said otherwise.
        found[by_hand] = Requirement(DATABASES, "", named.database)
    return found


def _details(observed: Observed, named: Names, platform: Platform) -> dict[str, str] | None:
    """What an application needs to connect; None until the provider has made the login."""
    found = managed.own(observed.one(CREDENTIALS), observed.resources.get(parts.LOGIN)) or {}
    return sharing.details(found, named.database, platform.postgresql)


def _waiting_for_secrets(
    claim: Object, spec: PostgreSQLInstanceSpec, observed: Observed, details: Mapping[str, str] | None
) -> str:
    if details is None:
        found = observed.one(CREDENTIALS)
        if found is None:
            return "waiting for the login's credentials"
        return (
            f"waiting for the login's credentials: Secret {objects.qualified_name(found)} is not the login's, or "
            "lacks username, password, endpoint or port; if it is somebody else's, delete it"
        )
    return connection.waiting_for(claim, spec.write_connection_secret_to_ref, observed, "password")


def _not_in_force(
    claim: Object, spec: PostgreSQLInstanceSpec, used: UsedParameters, platform: Platform
) -> Iterator[str]:
    yield f"storageGB: {used.storage_gb} is kept with the database, and nobody is stopped from storing more"
    if used.enable_backup:
        yield "enableBackup: this version makes no backups; set it to false, or make them yourself"
    if spec.parameters.vault_path is not None and not platform.integrations.vault.enabled:
        yield "vaultPath: the platform file does not enable integrations.vault, so nothing is put there"
    for key, told in _ANNOTATIONS_OF_DOCUMENTS.items():
        if key in objects.annotations(claim):
            yield f"the annotation {key}: {told}"


def _status(
    claim: Object,
    spec: PostgreSQLInstanceSpec,
    used: UsedParameters,
    platform: Platform,
    named: Names,
    path: str,
    details: Mapping[str, str] | None,
) -> Object:
    status: Object = {"parameters": used.to_json(), "database": named.database, "role": named.login}
    if platform.integrations.vault.enabled:
        status["vaultPath"] = path
    if details is not None:
        status |= {"host": details["host"], "port": int(details["port"])}
    asked = spec.write_connection_secret_to_ref
    if asked is not None and details is not None:
        status["connectionSecret"] = {"name": asked.name, "namespace": connection.namespace_of(claim, asked)}
    return status
