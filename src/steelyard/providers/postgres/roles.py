"""Role: CREATE, ALTER and DROP ROLE, its settings, and its password, of which the connection Secret is the record.

A password is in the Secret before it is on the server, so that none is lost when something fails in between; one that
differs on the server is put back. The server gets it as a SCRAM verifier: no statement, and no log, has it in clear.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final, LiteralString

from psycopg.sql import SQL, Composable, Composed

from steelyard.api.crossplane import ROLES
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.providers.postgres import credentials, dropping, records, rolesettings, scram, statements
from steelyard.providers.postgres.managed import ManagedReconciler, Observation, Subject
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.servers import Connection, decoded

_PASSWORD_BYTES: Final = 24
_SCRAM: Final = b"scram-sha-256"
_PRIVILEGES: Final[dict[str, tuple[str, LiteralString, LiteralString]]] = {
    "superUser": ("rolsuper", "SUPERUSER", "NOSUPERUSER"),
    "inherit": ("rolinherit", "INHERIT", "NOINHERIT"),
    "createDb": ("rolcreatedb", "CREATEDB", "NOCREATEDB"),
    "createRole": ("rolcreaterole", "CREATEROLE", "NOCREATEROLE"),
    "login": ("rolcanlogin", "LOGIN", "NOLOGIN"),
    "replication": ("rolreplication", "REPLICATION", "NOREPLICATION"),
    "bypassRls": ("rolbypassrls", "BYPASSRLS", "NOBYPASSRLS"),
}
_OBSERVE: Final = (
    "SELECT rolsuper, rolinherit, rolcreatedb, rolcreaterole, rolcanlogin, rolreplication, rolbypassrls, "
    "rolconnlimit, rolconfig FROM pg_roles WHERE rolname = %s"
)


@frozen
class _Found:
    """A role as the server has it."""

    privileges: Mapping[str, bool]
    limit: int
    settings: Mapping[str, str]
    verifier: str | None
    """None where the administrator may not read it."""


@frozen
class _Password:
    """What the password should be."""

    value: str
    """Empty where nobody is to know one."""
    secret: Object | None
    rotated_for: str = ""
    is_new: bool = False


def reconciler(tools: Tools) -> ManagedReconciler:
    return ManagedReconciler(tools, RoleKind(tools))


class RoleKind:
    def __init__(self, tools: Tools) -> None:
        self._client = tools.client
        self._clock = tools.clock
        self._servers = tools.servers
        self._checked: dict[str, tuple[str, str]] = {}
        """Verifier and password by object, of those that were found to match: the check takes milliseconds."""

    @property
    def resource(self) -> Resource:
        return ROLES

    @property
    def is_named(self) -> bool:
        return True

    def needs(self, subject: Subject) -> Iterable[tuple[Resource, str]]:
        return ()

    async def observe(self, subject: Subject) -> Observation:
        async with self._servers.connect(subject.config) as connection:
            found = await _find(connection, subject.name)
        if found is None:
            return Observation(exists=False)
        wanted = subject.parameters
        is_current = (
            not _changed_privileges(wanted, found)
            and wanted.get("connectionLimit") in (None, found.limit)
            and rolesettings.is_met(wanted, found.settings)
            and (objects.is_being_deleted(subject.object) or await self._is_password_current(subject, found))
        )
        at_provider: Object = {
            "privilegesAsClauses": [yes if found.privileges[key] else no for key, (_, yes, no) in _PRIVILEGES.items()],
            "configurationParameters": [{"name": name, "value": value} for name, value in found.settings.items()],
        }
        at_provider |= await self._last_change(subject)
        return Observation(exists=True, is_current=is_current, late=_late(wanted, found), at_provider=at_provider)

    async def create(self, subject: Subject) -> None:
        password = await self._password(subject)
        await self._publish(subject, password)
        wanted = subject.parameters
        name = statements.name(subject.name)
        clauses: list[Composable] = [
            SQL(yes) if _given(wanted, key) else SQL(no)
            for key, (_, yes, no) in _PRIVILEGES.items()
            if _given(wanted, key) is not None
        ]
        if wanted.get("connectionLimit") is not None:
            clauses.append(statements.of("CONNECTION LIMIT {}", statements.value(int(wanted["connectionLimit"]))))
        async with self._servers.connect(subject.config) as connection, connection.transaction():
            if password.value:
                clauses.append(_password_clause(connection, subject.name, password.value))
            await connection.execute(statements.of("CREATE ROLE {} {}", name, statements.joined(clauses, " ")))
            for statement in rolesettings.changes(subject.name, wanted, {}):
                await connection.execute(statement)

    async def update(self, subject: Subject) -> None:
        password = await self._password(subject)
        await self._publish(subject, password)
        async with self._servers.connect(subject.config) as connection, connection.transaction():
            found = await _find(connection, subject.name)
            if found is None:
                return
            name = statements.name(subject.name)
            clauses: list[Composable] = list(map(SQL, _changed_privileges(subject.parameters, found)))
            limit = subject.parameters.get("connectionLimit")
            if limit is not None and limit != found.limit:
                clauses.append(statements.of("CONNECTION LIMIT {}", statements.value(int(limit))))
            if password.value and not self._matches(subject, found, password.value):
                clauses.append(_password_clause(connection, subject.name, password.value))
            if clauses:
                await connection.execute(statements.of("ALTER ROLE {} {}", name, statements.joined(clauses, " ")))
            for statement in rolesettings.changes(subject.name, subject.parameters, found.settings):
                await connection.execute(statement)

    async def delete(self, subject: Subject) -> None:
        await dropping.drop_role(self._servers, subject.config, subject.name)

    async def _is_password_current(self, subject: Subject, found: _Found) -> bool:
        password = await self._password(subject)
        if password.is_new:
            return False
        if not password.value:
            return True
        place = await self._servers.place(subject.config)
        if password.secret is not None:
            held = decoded(password.secret)
            wanted = credentials.details(place, subject.name, password.value)
            if any(held.get(key) != value for key, value in wanted.items()):
                return False
        elif credentials.place_of(subject.object) is not None:
            return False
        return self._matches(subject, found, password.value)

    def _matches(self, subject: Subject, found: _Found, password: str) -> bool:
        if found.verifier is None:
            return True
        uid = objects.uid(subject.object)
        if self._checked.get(uid) == (found.verifier, password):
            return True
        is_same = scram.matches(found.verifier, password, subject.name)
        if is_same:
            self._checked[uid] = (found.verifier, password)
        return is_same

    async def _password(self, subject: Subject) -> _Password:
        """The one that is referred to, else that of the Secret, unless there is none or a rotation is due."""
        secret = await credentials.read(self._client, subject.object)
        reference = objects.mapping(subject.parameters.get("passwordSecretRef"))
        if reference:
            return _Password(await credentials.referred(self._client, reference), secret)
        if credentials.place_of(subject.object) is None:
            return _Password("", None)
        present = decoded(secret).get("password", "") if secret is not None else ""
        due = self._rotation_due(subject)
        has_rotated = secret is not None and objects.annotations(secret).get(credentials.ROTATED_FOR) == due
        if present and (not due or has_rotated):
            return _Password(present, secret)
        return _Password(secrets.token_urlsafe(_PASSWORD_BYTES), secret, rotated_for=due, is_new=True)

    def _rotation_due(self, subject: Subject) -> str:
        """The trigger that asks for another password and has not been followed; empty where there is none."""
        trigger = str(subject.parameters.get("passwordRotationTrigger") or "")
        if not trigger:
            return ""
        last = str(objects.at(subject.object, "status", "atProvider", "lastPasswordChange") or "")
        # One that provider-sql made says nothing of the password that it began with.
        made = objects.annotations(subject.object).get(records.SUCCEEDED, "")
        created = str(objects.metadata(subject.object).get("creationTimestamp") or "")
        since = last or made or created
        is_later = not since or clocks.parse_rfc3339(trigger) > clocks.parse_rfc3339(since)
        return trigger if is_later else ""

    async def _last_change(self, subject: Subject) -> Object:
        """When the password was last made up, once that has happened; what a trigger is compared with from then on."""
        if credentials.place_of(subject.object) is None or subject.parameters.get("passwordSecretRef"):
            return {}
        due = self._rotation_due(subject)
        if due:
            secret = await credentials.read(self._client, subject.object)
            if secret is None or objects.annotations(secret).get(credentials.ROTATED_FOR) != due:
                return {}
            return {"lastPasswordChange": clocks.rfc3339(max(self._clock.now(), clocks.parse_rfc3339(due)))}
        if objects.at(subject.object, "status", "atProvider", "lastPasswordChange"):
            return {}
        made = objects.annotations(subject.object).get(records.SUCCEEDED)
        moment = clocks.parse_rfc3339(made) if made else self._clock.now()
        return {"lastPasswordChange": clocks.rfc3339(moment)}

    async def _publish(self, subject: Subject, password: _Password) -> None:
        if not password.value:
            return
        place = await self._servers.place(subject.config)
        values = credentials.details(place, subject.name, password.value)
        await credentials.publish(
            self._client, subject.object, password.secret, values, rotated_for=password.rotated_for
        )


async def _find(connection: Connection, name: str) -> _Found | None:
    row = await (await connection.execute(_OBSERVE, (name,))).fetchone()
    if row is None:
        return None
    verifier: str | None = None
    if connection.info.parameter_status("is_superuser") == "on":
        stored = await connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", (name,))
        verifier = str((await stored.fetchone() or [""])[0] or "")
    return _Found(
        dict(zip(_PRIVILEGES, map(bool, row), strict=False)),
        int(row[7]),
        rolesettings.read(row[8] or []),
        verifier,
    )


def _given(wanted: Object, key: str) -> bool | None:
    value = objects.mapping(wanted.get("privileges")).get(key)
    return value if isinstance(value, bool) else None


def _changed_privileges(wanted: Object, found: _Found) -> list[LiteralString]:
    return [
        yes if _given(wanted, key) else no
        for key, (_, yes, no) in _PRIVILEGES.items()
        if _given(wanted, key) not in (None, found.privileges[key])
    ]


def _late(wanted: Object, found: _Found) -> dict[str, Any]:
    missing = {key: value for key, value in found.privileges.items() if _given(wanted, key) is None}
    late: dict[str, Any] = {"privileges": missing} if missing else {}
    return late if wanted.get("connectionLimit") is not None else {**late, "connectionLimit": found.limit}


def _password_clause(connection: Connection, role: str, password: str) -> Composed:
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), _SCRAM)
    return statements.of("PASSWORD {}", statements.value(verifier.decode()))
