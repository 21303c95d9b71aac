"""Backstage: each cluster is a Resource of its catalogue.

Backstage reads entities from files. Here a file is a ConfigMap with the entity as `catalog-info.yaml`, in a namespace
of the platform's; a volume of Backstage's own, or whatever brings ConfigMaps there, makes it one.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.compose.integrations import argocd
from steelyard.compose.integrations.subject import NOTHING, Integrated, Subject
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS

ENTITY: Final = "backstage-entity"
"""Resource name of the ConfigMap."""
FILE: Final = "catalog-info.yaml"

_COMPONENTS: Final = {"kubevirt": "component:kubevirt"}
"""What clusters of an infrastructure depend on, besides Cluster API."""
_DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def of(subject: Subject) -> Integrated:
    settings = subject.platform.integrations.backstage
    if not settings.enabled:
        return NOTHING
    obj: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"cluster-{subject.name}",
            "namespace": settings.namespace,
            "labels": argocd.labels(subject.shape),
        },
        "data": {FILE: yaml.dump(entity(subject), Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=1000)},
    }
    return Integrated({ENTITY: Desired(CONFIG_MAPS, obj, deletion_stage=FIRST_STAGE)})


def entity(subject: Subject) -> Object:
    settings, shape = subject.platform.integrations.backstage, subject.shape
    annotations = {"clusterapi.io/cluster-name": shape.name, "clusterapi.io/namespace": shape.namespace}
    if subject.endpoint:
        annotations["kubernetes.io/api-server"] = subject.endpoint
    components = ["component:clusterapi", _COMPONENTS.get(subject.infrastructure.name, "")]
    claim = objects.qualified_name(subject.claim)
    spec: Object = {
        "type": "kubernetes-cluster",
        "owner": settings.owner,
        "lifecycle": settings.lifecycle,
        "environment": shape.environment,
        "dependsOn": [each for each in components if each],
    }
    if settings.system:
        spec["system"] = settings.system
    return {
        "apiVersion": "backstage.io/v1alpha1",
        "kind": "Resource",
        "metadata": {
            "name": subject.name,
            "title": objects.name(subject.claim),
            "description": f"Kubernetes cluster of environment {shape.environment}, claimed by {claim}",
            "labels": argocd.labels(shape),
            "annotations": annotations,
        },
        "spec": spec,
    }
