"""What becomes of a cache when its claim is composed otherwise than before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.compose.effects import Disruption, Effect, Parts, Required
from steelyard.compose.redisinstance.release import RELEASE
from steelyard.compose.redisinstance.server import SERVER
from steelyard.kube import objects
from steelyard.kube.objects import Object

_RESTARTS: Final = ("auth", "commonConfiguration", "master")
"""Values of the chart that its servers are made anew for."""
_WORDS: Final = {RELEASE: ("uninstalled", "installed"), SERVER: ("removed", "made")}


def of(before: Parts, after: Parts, _required: Required) -> Sequence[Effect]:
    found = [_of_one(part, before.get(part), after.get(part), after) for part in (RELEASE, SERVER)]
    return [each for each in found if each is not None]


def _of_one(part: str, old: Object | None, new: Object | None, after: Parts) -> Effect | None:
    if old is None:
        return None
    subject = f"cache {_called(old)}"
    goes, comes = _WORDS[part]
    other = after.get(SERVER if part == RELEASE else RELEASE)
    if new is None and other is None:
        return Effect(Disruption.DATA_LOSS, subject, f"it is {goes}, with everything in it", part)
    if new is None:
        return Effect(Disruption.DATA_LOSS, subject, f"it is {goes}, and another one is made, which is empty", part)
    if objects.name(new) != objects.name(old):
        reason = f"it is {goes}, and {_called(new)} is {comes}, which is empty"
        return Effect(Disruption.DATA_LOSS, subject, reason, part)
    if part == RELEASE and _servers(old) != _servers(new):
        return Effect(Disruption.ROLLING, subject, "its servers are restarted one by one", part)
    return None


def _called(made: Object) -> str:
    return objects.annotations(made).get(EXTERNAL_NAME) or objects.name(made)


def _servers(release: Object) -> list[object]:
    chosen = objects.mapping(objects.at(release, "spec", "forProvider"))
    values = objects.mapping(chosen.get("values"))
    return [chosen.get("chart"), *(values.get(key) for key in _RESTARTS)]
