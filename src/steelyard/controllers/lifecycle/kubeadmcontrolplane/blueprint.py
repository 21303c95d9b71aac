"""The Machine and the KubeadmConfig that a KubeadmControlPlane makes. Pure."""

from __future__ import annotations

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import spelling
from steelyard.controllers.lifecycle.contract import Reference
from steelyard.controllers.lifecycle.kubeadmcontrolplane import comparison
from steelyard.controllers.lifecycle.machine import components
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime.drafts import Draft


def template_of(control_plane: Object) -> Reference | None:
    """The infrastructure template."""
    return Reference.of(objects.at(control_plane, "spec", "machineTemplate", "spec", "infrastructureRef"))


def machine(control_plane: Object, cluster: Object, suffix: str, failure_domain: str) -> Object:
    """Its references name objects of the machine's own name, still to be made.

    One that takes the place of an unhealthy machine remembers which, so that tries can be counted.
    """
    replaced = objects.annotations(control_plane).get(wellknown.REMEDIATION_IN_PROGRESS_ANNOTATION)
    name = _name(control_plane, cluster, suffix)
    config_spec = objects.mapping(objects.at(control_plane, "spec", "kubeadmConfigSpec"))
    spec: Object = {
        "clusterName": objects.name(cluster),
        "version": objects.at(control_plane, "spec", "version"),
        "bootstrap": {"configRef": Reference(capi.BOOTSTRAP_GROUP, capi.KUBEADM_CONFIGS.kind, name).to_json()},
        **_settings(control_plane),
    }
    template = template_of(control_plane)
    if template is not None:
        spec["infrastructureRef"] = template.instance(name).to_json()
    if failure_domain:
        spec["failureDomain"] = failure_domain
    return {
        "apiVersion": capi.MACHINES.api_version,
        "kind": capi.MACHINES.kind,
        "metadata": {
            "name": name,
            "namespace": objects.namespace(control_plane),
            "labels": labels_of(control_plane, cluster),
            "annotations": {
                **annotations_of(control_plane),
                wellknown.CLUSTER_CONFIGURATION_ANNOTATION: comparison.cluster_configuration_annotation(config_spec),
                wellknown.CONTROL_PLANE_HOOK_ANNOTATION: "",
                **({wellknown.REMEDIATION_FOR_ANNOTATION: replaced} if replaced else {}),
            },
            "ownerReferences": [objects.owner_reference(control_plane, controller=True, block_owner_deletion=True)],
            "finalizers": [wellknown.MACHINE_FINALIZER],
        },
        "spec": spec,
    }


def config(control_plane: Object, cluster: Object, name: str, *, initializes: bool) -> Object:
    """The first machine's config has no join part, the others' no init part."""
    left_out = "joinConfiguration" if initializes else "initConfiguration"
    whole = objects.mapping(objects.at(control_plane, "spec", "kubeadmConfigSpec"))
    spec = {field: value for field, value in whole.items() if field != left_out}
    made: Object = {
        "apiVersion": capi.KUBEADM_CONFIGS.api_version,
        "kind": capi.KUBEADM_CONFIGS.kind,
        "metadata": {
            "name": name,
            "namespace": objects.namespace(control_plane),
            "labels": labels_of(control_plane, cluster),
            "annotations": annotations_of(control_plane),
        },
    }
    if spec:
        made["spec"] = spec
    return made


def labels_of(control_plane: Object, cluster: Object) -> dict[str, str]:
    return {
        **objects.mapping(objects.at(control_plane, "spec", "machineTemplate", "metadata", "labels")),
        wellknown.CLUSTER_NAME_LABEL: objects.name(cluster),
        wellknown.CONTROL_PLANE_LABEL: "",
        wellknown.CONTROL_PLANE_NAME_LABEL: spelling.label_value(objects.name(control_plane)),
    }


def annotations_of(control_plane: Object) -> dict[str, str]:
    return dict(objects.mapping(objects.at(control_plane, "spec", "machineTemplate", "metadata", "annotations")))


def apply_in_place(draft: Draft, control_plane: Object, cluster: Object) -> None:
    """Labels, annotations and settings that change on existing Machines without replacing them."""
    for name, value in labels_of(control_plane, cluster).items():
        draft.set_label(name, value)
    for name, value in annotations_of(control_plane).items():
        draft.set_annotation(name, value)
    wanted = _settings(control_plane)
    for name in ("readinessGates", "deletion"):
        if name in wanted:
            draft.spec[name] = wanted[name]
        else:
            draft.spec.pop(name, None)


def manages_etcd(control_plane: Object) -> bool:
    return not objects.at(control_plane, "spec", "kubeadmConfigSpec", "clusterConfiguration", "etcd", "external")


def _settings(control_plane: Object) -> Object:
    spec = objects.mapping(objects.at(control_plane, "spec", "machineTemplate", "spec"))
    gates = components.gates(manages_etcd=manages_etcd(control_plane))
    known = {gate["conditionType"] for gate in gates}
    for gate in map(objects.mapping, objects.sequence(spec.get("readinessGates"))):
        if gate.get("conditionType") not in known:
            gates.append(gate)
    settings: Object = {"readinessGates": gates}
    if spec.get("deletion"):
        settings["deletion"] = spec["deletion"]
    return settings


def _name(control_plane: Object, cluster: Object, suffix: str) -> str:
    naming = objects.at(control_plane, "spec", "machineNaming", "template")
    if not naming:
        return spelling.with_suffix(objects.name(control_plane), suffix)
    values = {".cluster.name": objects.name(cluster), ".kubeadmControlPlane.name": objects.name(control_plane)}
    return spelling.from_template(str(naming), values, suffix)
