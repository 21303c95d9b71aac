"""Composes a PostgreSQLAccess: the claim and what was observed in, a TemporaryLogin and a connection Secret out.

The database is that of a claim in the same namespace, and is found by what that claim is, not by what its status says:
who may write a status must not have a login made to somebody else's database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from steelyard.api import postgresql
from steelyard.api.crossplane import DATABASES
from steelyard.api.databases import LOGINS
from steelyard.api.postgresql import PostgreSQLInstanceSpec
from steelyard.api.postgresqlaccess import DEFAULT_LIFE, RENEW, PostgreSQLAccessSpec, UsedParameters
from steelyard.compose import connection, managed, names
from steelyard.compose import refusing as refusals
from steelyard.compose.composed import FIRST_STAGE, Composed, Desired, Observed, Requirement
from steelyard.compose.connection import CONNECTION
from steelyard.compose.managed import Progress
from steelyard.compose.postgresqlinstance import cloning, naming
from steelyard.compose.refusing import Refused, refusing
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform

REVISION: Final = "v1"
REVISIONS: Final = frozenset({REVISION})
LOGIN: Final = "login"
OF_CREDENTIALS: Final = "postgresql-access"
"""What the names of Secrets with such logins begin with."""

_INSTANCE: Final = "instance"
_DATABASE: Final = "database"
_CREDENTIALS: Final = "credentials"
_LOOK_AGAIN: Final = 5.0
_FULLNESS: Final = 300.0
_MOST: Final = 10
"""Connections of such a login at once, of those that the database has."""
_ACCESS: Final = {"readWrite": "ReadWrite", "readOnly": "ReadOnly"}
_LATER: Final = FIRST_STAGE + 1


@frozen
class _Database:
    name: str
    owner: str
    size: str
    is_full: bool = False
    """New sessions are to be read-only by default, whoever's they are."""
    config: str = ""
    """The ProviderConfig; empty until the database is there."""


@refusing
def compose(claim: Object, observed: Observed, platform: Platform) -> Composed:
    spec = refusals.spec(claim, PostgreSQLAccessSpec)
    refusals.revision(claim, REVISIONS, REVISION)
    home, asked = objects.namespace(claim), spec.parameters
    used = UsedParameters(instance=asked.instance, access=asked.access or "readOnly", ttl=asked.ttl or DEFAULT_LIFE)
    requirements = {_INSTANCE: Requirement(postgresql.resource(platform.domain), home, asked.instance)}
    database = _database(observed, platform)
    credentials = managed.credentials_name(OF_CREDENTIALS, claim)
    desired: dict[str, Desired] = {}
    if database is not None:
        requirements[_DATABASE] = Requirement(DATABASES, "", naming.of_object(database.name))
        requirements[_CREDENTIALS] = Requirement(SECRETS, platform.postgresql.credentials_namespace, credentials)
        if database.config:
            desired[LOGIN] = _login(claim, used, database, platform, credentials)
    details = _details(observed, platform)
    place = spec.write_connection_secret_to_ref
    if place is not None and details is not None:
        desired[CONNECTION] = connection.secret(claim, place, managed.encoded(details))
    here = managed.progress(desired, observed)
    waiting = _waiting(asked.instance, home, database, observed) or here.waiting_for
    if not waiting and details is None:
        waiting = "waiting for the login's credentials"
    waiting = waiting or connection.waiting_for(claim, place, observed, "password")
    told = f"{used.access} login to {database.name if database else asked.instance}, {used.ttl} at a time"
    return Composed(
        desired=managed.with_readiness(desired, observed),
        requirements=requirements,
        conditions=managed.conditions(claim, "login", Progress(waiting, here.lost), told),
        status={**_status(claim, spec, used, database, observed, details), "compositionRevision": REVISION},
        retained=_retained(database, details, has_secret=place is not None),
        # Nobody tells of another claim that comes to be.
        look_again=_LOOK_AGAIN if database is None or not database.config else _look_again(used, observed.now),
    )


def _look_again(used: UsedParameters, now: str) -> float:
    """Nor of a database that fills up."""
    return _FULLNESS if now and used.access == "readWrite" else 0.0


