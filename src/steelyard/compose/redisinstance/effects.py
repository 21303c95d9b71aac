"""What becomes of a cache when its claim is composed otherwise than before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.compose.effects import Disruption, Effect, Parts, Required
from steelyard.compose.redisinstance.release import RELEASE
from steelyard.kube import objects
from steelyard.kube.objects import Object

_RESTARTS: Final = ("auth", "commonConfiguration", "master")
"""Values of the chart that its servers are made anew for."""


def of(before: Parts, after: Parts, _required: Required) -> Sequence[Effect]:
    old, new = before.get(RELEASE), after.get(RELEASE)
    if old is None:
        return ()
    subject = f"cache {_called(old)}"
    if new is None:
        return (Effect(Disruption.DATA_LOSS, subject, "it is uninstalled, with everything in it", RELEASE),)
    if objects.name(new) != objects.name(old):
        reason = f"it is uninstalled, and {_called(new)} is installed, which is empty"
        return (Effect(Disruption.DATA_LOSS, subject, reason, RELEASE),)
    if _servers(old) != _servers(new):
        return (Effect(Disruption.ROLLING, subject, "its servers are restarted one by one", RELEASE),)
    return ()


def _called(release: Object) -> str:
    return objects.annotations(release).get(EXTERNAL_NAME) or objects.name(release)


def _servers(release: Object) -> list[object]:
    chosen = objects.mapping(objects.at(release, "spec", "forProvider"))
    values = objects.mapping(chosen.get("values"))
    return [chosen.get("chart"), *(values.get(key) for key in _RESTARTS)]
