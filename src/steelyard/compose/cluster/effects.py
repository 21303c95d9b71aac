"""What becomes of a cluster's machines when it is composed otherwise than before.

A control plane or a pool replaces its machines when what they are made from is another: the template that it names, the
version, or how they join. How many there are only adds or removes some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from steelyard.api.clusterapi import resources, wellknown
from steelyard.compose import clusterapi, names
from steelyard.compose.effects import Disruption, Effect, Parts, Required, counted
from steelyard.kube import objects
from steelyard.kube.objects import Object

MACHINES: Final = "machines"
"""The name under which a cluster's Machines are required."""
_CONTROL_PLANE: Final = resources.KUBEADM_CONTROL_PLANES.kind
_POOL: Final = resources.MACHINE_DEPLOYMENTS.kind
_CHANGED_IN_PLACE: Final = frozenset({"clusterName", "minReadySeconds", "readinessGates", "deletion"})
"""Fields of a pool's machines that those which are there follow."""
_SHOWN: Final = 3
_LONGEST: Final = 40


def of(before: Parts, after: Parts, required: Required) -> Sequence[Effect]:
    return list(_effects(before, after, required.get(MACHINES)))


def _effects(before: Parts, after: Parts, machines: Sequence[Object] | None) -> Iterator[Effect]:
    gone = clusterapi.CLUSTER in before and clusterapi.CLUSTER not in after
    if gone:
        name = objects.name(before[clusterapi.CLUSTER])
        reason = "its machines are deleted, with all that is on them"
        yield Effect(Disruption.DATA_LOSS, f"cluster {name}", reason, clusterapi.CLUSTER)
        return
    for part, old in before.items():
        if old.get("kind") in (_CONTROL_PLANE, _POOL):
            yield from _of_maker(part, old, after.get(part), before, after, machines)


def _of_maker(
    part: str, old: Object, new: Object | None, before: Parts, after: Parts, machines: Sequence[Object] | None
) -> Iterator[Effect]:
    subject = "control plane" if old.get("kind") == _CONTROL_PLANE else f"pool {_pool_name(old)}"
    there = _machines_of(old, machines)
    had = _replicas(old) if machines is None else len(there)
    wanted = _wanted(old, new)
    if new is not None and _made_from(old) != _made_from(new):
        replaced = min(had, wanted)
        if replaced:
            reason = _reason(old, new, before, after)
            named = tuple(there) if replaced == len(there) else ()
            yield Effect(Disruption.ROLLING, subject, reason, part, replaced, _surge(new), named)
    fewer = _replicas(old) - wanted
    if fewer > 0:
        named = () if wanted else tuple(there)
        yield Effect(Disruption.NONE, subject, f"removes {counted(fewer)}", part, fewer, machines=named)


def _pool_name(deployment: Object) -> str:
    cluster = str(objects.at(deployment, "spec", "clusterName") or "")
    return names.pool_of(cluster, objects.name(deployment))


def _machines_of(maker: Object, machines: Sequence[Object] | None) -> list[str]:
    def is_its(labels: Mapping[str, str]) -> bool:
        if maker.get("kind") == _CONTROL_PLANE:
            return wellknown.CONTROL_PLANE_LABEL in labels
        return labels.get(wellknown.MACHINE_DEPLOYMENT_LABEL) == objects.name(maker)

    return [
        objects.name(each)
        for each in machines or ()
        if is_its(objects.labels(each)) and not objects.is_being_deleted(each)
    ]


def _wanted(old: Object, new: Object | None) -> int:
    """Where an autoscaler decides, the number is left as it is."""
    if new is None:
        return 0
    return _replicas(old if objects.at(new, "spec", "replicas") is None else new)


def _replicas(maker: Object) -> int:
    return int(objects.at(maker, "spec", "replicas") or 0)


def _made_from(maker: Object) -> Mapping[str, Any]:
    """What, if it differs, replaces the machines."""
    spec = objects.mapping(maker.get("spec"))
    if maker.get("kind") == _CONTROL_PLANE:
        template = objects.at(spec, "machineTemplate", "spec", "infrastructureRef")
        return {"version": spec.get("version"), "config": spec.get("kubeadmConfigSpec"), "template": template}
    made = objects.mapping(objects.at(spec, "template", "spec"))
    return {key: value for key, value in made.items() if key not in _CHANGED_IN_PLACE}


def _surge(maker: Object) -> int:
    surge = objects.at(maker, "spec", "rollout", "strategy", "rollingUpdate", "maxSurge")
    if isinstance(surge, str) and surge.endswith("%"):
        return -(-int(surge[:-1]) * _replicas(maker) // 100)
    return 1 if surge is None else int(surge)


def _reason(old: Object, new: Object, before: Parts, after: Parts) -> str:
    """`memoryGi 32 -> 64`, from the templates that the two name. Of what machines are told at their start only that it
    changes: it may hold what is not for everybody's eyes."""
    found: list[str] = []
    if old.get("kind") == _CONTROL_PLANE:
        one, other = _made_from(old), _made_from(new)
        version = one["version"], other["version"]
        templates = one["template"], other["template"]
        joins = one["config"], other["config"]
    else:
        one, other = _made_from(old), _made_from(new)
        version = one.get("version"), other.get("version")
        templates = one.get("infrastructureRef"), other.get("infrastructureRef")
        joins = one.get("bootstrap"), other.get("bootstrap")
    if version[0] != version[1]:
        found.append(f"version {version[0]} -> {version[1]}")
    if templates[0] != templates[1]:
        found += _template_reason(_referred(templates[0], before), _referred(templates[1], after))
    if joins[0] != joins[1]:
        found.append("how machines join changes")
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more if found else "what its machines are made from changes"


def _referred(reference: object, parts: Parts) -> Object | None:
    named = objects.mapping(reference)
    return next(
        (
            each
            for each in parts.values()
            if each.get("kind") == named.get("kind") and objects.name(each) == named.get("name")
        ),
        None,
    )


def _template_reason(old: Object | None, new: Object | None) -> list[str]:
    if old is None or new is None:
        return ["another machine template"]
    one, other = (dict(_leaves(each.get("spec"), "")) for each in (old, new))
    changed = [path for path in {**one, **other} if one.get(path) != other.get(path)]
    return [_told(path, one.get(path), other.get(path)) for path in changed] or ["another machine template"]


def _told(path: str, old: object, new: object) -> str:
    name = path.rpartition(".")[2]
    if all(each is None or (isinstance(each, int | str) and len(str(each)) <= _LONGEST) for each in (old, new)):
        return f"{name} {_word(old)} -> {_word(new)}"
    return f"{name} changes"


def _word(value: object) -> str:
    return "unset" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in cast(Object, value).items():
            yield from _leaves(each, f"{path}.{key}")
    elif isinstance(value, list):
        for number, each in enumerate(cast("list[Any]", value)):
            yield from _leaves(each, f"{path}[{number}]")
    else:
        yield path, value