def _retained(database: _Database | None, details: Mapping[str, str] | None, *, has_secret: bool) -> frozenset[str]:
    """A database that cannot be seen for a moment takes no login away."""
    kept = {LOGIN} if database is None or not database.config else set[str]()
    return frozenset(kept | ({CONNECTION} if has_secret and details is None else set[str]()))


def _database(observed: Observed, platform: Platform) -> _Database | None:
    """That of the claim, by its names; with its server, where the Database is there and is the claim's."""
    instance = observed.one(_INSTANCE)
    if instance is None or objects.is_being_deleted(instance):
        return None
    try:
        name, base = cloning.database_of(instance, platform)
        spec = refusals.spec(instance, PostgreSQLInstanceSpec)
    except Refused:
        return None
    made = observed.one(_DATABASE)
    is_theirs = made is not None and objects.matches(names.claim_labels(instance), made)
    config = str(objects.at(made or {}, "spec", "providerConfigRef", "name") or "") if is_theirs else ""
    size = spec.parameters.size or platform.postgresql.size
    is_full = objects.at(instance, "status", "storage", "level") in ("read-only", "closed")
    return _Database(name, f"{base}{naming.OWNER}", size, is_full, config)


def _login(claim: Object, used: UsedParameters, database: _Database, platform: Platform, credentials: str) -> Desired:
    settings = platform.postgresql
    size = settings.sizes.small if database.size == "small" else settings.sizes.medium
    session = {
        "statement_timeout": size.statement_timeout,
        "idle_in_transaction_session_timeout": size.idle_transaction_timeout,
        "work_mem": size.work_memory,
    }
    if database.is_full:
        session["default_transaction_read_only"] = "on"
    spec: Object = {
        "providerConfigRef": {"name": database.config},
        "database": database.name,
        "namePrefix": f"tmp_{naming.digest_of(claim)}",
        "memberOf": database.owner,
        "access": _ACCESS[used.access],
        "validFor": used.ttl,
        "connectionLimit": min(_MOST, size.connections),
        "configurationParameters": [{"name": name, "value": value} for name, value in session.items()],
        "writeConnectionSecretToRef": {"namespace": settings.credentials_namespace, "name": credentials},
    }
    if trigger := objects.annotations(claim).get(RENEW, ""):
        spec["trigger"] = trigger[:253]
    name = f"access-{names.external(objects.namespace(claim), objects.name(claim))}"
    return managed.part(LOGINS, name, spec, stage=_LATER, annotations={})


def _details(observed: Observed, platform: Platform) -> dict[str, str] | None:
    found = managed.own(observed.one(_CREDENTIALS), observed.resources.get(LOGIN)) or {}
    host, uri = found.get("endpoint"), found.get("uri")
    if not (host and uri and found.get("password") and found.get("port", "").isdecimal()):
        return None
    kept = {key: found[key] for key in ("endpoint", "port", "database", "username", "password", "uri", "expires-at")}
    return {"host": host, "url": uri, **kept}


def _waiting(instance: str, namespace: str, database: _Database | None, observed: Observed) -> str:
    if observed.one(_INSTANCE) is None:
        return f"waiting for the database {namespace}/{instance}: there is no such PostgreSQLInstance"
    if database is None or not database.config:
        return f"waiting for the database {namespace}/{instance} to be there"
    return ""


def _status(
    claim: Object,
    spec: PostgreSQLAccessSpec,
    used: UsedParameters,
    database: _Database | None,
    observed: Observed,
    details: Mapping[str, str] | None,
) -> Object:
    status: Object = {"parameters": used.to_json()}
    if database is not None:
        status["database"] = database.name
    login = objects.mapping(objects.at(observed.resources.get(LOGIN) or {}, "status", "login"))
    if login.get("name"):
        status |= {"role": login["name"], "loginExpiresAt": login.get("expiresAt")}
    if details is not None:
        status |= {"host": details["host"], "port": int(details["port"])}
        place = spec.write_connection_secret_to_ref
        if place is not None:
            where: Object = {"name": place.name, "namespace": connection.namespace_of(claim, place)}
            status["connectionSecret"] = where
    return {key: value for key, value in status.items() if value is not None}
