"""Whether a control-plane machine is what its KubeadmControlPlane now asks for. Pure.

Compared are the version, the cluster configuration it was made with (kept in an annotation of the Machine), its
KubeadmConfig, and the template that its infrastructure was cloned from. What is unknown about a machine does not
count against it: a machine is replaced only for a difference that can be seen.
"""

from __future__ import annotations

import datetime
from typing import Any, cast

import orjson

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle.contract import Reference
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks

_MARSHAL_VERSION = "v1beta2"


def differences(
    control_plane: Object,
    machine: Object,
    config: Object | None,
    infrastructure: Object | None,
    now: datetime.datetime,
) -> list[str]:
    """What is out of date about the machine, in the words of its `UpToDate` condition; empty when nothing is."""
    found: list[str] = []
    wanted = objects.mapping(control_plane.get("spec"))
    if _is_due(wanted, machine, now):
        found.append("KubeadmControlPlane spec.rolloutAfter expired")
    version, wanted_version = objects.at(machine, "spec", "version"), wanted.get("version")
    if version != wanted_version:
        found.append(f"Version {version}, {wanted_version} required")
    config_spec = objects.mapping(wanted.get("kubeadmConfigSpec"))
    if not _cluster_configuration_matches(config_spec, machine) or not _config_matches(config_spec, config):
        found.append("KubeadmConfig is not up-to-date")
    template = Reference.of(objects.at(wanted, "machineTemplate", "spec", "infrastructureRef"))
    if template is not None and infrastructure is not None and not _was_cloned_from(infrastructure, template):
        found.append(f"{infrastructure.get('kind')} is not up-to-date")
    return found


def cluster_configuration_annotation(config_spec: Object) -> str:
    """What the Machine remembers of the cluster configuration it was made with, in upstream's format."""
    configuration = objects.mapping(config_spec.get("clusterConfiguration"))
    return orjson.dumps({"marshalVersion": _MARSHAL_VERSION, **configuration}).decode()


def _is_due(spec: Object, machine: Object, now: datetime.datetime) -> bool:
    after = objects.at(spec, "rollout", "after")
    created = objects.metadata(machine).get("creationTimestamp")
    if not after or not created:
        return False
    moment = clocks.parse_rfc3339(str(after))
    return moment < now and clocks.parse_rfc3339(str(created)) < moment


def _cluster_configuration_matches(config_spec: Object, machine: Object) -> bool:
    text = objects.annotations(machine).get(wellknown.CLUSTER_CONFIGURATION_ANNOTATION)
    if not text:
        return True
    made_with = objects.mapping(orjson.loads(text))
    if made_with.get("marshalVersion") != _MARSHAL_VERSION:
        return True
    wanted = objects.mapping(config_spec.get("clusterConfiguration"))
    return _meaning(made_with, "marshalVersion", "dns") == _meaning(wanted, "dns")


def _config_matches(config_spec: Object, config: Object | None) -> bool:
    if config is None:
        return True
    have = dict(objects.mapping(config.get("spec")))
    wanted = dict(config_spec)
    for side in (have, wanted):
        side.pop("clusterConfiguration", None)
    if have.get("joinConfiguration"):
        wanted.pop("initConfiguration", None)
        have.pop("initConfiguration", None)
        have["joinConfiguration"], wanted["joinConfiguration"] = _comparable_joins(
            objects.mapping(have["joinConfiguration"]), objects.mapping(wanted.get("joinConfiguration"))
        )
    else:
        wanted.pop("joinConfiguration", None)
    if wanted.get("format") == "cloud-config":
        wanted.pop("format")
    if have.get("format") == "cloud-config":
        have.pop("format")
    return _meaning(have) == _meaning(wanted)


def _comparable_joins(have: Object, wanted: Object) -> tuple[Object, Object]:
    """Without what is filled in for each machine on its own."""
    filled_in = {"discovery", *(name for name in ("controlPlane", "nodeRegistration") if not wanted.get(name))}
    return (
        {name: value for name, value in have.items() if name not in filled_in},
        {name: value for name, value in wanted.items() if name not in filled_in},
    )


def _was_cloned_from(infrastructure: Object, template: Reference) -> bool:
    annotations = objects.annotations(infrastructure)
    name = annotations.get(wellknown.CLONED_FROM_NAME_ANNOTATION)
    kind = annotations.get(wellknown.CLONED_FROM_KIND_ANNOTATION)
    return name is None or kind is None or (name, kind) == (template.name, template.group_kind)


def _meaning(value: Object, *ignored: str) -> Object:
    return cast(Object, _without_empty({name: inner for name, inner in value.items() if name not in ignored}))


def _without_empty(value: Any) -> Any:
    """An absent field, an empty list and an empty object mean the same."""
    if isinstance(value, dict):
        inner = {name: _without_empty(each) for name, each in cast(Object, value).items()}
        return {name: each for name, each in inner.items() if each not in (None, {}, [], "")}
    if isinstance(value, list):
        return [_without_empty(each) for each in cast("list[Any]", value)]
    return value
