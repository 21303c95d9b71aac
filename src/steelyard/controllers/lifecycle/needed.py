"""What the controllers of Cluster API's kinds must be allowed to do on the management cluster.

Kinds of infrastructure are known only at run time; whoever grants the rights says which there are. What a
MachineHealthCheck asks for with a template of somebody else's (`spec.remediation.templateRef`) is not among them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle.contract import TEMPLATE_SUFFIX, plural_of
from steelyard.kube import permits
from steelyard.kube.permits import Permit
from steelyard.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, SECRETS, Resource

_REPORTED = (
    capi.CLUSTERS,
    capi.MACHINES,
    capi.MACHINE_SETS,
    capi.MACHINE_DEPLOYMENTS,
    capi.MACHINE_HEALTH_CHECKS,
    capi.CLUSTER_RESOURCE_SETS,
    capi.CLUSTER_RESOURCE_SET_BINDINGS,
    capi.KUBEADM_CONFIGS,
    capi.KUBEADM_CONTROL_PLANES,
)
_CREATED = (capi.MACHINES, capi.MACHINE_SETS, capi.KUBEADM_CONFIGS, capi.CLUSTER_RESOURCE_SET_BINDINGS)
_DELETED = (*_CREATED, capi.MACHINE_DEPLOYMENTS, capi.KUBEADM_CONTROL_PLANES)


def needed(infrastructures: Iterable[tuple[Resource, Resource]]) -> list[Permit]:
    """`infrastructures`: of each, the kind that stands for a cluster and the kind of its machines' templates."""
    clusters, templates = zip(*infrastructures, strict=True)
    machines = [instance_of(each) for each in templates]
    own = [*clusters, *templates, *machines]
    return [
        *permits.reports(*_REPORTED),
        *permits.only(("create",), *_CREATED),
        *permits.only(("delete",), *_DELETED),
        *permits.reads(capi.KUBEADM_CONFIG_TEMPLATES, *own),
        *permits.only(("patch",), capi.KUBEADM_CONFIG_TEMPLATES, *own),
        *permits.only(("create",), *machines),
        *permits.only(("delete",), *clusters, *machines),
        *permits.only(("get", "list", "watch", "create", "patch"), SECRETS),
        *permits.only(("get", "list", "watch", "create", "patch", "delete"), CONFIG_MAPS),
        *(
            permit
            for each in own
            for permit in permits.only(("get",), CUSTOM_RESOURCE_DEFINITIONS, name=each.group_resource)
        ),
    ]


def instance_of(template: Resource) -> Resource:
    """What is made of such templates: KVMMachine of KVMMachineTemplate."""
    kind = template.kind.removesuffix(TEMPLATE_SUFFIX)
    return dataclasses.replace(template, kind=kind, plural=plural_of(kind))
