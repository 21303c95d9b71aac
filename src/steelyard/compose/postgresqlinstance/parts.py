"""The objects of a database, in the order in which each finds what it refers to.

A role that cannot log in owns the database and what is in it; the login is a member of it and acts as it, so that
further logins can come and go without taking tables along. Nobody else may connect.
"""

from __future__ import annotations

from typing import Final

from steelyard.api.crossplane import DATABASES, EXTERNAL_NAME, GRANTS, ROLES
from steelyard.api.postgresql import UsedParameters
from steelyard.compose import managed
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.compose.postgresqlinstance import naming
from steelyard.compose.postgresqlinstance.naming import Names
from steelyard.kube.objects import Object
from steelyard.settings.data import PostgreSQL

OWNER: Final = "owner"
LOGIN: Final = "login"
DATABASE: Final = "database"
MAKES: Final = (ROLES, DATABASES, GRANTS)
STORAGE: Final = "steelyard.dev/storage-gb"
BACKUP: Final = "steelyard.dev/backup"
"""Annotations of the Database: what the claim asks for and upstream's kind has no field for."""

# A Grant whose Database went first cannot be revoked and hangs; a role that has a database still cannot be dropped.
_GRANT_STAGE: Final = FIRST_STAGE + 1
_DATABASE_STAGE: Final = FIRST_STAGE + 2
_ROLE_STAGE: Final = FIRST_STAGE + 3


def of(named: Names, used: UsedParameters, settings: PostgreSQL, credentials: str) -> dict[str, Desired]:
    """By resource name. `credentials` is the Secret for the login's password."""
    database = naming.of_object(named.database)
    return {
        OWNER: _role(named.owner, {"privileges": _privileges(login=False)}, settings),
        LOGIN: _role(named.login, _login(named, used, settings), settings, credentials=credentials),
        DATABASE: managed.part(
            DATABASES,
            database,
            {"forProvider": _database(named, used), **_config(settings)},
            stage=_DATABASE_STAGE,
            annotations={
                EXTERNAL_NAME: named.database,
                STORAGE: str(used.storage_gb),
                BACKUP: str(used.enable_backup).lower(),
            },
        ),
        "membership": _grant(f"{database}-membership", {"role": named.login, "memberOf": named.owner}, settings),
        "access": _grant(
            f"{database}-access",
            {"role": named.login, "database": named.database, "privileges": ["ALL"], "revokePublicOnDb": True},
            settings,
        ),
    }


def _role(name: str, parameters: Object, settings: PostgreSQL, credentials: str = "") -> Desired:
    spec: Object = {"forProvider": parameters, **_config(settings)}
    if credentials:
        place: Object = {"namespace": settings.credentials_namespace, "name": credentials}
        spec["writeConnectionSecretToRef"] = place
    return managed.part(ROLES, naming.of_object(name), spec, stage=_ROLE_STAGE, annotations={EXTERNAL_NAME: name})


def _login(named: Names, used: UsedParameters, settings: PostgreSQL) -> Object:
    size = settings.sizes.of(used.size)
    session = {
        "role": named.owner,
        "statement_timeout": size.statement_timeout,
        "idle_in_transaction_session_timeout": size.idle_transaction_timeout,
        "work_mem": size.work_memory,
    }
    return {
        "privileges": _privileges(login=True),
        "connectionLimit": used.connections,
        "configurationParameters": [{"name": name, "value": value} for name, value in session.items()],
    }


def _privileges(*, login: bool) -> Object:
    """What is not said, a provider leaves as it finds it: so all of them are."""
    denied = ("superUser", "createDb", "createRole", "replication", "bypassRls")
    return {"login": login, "inherit": True, **dict.fromkeys(denied, False)}


def _database(named: Names, used: UsedParameters) -> Object:
    # Of template0, since a template that others write to would let them leave things in everybody's database.
    return {
        "owner": named.owner,
        "encoding": "UTF8",
        "template": "template0",
        "allowConnections": True,
        "isTemplate": False,
        "connectionLimit": used.connections,
    }


def _grant(name: str, parameters: Object, settings: PostgreSQL) -> Desired:
    spec: Object = {"forProvider": parameters, **_config(settings)}
    return managed.part(GRANTS, name, spec, stage=_GRANT_STAGE, annotations={})


def _config(settings: PostgreSQL) -> Object:
    return {"providerConfigRef": {"name": settings.provider_config}}
