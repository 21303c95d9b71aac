"""The MachineSet that a MachineDeployment makes for a revision, and what of the deployment reaches it later. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import spelling
from steelyard.controllers.lifecycle.machinedeployment import plan
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime.drafts import Draft

_NOT_COPIED = (
    "kubectl.kubernetes.io/last-applied-configuration",
    wellknown.REVISION_ANNOTATION,
    wellknown.DESIRED_REPLICAS_ANNOTATION,
    wellknown.MAX_REPLICAS_ANNOTATION,
    "machinedeployment.clusters.x-k8s.io/revision-history",
)
_IN_PLACE = ("readinessGates", "minReadySeconds", "deletion")


def machine_set(deployment: Object, old: Sequence[Object], replicas: int) -> Object:
    """Named by the revision's hash, so that making it twice makes one."""
    number = max((plan.revision(each) for each in old), default=0) + 1
    template_hash, suffix = plan.suffix(deployment, number)
    identity = f"{template_hash}-{suffix}"
    spec = objects.mapping(deployment.get("spec"))
    template = objects.mapping(spec.get("template"))
    made: Object = {
        "apiVersion": capi.MACHINE_SETS.api_version,
        "kind": capi.MACHINE_SETS.kind,
        "metadata": {
            "name": spelling.with_suffix(objects.name(deployment), suffix),
            "namespace": objects.namespace(deployment),
            "labels": {**_labels(deployment, identity), wellknown.MACHINE_DEPLOYMENT_LABEL: objects.name(deployment)},
            "annotations": annotations_of(deployment, number),
            "ownerReferences": [objects.owner_reference(deployment, controller=True, block_owner_deletion=True)],
            "finalizers": [wellknown.MACHINE_SET_FINALIZER],
        },
        "spec": {
            "clusterName": spec.get("clusterName"),
            "replicas": replicas,
            "selector": {
                "matchLabels": {
                    **objects.mapping(objects.at(spec, "selector", "matchLabels")),
                    wellknown.TEMPLATE_HASH_LABEL: identity,
                }
            },
            "template": {
                "metadata": {
                    "labels": _labels(deployment, identity),
                    "annotations": dict(objects.mapping(objects.at(template, "metadata", "annotations"))),
                },
                "spec": template.get("spec"),
            },
        },
    }
    for name in ("deletion", "machineNaming"):
        if spec.get(name):
            made["spec"][name] = spec[name]
    expressions = objects.at(spec, "selector", "matchExpressions")
    if expressions:
        made["spec"]["selector"]["matchExpressions"] = expressions
    return made


def annotations_of(deployment: Object, number: int) -> dict[str, str]:
    replicas = plan.replicas_of(deployment)
    strategy = plan.strategy_of(deployment)
    surge = strategy.max_surge if strategy.kind == plan.ROLLING_UPDATE else 0
    return {
        **{name: value for name, value in objects.annotations(deployment).items() if name not in _NOT_COPIED},
        wellknown.REVISION_ANNOTATION: str(number),
        wellknown.DESIRED_REPLICAS_ANNOTATION: str(replicas),
        wellknown.MAX_REPLICAS_ANNOTATION: str(replicas + surge),
    }


def apply_in_place(draft: Draft, deployment: Object, old: Sequence[Object]) -> None:
    """What changes on the current MachineSet without making a new one; its revision becomes the newest."""
    newest_other = max((plan.revision(each) for each in old), default=0)
    number = max(plan.revision(draft.object), newest_other + 1)
    for name, value in annotations_of(deployment, number).items():
        draft.set_annotation(name, value)
    identity = objects.labels(draft.object).get(wellknown.TEMPLATE_HASH_LABEL, "")
    template = cast(Object, draft.spec.setdefault("template", {}))
    metadata = cast(Object, template.setdefault("metadata", {}))
    labels = _labels(deployment, identity)
    if objects.mapping(metadata.get("labels")) != labels:
        metadata["labels"] = labels
    wanted = dict(objects.mapping(objects.at(deployment, "spec", "template", "metadata", "annotations")))
    if objects.mapping(metadata.get("annotations")) != wanted:
        metadata["annotations"] = wanted
    spec = cast(Object, template.setdefault("spec", {}))
    desired = objects.mapping(objects.at(deployment, "spec", "template", "spec"))
    for target, source, fields in (
        (spec, desired, _IN_PLACE),
        (draft.spec, objects.mapping(deployment.get("spec")), ("deletion", "machineNaming")),
    ):
        for name in fields:
            if source.get(name):
                target[name] = source[name]
            else:
                target.pop(name, None)


def _labels(deployment: Object, identity: str) -> dict[str, str]:
    found = dict(objects.mapping(objects.at(deployment, "spec", "template", "metadata", "labels")))
    found.update(objects.mapping(objects.at(deployment, "spec", "selector", "matchLabels")))
    found[wellknown.CLUSTER_NAME_LABEL] = str(objects.at(deployment, "spec", "clusterName"))
    found[wellknown.MACHINE_DEPLOYMENT_LABEL] = objects.name(deployment)
    found[wellknown.TEMPLATE_HASH_LABEL] = identity
    return found
