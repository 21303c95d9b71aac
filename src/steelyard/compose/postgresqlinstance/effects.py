"""What becomes of a database when its claim is composed otherwise than before: what is lost, and who is cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.compose.effects import Disruption, Effect, Parts, Required
from steelyard.compose.postgresqlinstance.making import BACKUP, DATABASE
from steelyard.kube import objects
from steelyard.kube.objects import Object

_LOGIN = "login"


def of(before: Parts, after: Parts, _required: Required) -> Sequence[Effect]:
    return (*_databases(before, after), *_logins(before, after), *_backups(before, after))


def _databases(before: Parts, after: Parts) -> Iterator[Effect]:
    """Each by its resource name: one for a database that is no copy, and one for each copy."""
    for name, old in before.items():
        if not _is(name, DATABASE):
            continue
        new, subject = after.get(name), f"database {_called(old)}"
        if new is None:
            yield Effect(Disruption.DATA_LOSS, subject, _dropped(old, after), name)
        elif _called(new) != _called(old):
            reason = f"it is dropped, and {_called(new)} is made, which is empty"
            yield Effect(Disruption.DATA_LOSS, subject, reason, name)
        elif _limit(old) and not _limit(new):
            yield Effect(Disruption.RECREATE, subject, "nobody can connect to it any more", name)


def _dropped(old: Object, after: Parts) -> str:
    others = [_called(each) for name, each in after.items() if _is(name, DATABASE)]
    if objects.at(old, "spec", "deletionPolicy") == "Orphan":
        return "it stays on the server, and nobody looks after it"
    if others:
        return f"it is dropped, with everything in it; {others[0]} has taken its place"
    return "it is dropped, with everything in it"


def _logins(before: Parts, after: Parts) -> Iterator[Effect]:
    for name, old in before.items():
        if _is(name, _LOGIN) and name not in after:
            yield Effect(
                Disruption.NONE, f"login {_called(old)}", "it is dropped; whoever still uses it is cut off", name
            )


def _backups(before: Parts, after: Parts) -> Iterator[Effect]:
    old = before.get(BACKUP)
    if old is not None and BACKUP not in after:
        database = str(objects.at(old, "spec", "database"))
        yield Effect(Disruption.DATA_LOSS, f"backups of {database}", "they are deleted, and no more are made", BACKUP)


def _is(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}-")


def _limit(database: Object) -> int:
    limit = objects.at(database, "spec", "forProvider", "connectionLimit")
    return limit if isinstance(limit, int) else -1


def _called(obj: Object) -> str:
    """On the server."""
    return objects.annotations(obj).get(EXTERNAL_NAME) or objects.name(obj)
