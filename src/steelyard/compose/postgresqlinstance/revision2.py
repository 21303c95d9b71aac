"""The second revision of what a PostgreSQLInstance is composed to: logins that are replaced, copies that are made anew,
and what looks after the database: how full it is, backups.

spec.parameters: {environment: dev}   ->   owner, login, Database, Grants; DatabaseUsage, DatabaseBackup;
                                           connection Secret; PushSecret to Vault; SecretDeliveries

`generations.py` says which login and which copy is in use, `making.py` makes the objects, `reporting.py` says how.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from steelyard.api import durations
from steelyard.api.crossplane import DATABASES, EXTERNAL_NAME, PROVIDER_CONFIGS, ROLES
from steelyard.api.postgresql import (
    BACK_UP,
    MAKE_ROOM,
    REFRESH,
    ROTATE,
    BackupPlan,
    PostgreSQLInstanceSpec,
    UsedParameters,
)
from steelyard.compose import connection, delivery, managed, names
from steelyard.compose.composed import Composed, Desired, Observed, Reading, Requirement
from steelyard.compose.connection import CONNECTION
from steelyard.compose.delivery import InVault
from steelyard.compose.integrations import vaultdatabase
from steelyard.compose.managed import VAULT
from steelyard.compose.postgresqlinstance import (
    cloning,
    generations,
    making,
    naming,
    reporting,
    sharing,
    storage,
    terms,
)
from steelyard.compose.postgresqlinstance.cloning import Filling, Wanted
from steelyard.compose.postgresqlinstance.generations import Generations
from steelyard.compose.postgresqlinstance.making import Shape
from steelyard.compose.postgresqlinstance.naming import Names
from steelyard.compose.postgresqlinstance.reporting import Report
from steelyard.compose.postgresqlinstance.sharing import NAMESAKES, VAULT_FOLDERS
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform
from steelyard.settings.postgresservers import Reached

REVISION: Final = "v2"

_DAILY: Final = "24h"
_ROLES: Final = "roles"
_DATABASES: Final = "databases"
_CONNECTED: Final = "connected"
_SERVER: Final = "server"
"""Requirements, of which the first three are asked for where the status does not say which login is in use."""


def compose(
    claim: Object, spec: PostgreSQLInstanceSpec, environment: str, observed: Observed, platform: Platform
) -> Composed:
    named = naming.of(claim, platform, environment, has_generations=True)
    sharing.refuse_anothers(claim, named, observed)
    server = terms.server(claim, platform, environment, observed.resources.get(making.OWNER))
    terms.check(spec, platform, observed.one(_SERVER))
    used = _used(spec, platform, environment)
    wanted = cloning.wanted(claim, spec, platform) if _may_be_a_copy(claim) else None
    before = _before(claim, named, used, observed, platform, is_copy=wanted is not None or _is_copy(claim))
    shape, fillings = before.filled(wanted, spec, server, platform)
    shape = _switched(shape, observed, platform)
    desired = making.of(shape)
    path = sharing.vault_path(claim, spec, platform, environment)
    details = _details(shape, observed, server)
    desired |= _in_vault(claim, shape, observed, server, path, details, platform)
    delivered = delivery.compose(
        claim,
        spec.parameters.deliver_to,
        observed,
        platform,
        credentials_namespace=platform.postgresql.credentials_namespace,
        data=delivery.environment(details, {"DATABASE_URL": "uri"}),
        in_vault=InVault(path, {**{key: key for key in _SHARED}, "DATABASE_URL": "database-url"}),
    )
    asked = spec.write_connection_secret_to_ref
    if asked is not None and details is not None:
        desired[CONNECTION] = connection.secret(claim, asked, managed.encoded(details))
    report = Report(
        claim=claim,
        spec=spec,
        shape=shape,
        desired=desired,
        observed=observed,
        details=details,
        wanted=wanted,
        copies=before.copies_here,
        problems={number: each.problem for number, each in fillings.items() if each.problem},
        platform=platform,
        path=path if platform.integrations.vault.enabled else "",
        server=server.provider_config,
        version=terms.server_version(platform, observed.one(_SERVER)),
    )
    return Composed(
        desired={**managed.with_readiness(desired, observed), **delivered.desired},
        requirements={
            **_requirements(claim, spec, named, shape, observed, platform, server),
            **cloning.requirements(wanted, named, before.known_copies, observed, platform),
            **delivered.requirements,
        },
        conditions=delivered.conditions(reporting.conditions(report)),
        status={**reporting.status(report), **delivered.status, "compositionRevision": REVISION},
        retained=frozenset({CONNECTION} if asked is not None and details is None else ()) | delivered.retained,
        waits_untold=reporting.waits_untold(report) or delivered.waits_untold,
        look_again=_look_again(shape, observed.now),
        reading=_reading(claim, wanted, shape, before.copies_here),
    )


_SHARED: Final = ("host", "port", "database", "username", "password")


def _used(spec: PostgreSQLInstanceSpec, platform: Platform, environment: str) -> UsedParameters:
    asked, default = spec.parameters, platform.postgresql
    size = asked.size or default.size
    has_backup = default.enable_backup if asked.enable_backup is None else asked.enable_backup
    plan = asked.backup or BackupPlan()
    known = platform.environment(environment)
    is_daily = known is not None and known.auto_deploy == "daily" and environment in platform.environments
    return UsedParameters(
        environment=environment,
        size=size,
        storageGB=asked.storage_gb or default.storage_gb,
        enable_backup=has_backup,
        connections=default.sizes.of(size).connections,
        deletion_policy=asked.deletion_policy or "Delete",
        deletion_protection=terms.is_protected(spec, platform, environment),
        backup=BackupPlan(every=plan.every or default.backup.every, keep=plan.keep or default.backup.keep)
        if has_backup
        else None,
        rotate_every=asked.rotate_every,
        refresh_every=asked.refresh_every or (_DAILY if is_daily and _is_refreshed(spec) else None),
    )


def _is_refreshed(spec: PostgreSQLInstanceSpec) -> bool:
    asked = spec.parameters.clone_from
    return asked is None or asked.backup is None


def _is_copy(claim: Object) -> bool:
    return objects.at(claim, "status", "clone") is not None


def _may_be_a_copy(claim: Object) -> bool:
    """A database that was made without a copy has data of its own, which none replaces."""
    return _is_copy(claim) or objects.at(claim, "status", "database") is None


class _Before:
    """What is recorded, and what has been begun since."""

    def __init__(
        self, claim: Object, named: Names, used: UsedParameters, observed: Observed, platform: Platform, is_copy: bool
    ) -> None:
        self._claim, self._named, self._used, self._observed = claim, named, used, observed
        overlap, grace = _spans(platform)
        annotations = objects.annotations(claim)
        now = observed.now
        logins = generations.recorded(objects.mapping(objects.at(claim, "status", "login")))
        if logins is None:
            found = _found(claim, observed, _ROLES, named.database, "r")
            logins = generations.recovered(found, self._in_use("username", "r"), first=1, now=now, overlap=overlap)
            logins = dataclasses.replace(logins, trigger=annotations.get(ROTATE, "")[:253])
        logins = generations.without_past(logins, now)
        rotate = durations.seconds(used.rotate_every or "")
        self.logins = generations.advanced(logins, wish=annotations.get(ROTATE, "")[:253], every=rotate, now=now)
        self.copies: Generations | None = None
        self.copies_here: dict[int, Object] = {}
        self.known_copies: tuple[int, ...] = ()
        """Those before what was begun now, too: that one is given up is known by looking at it."""
        if is_copy:
            self._with_copies(annotations.get(REFRESH, "")[:253], grace)

    def _with_copies(self, wish: str, grace: float) -> None:
        claim, observed = self._claim, self._observed
        copies = generations.recorded(objects.mapping(objects.at(claim, "status", "clone")))
        if copies is None:
            found = {each for each in _found(claim, observed, _DATABASES, self._named.database, "c") if each}
            in_use = self._in_use("database", "c")
            copies = generations.recovered(found, in_use, first=0, now=observed.now, overlap=grace)
            copies = dataclasses.replace(copies, trigger=wish)
        copies = generations.without_past(copies, observed.now)
        self.copies_here = cloning.copies(claim, copies.all, observed)
        self.copies = generations.advanced(
            copies,
            wish=wish,
            every=durations.seconds(self._used.refresh_every or ""),
            now=observed.now,
            has_failed=cloning.has_failed(self.copies_here.get(copies.next)),
        )
        self.known_copies = tuple(dict.fromkeys((*copies.all, *self.copies.all)))
        self.copies_here = cloning.copies(claim, self.known_copies, observed)

    def _in_use(self, key: str, letter: str) -> int | None:
        """Which generation the connection Secret names."""
        secret = self._observed.one(_CONNECTED)
        if secret is None or not objects.matches(names.claim_labels(self._claim), secret):
            return None
        return naming.generation((managed.decoded(secret) or {}).get(key, ""), self._named.database, letter)

    def filled(
        self, wanted: Wanted | None, spec: PostgreSQLInstanceSpec, server: Reached, platform: Platform
    ) -> tuple[Shape, Mapping[int, Filling]]:
        observed, annotations = self._observed, objects.annotations(self._claim)
        active = self.copies.active if self.copies is not None else 0
        usage = observed.resources.get(making.usage(active))
        fillings = {
            each: cloning.filling(wanted, self.copies_here.get(each), observed, platform)
            for each in (self.copies.all if self.copies is not None else ())
        }
        shape = Shape(
            named=self._named,
            used=self._used,
            settings=platform.postgresql,
            config=server.provider_config,
            credentials=managed.credentials_name(sharing.OF_CREDENTIALS, self._claim),
            storage=storage.of(
                usage,
                objects.at(self._claim, "status", "storage", "level"),
                annotations.get(MAKE_ROOM, ""),
                observed.now,
            ),
            logins=self.logins,
            copies=self.copies,
            filled=cloning.filled(self.copies_here),
            extensions=tuple(dict.fromkeys(spec.parameters.extensions or ())),
            template=platform.postgresql.template(spec.parameters.template) if spec.parameters.template else None,
            copy_specs={each: found.spec for each, found in fillings.items() if found.spec is not None},
            trigger=annotations.get(BACK_UP, ""),
        )
        return shape, fillings


def _before(
    claim: Object, named: Names, used: UsedParameters, observed: Observed, platform: Platform, *, is_copy: bool
) -> _Before:
    return _Before(claim, named, used, observed, platform, is_copy)


def _switched(shape: Shape, observed: Observed, platform: Platform) -> Shape:
    """With what is complete by now in use."""
    overlap, grace = _spans(platform)
    desired = making.of(shape)
    logins, copies = shape.logins, shape.copies
    if (
        logins.next
        and _are_ready(making.of_login(shape, logins.next), desired, observed)
        and _credentials(logins.next, observed)
    ):
        logins = generations.switched(logins, now=observed.now, overlap=overlap)
    if (
        copies is not None
        and copies.next in shape.filled
        and _are_ready(making.of_database(shape, copies.next), desired, observed)
    ):
        copies = generations.switched(copies, now=observed.now, overlap=grace)
    return dataclasses.replace(shape, logins=logins, copies=copies)


def _are_ready(parts: frozenset[str], desired: Mapping[str, Desired], observed: Observed) -> bool:
    return all(not managed.waiting_for(desired[each], observed.resources.get(each)) for each in parts)


def _spans(platform: Platform) -> tuple[float, float]:
    settings = platform.postgresql
    return durations.seconds(settings.rotation_overlap) or 0.0, durations.seconds(settings.clone_grace) or 0.0


def _found(claim: Object, observed: Observed, requirement: str, base: str, letter: str) -> set[int]:
    """Generations that are there, where the status does not say."""
    labels = names.claim_labels(claim)
    called = (
        objects.annotations(each).get(EXTERNAL_NAME, "")
        for each in observed.required.get(requirement, ())
        if objects.matches(labels, each)
    )
    numbers = (naming.generation(each, base, letter) for each in called)
    return {each for each in numbers if each is not None}


def _credentials(generation: int, observed: Observed) -> dict[str, str]:
    """What the provider made up for one login, if it is that login's."""
    secret = observed.one(making.credentials_required(generation))
    return managed.own(secret, observed.resources.get(making.login(generation))) or {}


