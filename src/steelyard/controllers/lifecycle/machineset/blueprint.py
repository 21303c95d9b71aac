"""The Machine that a MachineSet makes, and what of its template reaches Machines that exist already. Pure."""

from __future__ import annotations

from typing import cast

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import spelling
from steelyard.controllers.lifecycle.contract import Reference
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime.drafts import Draft

_IN_PLACE = ("readinessGates", "minReadySeconds", "deletion")


def machine(machine_set: Object, suffix: str) -> Object:
    """Its bootstrap and infrastructure references name objects of the machine's own name, still to be made."""
    name = _name(machine_set, suffix)
    spec = dict(objects.mapping(objects.at(machine_set, "spec", "template", "spec")))
    spec["clusterName"] = objects.at(machine_set, "spec", "clusterName")
    infrastructure, bootstrap = templates(machine_set)
    if infrastructure is not None:
        spec["infrastructureRef"] = infrastructure.instance(name).to_json()
    if bootstrap is not None:
        spec["bootstrap"] = {"configRef": bootstrap.instance(name).to_json()}
    return {
        "apiVersion": capi.MACHINES.api_version,
        "kind": capi.MACHINES.kind,
        "metadata": {
            "name": name,
            "namespace": objects.namespace(machine_set),
            "labels": labels(machine_set),
            "annotations": annotations_of(machine_set),
            "ownerReferences": [objects.owner_reference(machine_set, controller=True, block_owner_deletion=True)],
            "finalizers": [wellknown.MACHINE_FINALIZER],
        },
        "spec": spec,
    }


def templates(machine_set: Object) -> tuple[Reference | None, Reference | None]:
    """References to the infrastructure and the bootstrap template."""
    spec = objects.mapping(objects.at(machine_set, "spec", "template", "spec"))
    return (
        Reference.of(spec.get("infrastructureRef")),
        Reference.of(objects.at(spec, "bootstrap", "configRef")),
    )


def labels(machine_set: Object) -> dict[str, str]:
    found = dict(objects.mapping(objects.at(machine_set, "spec", "template", "metadata", "labels")))
    found[wellknown.CLUSTER_NAME_LABEL] = str(objects.at(machine_set, "spec", "clusterName"))
    found[wellknown.MACHINE_SET_LABEL] = spelling.label_value(objects.name(machine_set))
    deployment = objects.labels(machine_set).get(wellknown.MACHINE_DEPLOYMENT_LABEL)
    if deployment is not None:
        found[wellknown.MACHINE_DEPLOYMENT_LABEL] = deployment
    return found


def annotations_of(machine_set: Object) -> dict[str, str]:
    return dict(objects.mapping(objects.at(machine_set, "spec", "template", "metadata", "annotations")))


def apply_in_place(draft: Draft, machine_set: Object) -> None:
    """Labels, annotations and settings that change on existing Machines without replacing them."""
    for name, value in labels(machine_set).items():
        draft.set_label(name, value)
    for name, value in annotations_of(machine_set).items():
        draft.set_annotation(name, value)
    template = objects.mapping(objects.at(machine_set, "spec", "template", "spec"))
    for name in _IN_PLACE:
        if name in template:
            draft.spec[name] = template[name]
        else:
            draft.spec.pop(name, None)


def _name(machine_set: Object, suffix: str) -> str:
    naming = objects.at(machine_set, "spec", "machineNaming", "template")
    if not naming:
        return spelling.with_suffix(objects.name(machine_set), suffix)
    values = {
        ".cluster.name": str(objects.at(machine_set, "spec", "clusterName")),
        ".machineSet.name": objects.name(machine_set),
    }
    return spelling.from_template(cast(str, naming), values, suffix)
