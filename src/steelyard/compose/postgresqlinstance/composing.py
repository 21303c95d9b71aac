"""Composes a PostgreSQLInstance: the claim and what was observed in, the objects and status of a database out.

spec.parameters: {environment: dev}   ->   two Roles, Database, two Grants; connection Secret; PushSecret to Vault
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

from steelyard.api import vaultpaths
from steelyard.api.crossplane import DATABASES, EXTERNAL_NAME
from steelyard.api.postgresql import PostgreSQLInstanceSpec, UsedParameters
from steelyard.compose import connection, managed, names
from steelyard.compose import refusing as refusals
from steelyard.compose.composed import Composed, Observed, Requirement
from steelyard.compose.connection import CONNECTION
from steelyard.compose.managed import VAULT, Progress
from steelyard.compose.postgresqlinstance import naming, parts
from steelyard.compose.postgresqlinstance.naming import Names
from steelyard.compose.refusing import Refused, refusing
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform

REVISION: Final = "v1"
"""The revision that new claims get. A change of what is composed is a new one, beside the old."""
REVISIONS: Final = frozenset({"v1"})

CREDENTIALS: Final = "credentials"
NAMESAKES: Final = ("namesake", "namesake-made-by-hand")
OF_CREDENTIALS: Final = "postgresql"
"""What the names of Secrets with logins begin with."""
VAULT_FOLDERS: Final = ("apps", "database")
"""Of Vault's, where credentials of databases are."""
_ANNOTATIONS_OF_DOCUMENTS: Final = {
    "ttl": "the claim does not go away by itself; delete it when it is no longer needed",
    "source": "nothing is copied into the database",
}


@refusing
def compose(claim: Object, observed: Observed, platform: Platform) -> Composed:
    spec = refusals.spec(claim, PostgreSQLInstanceSpec)
    revision = refusals.revision(claim, REVISIONS, REVISION)
    environment = platform.environment_name(spec.parameters.environment)
    if not environment:
        raise Refused(
            "EnvironmentNotAvailable",
            f"the platform file has no environment {spec.parameters.environment}; the database stays as it is. Bring "
            f"the environment back; there are {', '.join(platform.environments)}",
        )
    named = naming.of(claim, platform, environment)
    _refuse_anothers(claim, named, observed)
    used = _used(spec, platform, environment)
    path = _vault_path(claim, spec, platform, environment)
    credentials = managed.credentials_name(OF_CREDENTIALS, claim)
    desired = parts.of(named, used, platform.postgresql, credentials)
    if platform.integrations.vault.enabled:
        desired[VAULT] = managed.push(platform.postgresql, credentials, path, _in_vault(platform, named))
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
        status=_status(claim, spec, used, platform, named, path, details) | {"compositionRevision": revision},
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


def _refuse_anothers(claim: Object, named: Names, observed: Observed) -> None:
    """No database of somebody else is taken over."""
    for requirement in NAMESAKES:
        found = observed.one(requirement)
        if found is not None and not objects.matches(names.claim_labels(claim), found):
            raise Refused(
                "ExternalNameTaken",
                f"the database {named.database} is not this claim's: Database {objects.name(found)} was made for "
                f"another one, or by hand. Make a claim with another {EXTERNAL_NAME}, or without one",
            )


def _vault_path(claim: Object, spec: PostgreSQLInstanceSpec, platform: Platform, environment: str) -> str:
    mount, asked = platform.postgresql.vault_mount, spec.parameters.vault_path
    if asked is None:
        return managed.vault_path(claim, mount, VAULT_FOLDERS[0], environment)
    named = (spec.parameters.environment, environment)
    if problem := vaultpaths.problem(asked, mount, VAULT_FOLDERS, named, objects.namespace(claim)):
        raise Refused("VaultPathForbidden", f"spec.parameters.vaultPath: {asked}: {problem}")
    return asked


def _in_vault(platform: Platform, named: Names) -> dict[str, str]:
    """What the document's Job puts there, and the url under the key by which services look for it. Templates of
    External Secrets, filled in where the credentials are: no password is in an object."""
    settings = platform.postgresql
    host, port = settings.host or "{{ .endpoint }}", str(settings.port or "{{ .port }}")
    login = "{{ .username | urlquery }}:{{ .password | urlquery }}"
    return {
        "host": host,
        "port": port,
        "database": named.database,
        "username": "{{ .username }}",
        "password": "{{ .password }}",
        "database-url": f"postgresql://{login}@{host}:{port}/{named.database}?sslmode={settings.ssl_mode}",
    }


def _details(observed: Observed, named: Names, platform: Platform) -> dict[str, str] | None:
    """What an application needs to connect; None until the provider has made the login."""
    settings = platform.postgresql
    found = managed.own(observed.one(CREDENTIALS), observed.resources.get(parts.LOGIN)) or {}
    username, password = found.get("username"), found.get("password")
    host, port = settings.host or found.get("endpoint"), str(settings.port or found.get("port") or "")
    if not (username and password and host and port.isdecimal()):
        return None
    address = f"[{host}]" if ":" in host else host
    login = f"{quote(username, safe='')}:{quote(password, safe='')}"
    url = f"postgresql://{login}@{address}:{port}/{named.database}?sslmode={settings.ssl_mode}"
    return {
        "host": host,
        "endpoint": host,
        "port": port,
        "database": named.database,
        "username": username,
        "password": password,
        "url": url,
        "uri": url,
    }


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
