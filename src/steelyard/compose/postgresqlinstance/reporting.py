"""How a database of the second revision is: the conditions and the status of its claim. Pure.

Ready is about whether it can be used: with the login in use, in the database in use. What is still being made besides
(the next login, the next copy, what is in Vault, backups) is told in UpToDate, and keeps nobody from using it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from steelyard.api import durations, state, troubles
from steelyard.api.postgresql import MAKE_ROOM, SOURCE, TTL, PostgreSQLInstanceSpec
from steelyard.compose import connection, managed
from steelyard.compose.composed import Condition, Desired, Observed
from steelyard.compose.managed import VAULT, Progress
from steelyard.compose.postgresqlinstance import cloning, making, naming, storage
from steelyard.compose.postgresqlinstance.cloning import Wanted
from steelyard.compose.postgresqlinstance.making import BACKUP, USAGE, Shape
from steelyard.frozen import frozen
from steelyard.kube import moments, objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

_DUMPS_SHOWN: Final = 100
_BESIDE: Final = "Waiting"
"""The reason of UpToDate for what is beside the database itself."""


@frozen
class Report:
    claim: Object
    spec: PostgreSQLInstanceSpec
    shape: Shape
    desired: Mapping[str, Desired]
    observed: Observed
    details: Mapping[str, str] | None
    wanted: Wanted | None
    copies: Mapping[int, Object]
    problems: Mapping[int, str]
    """Why a copy cannot be filled, by its generation."""
    platform: Platform
    path: str
    """In Vault; empty without."""
    server: str
    version: int | None


def conditions(report: Report) -> list[Condition]:
    shape = report.shape
    waiting = _waiting_to_be_used(report)
    here = Progress(waiting, _lost(report))
    ready, up_to_date = managed.conditions(report.claim, "database", here, _as_is(report))
    if shape.storage.level == "closed" and ready.status == "True":
        ready = Condition("Ready", "False", state.DEGRADED, _closed(report))
        up_to_date = Condition("UpToDate", "False", state.DEGRADED, "the database is too full")
    elif up_to_date.status == "True":
        up_to_date = _beside(report) or up_to_date
    return [
        ready,
        up_to_date,
        *storage.condition(shape.storage, shape.used.storage_gb, _opened_by(report)),
        *_backed_up(report),
        *managed.not_in_force(_not_in_force(report)),
    ]


def status(report: Report) -> Object:
    shape = report.shape
    active = shape.database
    found: Object = {
        "parameters": shape.used.to_json(),
        "database": naming.clone(shape.named, active or (shape.copies.next if shape.copies is not None else 0)),
        "role": naming.login(shape.named, shape.logins.active),
        "login": shape.logins.to_json(durations.seconds(shape.used.rotate_every or "")),
        "storage": shape.storage.to_json(),
        "server": report.server,
    }
    if shape.copies is not None:
        found["clone"] = _clone(report)
    backup = _backup(report)
    if backup:
        found["backup"] = backup
    if report.path:
        found["vaultPath"] = report.path
    if report.details is not None:
        found |= {"host": report.details["host"], "port": int(report.details["port"])}
    asked = report.spec.write_connection_secret_to_ref
    if asked is not None and report.details is not None:
        place: Object = {"name": asked.name, "namespace": connection.namespace_of(report.claim, asked)}
        found["connectionSecret"] = place
    return found


def waits_untold(report: Report) -> bool:
    """Nobody tells of another claim that comes to be, or of rules that are written for its data."""
    copies = report.shape.copies
    return copies is not None and bool(copies.next) and bool(report.problems.get(copies.next) or _failed(report))


def _failed(report: Report) -> bool:
    copies = report.shape.copies
    return copies is not None and cloning.has_failed(report.copies.get(copies.next))


def _in_use(report: Report) -> list[str]:
    """Resource names of what it takes to use the database, in the order in which they are made."""
    shape = report.shape
    needed = making.of_login(shape, shape.logins.active)
    if shape.database is not None:
        needed |= making.of_database(shape, shape.database)
    return [name for name in report.desired if name in needed]


def _waiting_to_be_used(report: Report) -> str:
    shape, observed = report.shape, report.observed
    for name in _in_use(report):
        if found := managed.waiting_for(report.desired[name], observed.resources.get(name)):
            return found
    if shape.database is None:
        return _copying(report)
    if report.details is None:
        found = observed.one(making.credentials_required(shape.logins.active))
        if found is None:
            return "waiting for the login's credentials"
        return (
            f"waiting for the login's credentials: Secret {objects.qualified_name(found)} is not the login's, or "
            "lacks username, password, endpoint or port; if it is somebody else's, delete it"
        )
    return connection.waiting_for(report.claim, report.spec.write_connection_secret_to_ref, observed, "password")


def _lost(report: Report) -> str:
    """What had been ready and says that it no longer is."""
    needed = {name: report.desired[name] for name in _in_use(report)}
    return managed.progress(needed, report.observed).lost


def _copying(report: Report) -> str:
    copies = report.shape.copies
    number = copies.next if copies is not None else 0
    problem = report.problems.get(number, "")
    existing = report.copies.get(number)
    if problem and existing is None:
        return problem
    source = f" ({report.wanted.told})" if report.wanted is not None else ""
    return f"{cloning.told(existing)}{source}"


def _beside(report: Report) -> Condition | None:
    """What is still to be done besides, while the database can be used."""
    shape = report.shape
    if shape.copies is not None and shape.copies.next:
        return Condition("UpToDate", "False", state.UPDATING, _copying(report))
    in_use = set(_in_use(report))
    for name, part in report.desired.items():
        waiting = managed.waiting_for(part, report.observed.resources.get(name)) if name not in in_use else ""
        if waiting:
            is_own = not name.startswith((VAULT, USAGE, BACKUP))
            return Condition("UpToDate", "False", state.UPDATING if is_own else _BESIDE, waiting)
    return None


def _as_is(report: Report) -> str:
    shape = report.shape
    name = naming.clone(shape.named, shape.database or 0)
    told = f"database {name}, {shape.used.connections} connections at once"
    if report.wanted is None:
        return told
    moment = cloning.data_of(report.copies.get(shape.database or 0))
    return f"{told}, {report.wanted.told}" + (f" as of {moment}" if moment else "")


def _closed(report: Report) -> str:
    found = storage.condition(report.shape.storage, report.shape.used.storage_gb, _opened_by(report))
    return found[0].message


def _opened_by(report: Report) -> str:
    return f"steelyard db open {objects.name(report.claim)} -n {objects.namespace(report.claim)} --for 30m"


def _backed_up(report: Report) -> list[Condition]:
    """Whether there is a backup; nothing where none is asked for."""
    if BACKUP not in report.desired:
        return []
    here = report.observed.resources.get(BACKUP)
    failing = next(
        (
            found
            for type_ in ("Synced", "Ready")
            if (found := troubles.condition(here or {}, type_)).get("status") == "False"
        ),
        None,
    )
    last = _backup(report).get("lastAt")
    if failing is not None:
        return [Condition("BackedUp", "False", "Failing", str(failing.get("message") or "the last backup failed"))]
    if last is None:
        return [Condition("BackedUp", "False", "NoneYet", "no backup has been made yet")]
    return [Condition("BackedUp", "True", "Available", f"the newest backup is of {last}")]


def _backup(report: Report) -> Object:
    here = report.observed.resources.get(BACKUP)
    if here is None or BACKUP not in report.desired:
        return {}
    dumps = [objects.mapping(each) for each in objects.sequence(objects.at(here, "status", "dumps"))]
    due = objects.at(here, "status", "dueAt")
    found: Object = {"count": len(dumps)}
    if dumps:
        found |= {"last": dumps[0].get("name"), "lastAt": dumps[0].get("at")}
        found["dumps"] = [
            {key: each[key] for key in ("name", "at", "sizeBytes", "sha256", "reason") if key in each}
            for each in dumps[:_DUMPS_SHOWN]
        ]
    return {**found, **({"dueAt": due} if due else {}), **_trigger(here)}


def _trigger(backup: Object) -> Object:
    acted_on = objects.at(backup, "status", "trigger")
    return {"trigger": acted_on} if acted_on else {}


def _clone(report: Report) -> Object:
    shape = report.shape
    assert shape.copies is not None
    found = shape.copies.to_json(durations.seconds(shape.used.refresh_every or ""))
    if report.wanted is not None:
        found["source"] = {"name": report.wanted.name, "namespace": report.wanted.namespace}
        found["anonymised"] = report.wanted.is_masked
    if moment := cloning.data_of(report.copies.get(shape.copies.active)):
        found["dataOf"] = moment
    if shape.copies.next:
        found["message"] = _copying(report)
    return found


def _not_in_force(report: Report) -> Iterator[str]:
    spec, platform = report.spec.parameters, report.platform
    annotations = objects.annotations(report.claim)
    if spec.vault_path is not None and not platform.integrations.vault.enabled:
        yield "vaultPath: the platform file does not enable integrations.vault, so nothing is put there"
    if spec.version is not None and report.version is None:
        yield f"version: nobody says which version the server has, so {spec.version} or newer is not checked"
    if spec.clone_from is not None and report.wanted is None:
        yield "cloneFrom: the database was made without, and keeps what is in it; make another claim for a copy"
    source = annotations.get(SOURCE, "")
    if source and report.wanted is None:
        known = ", ".join(platform.postgresql.sources) or "none"
        if source in platform.postgresql.sources:
            yield "the annotation source: the database was made without, and keeps what is in it"
        else:
            yield (
                f"the annotation source: the platform file does not say what {source[:63]} is (postgresql.sources: "
                f"{known}), so the database begins empty; name a claim in spec.parameters.cloneFrom"
            )
    if TTL in annotations and not durations.seconds(annotations[TTL]) and spec.ttl is None:
        yield f"the annotation ttl: {annotations[TTL][:40]} is no span of time; write it as in 168h"
    room = annotations.get(MAKE_ROOM, "")
    if room and report.observed.now and not _is_moment(room):
        yield f"the annotation {MAKE_ROOM}: {room[:40]} is no moment; write it as in 2026-01-31T12:00:00Z"


def _is_moment(text: str) -> bool:
    try:
        moments.seconds(text)
    except ValueError:
        return False
    return True
