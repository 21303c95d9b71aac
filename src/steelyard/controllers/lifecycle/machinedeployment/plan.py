"""How many machines each MachineSet of a deployment should have next. Pure.

A rolling update adds up to `maxSurge` machines over the wanted number and lets available ones fall by at most
`maxUnavailable`; with the defaults of 1 and 0 each old machine goes only after a new one is available. A change of
the number alone scales the newest MachineSet and creates nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import spelling
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

ROLLING_UPDATE = "RollingUpdate"
ON_DELETE = "OnDelete"
_NOT_ROLLED_OUT = ("clusterName", "minReadySeconds", "readinessGates", "deletion")
"""Fields of the machine template that are changed in place."""


@frozen
class Group:
    """One MachineSet: how many machines it is told to have, how many it has, how many of them are available."""

    name: str
    wanted: int
    existing: int = 0
    available: int = 0
    going: int = 0
    created: str = ""


@frozen
class Strategy:
    kind: str = ROLLING_UPDATE
    max_surge: int = 1
    max_unavailable: int = 0


def strategy_of(deployment: Object) -> Strategy:
    """From `spec.rollout.strategy`, with upstream's defaults; percentages are of the wanted replicas."""
    strategy = objects.mapping(objects.at(deployment, "spec", "rollout", "strategy"))
    rolling = objects.mapping(strategy.get("rollingUpdate"))
    replicas = replicas_of(deployment)
    surge = _scaled(rolling.get("maxSurge", 1), replicas, up=True)
    unavailable = min(_scaled(rolling.get("maxUnavailable", 0), replicas, up=False), replicas)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Strategy(str(strategy.get("type") or ROLLING_UPDATE), surge, unavailable)


def replicas_of(obj: Object) -> int:
    value = objects.at(obj, "spec", "replicas")
    return 1 if value is None else int(value)


def scale(replicas: int, new: Group, old: Sequence[Group], strategy: Strategy) -> Mapping[str, int]:
    """The number of machines to tell each MachineSet next; those that keep theirs are left out."""
    targets = _on_delete(replicas, new, old) if strategy.kind == ON_DELETE else _rolling(replicas, new, old, strategy)
    current = {group.name: group.wanted for group in (new, *old)}
    return {name: count for name, count in targets.items() if current[name] != count}


def initial_replicas(replicas: int, old: Sequence[Group], strategy: Strategy) -> int:
    """With how many machines a new MachineSet starts."""
    surge = 0 if strategy.kind == ON_DELETE else strategy.max_surge
    return max(min(replicas + surge - _total(old), replicas), 0)


def is_complete(replicas: int, new: Group, old: Sequence[Group]) -> bool:
    return (
        new.wanted == new.existing == new.available == replicas
        and not any(group.wanted for group in old)
        and not any(group.existing for group in old)
    )


def differences(current: Object, desired: Object) -> list[str]:
    """What makes a machine of the current template out of date, in the words of its `UpToDate` condition."""
    have, want = objects.mapping(current.get("spec")), objects.mapping(desired.get("spec"))
    found: list[str] = []
    if have.get("version") != want.get("version"):
        found.append(f"Version {have.get('version')}, {want.get('version')} required")
    if have.get("bootstrap") != want.get("bootstrap"):
        kind = objects.at(have, "bootstrap", "configRef", "kind")
        if kind:
            found.append(f"{str(kind).removesuffix('Template')} is not up-to-date")
        else:
            before, after = (objects.at(side, "bootstrap", "dataSecretName") for side in (have, want))
            found.append(f"spec.bootstrap.dataSecretName {before}, {after} required")
    if have.get("infrastructureRef") != want.get("infrastructureRef"):
        kind = str(objects.at(have, "infrastructureRef", "kind"))
        found.append(f"{kind.removesuffix('Template')} is not up-to-date")
    if have.get("failureDomain") != want.get("failureDomain"):
        found.append(f"Failure domain {have.get('failureDomain')}, {want.get('failureDomain')} required")
    return found