def _details(shape: Shape, observed: Observed, server: Reached) -> dict[str, str] | None:
    """What an application needs to connect; None until there is a login and a database to use."""
    if shape.database is None:
        return None
    found = _credentials(shape.logins.active, observed)
    return sharing.details(found, naming.clone(shape.named, shape.database), server)


def _in_vault(
    claim: Object,
    shape: Shape,
    observed: Observed,
    server: Reached,
    path: str,
    details: Mapping[str, str] | None,
    platform: Platform,
) -> dict[str, Desired]:
    """The credentials, what else there is at their path, and by which logins are made on demand."""
    vault = platform.integrations.vault
    if not vault.enabled or shape.database is None:
        return {}
    mode = _credentials(shape.logins.active, observed).get("sslmode", "")
    name = naming.clone(shape.named, shape.database)
    secret = making.credentials(shape, shape.logins.active)
    found = {VAULT: managed.push(platform.postgresql, secret, path, sharing.in_vault(server, name, mode))}
    if path.split("/")[1:2] == [VAULT_FOLDERS[0]]:
        found |= vaultdatabase.api_key(vault, platform.postgresql, path)
    called = names.external(objects.namespace(claim), objects.name(claim))
    admin = objects.mapping(objects.at(observed.one(_SERVER) or {}, "spec", "credentials", "connectionSecretRef"))
    if details is None or not admin:
        return found | vaultdatabase.service_policy(vault, called, path)
    database = vaultdatabase.Database(
        name=called,
        environment=shape.used.environment,
        namespace=objects.namespace(claim),
        service=objects.name(claim),
        host=details["host"],
        port=int(details["port"]),
        database=name,
        owner=shape.named.owner,
        admin=(str(admin.get("namespace") or ""), str(admin.get("name") or "")),
        ssl_mode=mode or server.ssl_mode,
        connection_limit=shape.used.connections,
    )
    roles = tuple(vaultdatabase.role_of(database, access) for access in ("readwrite", "readonly"))
    found |= vaultdatabase.parts(vault, database)
    return found | vaultdatabase.service_policy(vault, called, path, roles)


