"""What becomes of a database when its claim is composed otherwise than before."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.compose.effects import Disruption, Effect, Parts, Required
from steelyard.compose.postgresqlinstance.parts import DATABASE
from steelyard.kube import objects
from steelyard.kube.objects import Object


def of(before: Parts, after: Parts, _required: Required) -> Sequence[Effect]:
    old, new = before.get(DATABASE), after.get(DATABASE)
    if old is None:
        return ()
    subject = f"database {_called(old)}"
    if new is None:
        return (Effect(Disruption.DATA_LOSS, subject, "it is dropped, with everything in it", DATABASE),)
    if _called(new) != _called(old):
        reason = f"it is dropped, and {_called(new)} is made, which is empty"
        return (Effect(Disruption.DATA_LOSS, subject, reason, DATABASE),)
    return ()


def _called(database: Object) -> str:
    """On the server."""
    return objects.annotations(database).get(EXTERNAL_NAME) or objects.name(database)