def split(deployment: Object, machine_sets: Sequence[Object]) -> tuple[Object | None, list[Object]]:
    """The MachineSet of the deployment's template, and the others. Of several that match, the biggest and oldest."""
    template = objects.mapping(objects.at(deployment, "spec", "template"))
    living = [each for each in machine_sets if not objects.is_being_deleted(each)]
    matching = [
        each for each in living if not differences(objects.mapping(objects.at(each, "spec", "template")), template)
    ]
    new = min(matching, key=lambda each: (-replicas_of(each), _created(each), objects.name(each)), default=None)
    return new, [each for each in machine_sets if each is not new]


def suffix(deployment: Object, revision_number: int) -> tuple[str, str]:
    """Hash of the template, and the end of the MachineSet's name. Always the same for the same revision."""
    template = objects.mapping(objects.at(deployment, "spec", "template", "spec"))
    rolled_out = {name: value for name, value in template.items() if name not in _NOT_ROLLED_OUT}
    template_hash = spelling.fnv32a(orjson.dumps(rolled_out, option=orjson.OPT_SORT_KEYS))
    identity = f"{objects.uid(deployment)}/{template_hash}/{revision_number}"
    return str(template_hash), spelling.suffix_of(identity)


def revision(obj: Object) -> int:
    text = objects.annotations(obj).get(wellknown.REVISION_ANNOTATION, "")
    return int(text) if text.isdigit() else 0


def _rolling(replicas: int, new: Group, old: Sequence[Group], strategy: Strategy) -> dict[str, int]:
    targets = {new.name: replicas}
    if new.wanted < replicas:
        total = max(new.wanted, new.existing) + _total(old)
        room = max(replicas + strategy.max_surge - total, 0)
        targets[new.name] = new.wanted + min(room, replicas - new.wanted)
    target = targets[new.name]
    minimum = replicas - strategy.max_unavailable
    old_wanted = sum(group.wanted for group in old)
    spare = old_wanted + target - minimum - (target - min(new.available, target))
    if old_wanted == 0 or spare <= 0:
        return targets
    oldest_first = sorted(old, key=lambda group: (group.created, group.name))
    cleaned = 0
    for group in oldest_first:
        unavailable = group.wanted - min(group.available, group.wanted)
        taken = min(spare - cleaned, unavailable)
        targets[group.name] = group.wanted - taken
        cleaned += taken
    available = new.available + sum(group.available for group in old)
    surplus = available - minimum
    for group in oldest_first:
        taken = max(min(targets[group.name], surplus), 0)
        targets[group.name] -= taken
        surplus -= taken
    return targets


def _on_delete(replicas: int, new: Group, old: Sequence[Group]) -> dict[str, int]:
    targets = {group.name: max(min(group.wanted, group.existing - group.going), 0) for group in old}
    targets[new.name] = new.wanted
    excess = new.wanted + sum(targets[group.name] for group in old) - replicas
    for group in sorted(old, key=lambda group: (group.created, group.name)):
        taken = max(min(targets[group.name], excess), 0)
        targets[group.name] -= taken
        excess -= taken
    if excess > 0:
        targets[new.name] -= excess
    elif excess < 0:
        room = replicas - max(new.wanted, new.existing) - _total(old)
        targets[new.name] += max(min(-excess, room), 0)
    return targets


def _total(groups: Sequence[Group]) -> int:
    return sum(max(group.wanted, group.existing) for group in groups)


def _scaled(value: Any, replicas: int, *, up: bool) -> int:
    if isinstance(value, str) and value.endswith("%"):
        exact = int(value[:-1]) * replicas / 100
        return math.ceil(exact) if up else math.floor(exact)
    return int(value)


def _created(obj: Object) -> str:
    return str(objects.metadata(obj).get("creationTimestamp") or "")
