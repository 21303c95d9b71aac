"""What `describe` tells of a database: where it is, how full, its backups, its login, whose data it has, and when it
ends. Pure; everything is in the claim's status, so that a tenant who sees nothing else is told as well.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from steelyard.kube import ages, objects
from steelyard.kube.objects import Object


def is_about(claim: Object) -> bool:
    return claim.get("kind") == "PostgreSQLInstance" and objects.at(claim, "status", "login") is not None


def lines(claim: Object, now: datetime.datetime) -> Iterator[str]:
    status = objects.mapping(claim.get("status"))
    used = objects.mapping(status.get("parameters"))
    host, port = status.get("host"), status.get("port")
    where = f" at {host}:{port}" if host else ""
    yield f"  {used.get('environment')} database {status.get('database')}{where}, server {status.get('server')}"
    yield f"  {used.get('size')}: {used.get('connections')} connections at once"
    yield _storage(status, used)
    yield _backups(status, used, now)
    yield from _login(status, now)
    yield from _copy(status, now)
    yield from _end(status, used, now)
    place = objects.mapping(status.get("connectionSecret"))
    if place:
        yield f"  connection: Secret {place.get('namespace')}/{place.get('name')}"
    if status.get("vaultPath"):
        yield f"  in Vault: {status['vaultPath']}"


def _storage(status: Object, used: Object) -> str:
    found = objects.mapping(status.get("storage"))
    if found.get("percent") is None:
        return f"  storage: {used.get('storageGB')} GB, not measured yet"
    level = "" if found.get("level") == "ok" else f", {found.get('level')}"
    held = size(int(found.get("sizeBytes") or 0))
    return f"  storage: {found['percent']} % of {used.get('storageGB')} GB used ({held}){level}"


def _backups(status: Object, used: Object, now: datetime.datetime) -> str:
    if not used.get("enableBackup"):
        return "  backups: none are made"
    plan, found = objects.mapping(used.get("backup")), objects.mapping(status.get("backup"))
    newest = f"newest {found['last']}, {_ago(found.get('lastAt'), now)}" if found.get("last") else "none yet"
    due = f", next at {found['dueAt']}" if found.get("dueAt") else ""
    return f"  backups: every {plan.get('every')}, {plan.get('keep')} kept; {newest}{due}"


def _login(status: Object, now: datetime.datetime) -> Iterator[str]:
    login = objects.mapping(status.get("login"))
    since = f" for {ages.since(login['since'], now)}" if login.get("since") else ""
    due = f", next rotation at {login['dueAt']}" if login.get("dueAt") else ""
    coming = ", being rotated" if login.get("next") else ""
    yield f"  login: {status.get('role')}, generation {login.get('generation')}{since}{due}{coming}"
    for each in map(objects.mapping, objects.sequence(login.get("former"))):
        yield f"    generation {each.get('generation')} works until {each.get('until')}"


def _copy(status: Object, now: datetime.datetime) -> Iterator[str]:
    clone = objects.mapping(status.get("clone"))
    if not clone:
        return
    source = objects.mapping(clone.get("source"))
    masked = "masked copy" if clone.get("anonymised") else "copy"
    moment = f", its data is of {clone['dataOf']} ({_ago(clone['dataOf'], now)})" if clone.get("dataOf") else ""
    due = f", made anew at {clone['dueAt']}" if clone.get("dueAt") else ""
    yield f"  {masked} of {source.get('namespace')}/{source.get('name')}{moment}{due}"
    if clone.get("message"):
        yield f"    {clone['message']}"


def _end(status: Object, used: Object, now: datetime.datetime) -> Iterator[str]:
    if status.get("expiresAt"):
        yield f"  expires at {status['expiresAt']}: the claim is deleted then, with everything in the database"
    if used.get("deletionProtection"):
        yield "  protected: to delete it, set spec.parameters.deletionProtection to false first"
    if used.get("deletionPolicy") == "Orphan":
        yield "  when the claim is deleted, the database stays on the server"


def _ago(moment: object, now: datetime.datetime) -> str:
    return f"{ages.since(moment, now)} ago"


def size(count: int) -> str:
    """
    >>> size(1_300_000)
    '1.3 MB'
    """
    value, unit = float(count), "bytes"
    for bigger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, bigger
    return f"{count} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