def _requirements(
    claim: Object,
    spec: PostgreSQLInstanceSpec,
    named: Names,
    shape: Shape,
    observed: Observed,
    platform: Platform,
    server: Reached,
) -> dict[str, Requirement]:
    own, by_hand = NAMESAKES
    settings = platform.postgresql
    found = {own: Requirement(DATABASES, "", naming.of_object(named.database))}
    if "_" not in named.database:
        # One that somebody made by hand is called as its database, unless they said otherwise.
        found[by_hand] = Requirement(DATABASES, "", named.database)
    for each in shape.logins.all:
        place = Requirement(SECRETS, settings.credentials_namespace, making.credentials(shape, each))
        found[making.credentials_required(each)] = place
    if platform.integrations.vault.enabled or (spec.parameters.version is not None and settings.version is None):
        found[_SERVER] = Requirement(PROVIDER_CONFIGS, "", server.provider_config)
    if objects.at(claim, "status", "login") is None:
        label = (names.CLAIM_NAME, objects.name(claim))
        found[_ROLES] = Requirement(ROLES, "", label=label)
        found[_DATABASES] = Requirement(DATABASES, "", label=label)
        asked = spec.write_connection_secret_to_ref
        if asked is not None:
            found[_CONNECTED] = Requirement(SECRETS, connection.namespace_of(claim, asked), asked.name)
    return found


def _look_again(shape: Shape, now: str) -> float:
    waits = [
        generations.look_again(shape.logins, durations.seconds(shape.used.rotate_every or ""), now),
        storage.look_again(shape.storage, now),
    ]
    if shape.copies is not None:
        waits.append(generations.look_again(shape.copies, durations.seconds(shape.used.refresh_every or ""), now))
    return min((each for each in waits if each), default=0.0)


def _reading(claim: Object, wanted: Wanted | None, shape: Shape, here: Mapping[int, Object]) -> Reading | None:
    """Whose data would be brought along by what is not there yet."""
    if wanted is None or wanted.is_granted or wanted.namespace == objects.namespace(claim):
        return None
    parts = frozenset(making.copy(each) for each in shape.copy_specs if each not in here)
    return Reading(wanted.namespace, parts) if parts else None
