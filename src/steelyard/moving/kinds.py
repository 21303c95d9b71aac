"""What is special about a kind when its objects move: by what they are paused, and why some cannot move. Pure.

claims, provider-sql, External Secrets, kinds of ours   crossplane.io/paused
Cluster API and its providers                           cluster.x-k8s.io/paused, and Cluster.spec.paused
Argo CD's Applications                                  argocd.argoproj.io/skip-reconcile
Secrets, ConfigMaps, policies                           nothing acts on them by themselves
"""

from __future__ import annotations

from typing import Final

from steelyard.api import redisserver
from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import CORE_GROUP, INFRASTRUCTURE_GROUP
from steelyard.api.crossplane import SQL_GROUP
from steelyard.api.databases import BACKUPS, COPIES, LOGINS
from steelyard.api.resources import KVM_HOSTS
from steelyard.frozen import frozen
from steelyard.kube.resources import Resource

CROSSPLANE: Final = "crossplane.io/paused"
_ARGO: Final = "argocd.argoproj.io/skip-reconcile"
_EXTERNAL_SECRETS: Final = "external-secrets.io"
_OURS: Final = "steelyard.dev"

_NEVER: Final = frozenset(
    ("events", "leases", "endpoints", "endpointslices", "pods", "nodes", "controllerrevisions", "replicasets")
)
"""What belongs to one API and is made anew at another."""
_OF_THE_API: Final = frozenset(
    (
        "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io",
        "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "metrics.k8s.io", "node.k8s.io",
        "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
    )
)  # fmt: skip
_OF_CLUSTERCTL: Final = ("clusterctl.cluster.x-k8s.io", "runtime.cluster.x-k8s.io")

_STAYS: Final[dict[tuple[str, str], str]] = {
    (
        redisserver.RESOURCE.group,
        redisserver.RESOURCE.kind,
    ): "its servers are processes with files on the machine where the provider redis runs, and stay there",
    (
        BACKUPS.group,
        BACKUPS.kind,
    ): "its dumps are files on the machine where the provider postgres runs, and stay there; "
    "take spec.parameters.backup out of the claim",
    (COPIES.group, COPIES.kind): "a masked copy is made and kept by the platform that has its source",
    (LOGINS.group, LOGINS.kind): "it ends by itself, or delete it: the login is known to this platform alone",
    ("helm.crossplane.io", "Release"): "what the release installed runs in the cluster whose API this is",
    (INFRASTRUCTURE_GROUP, "KubevirtCluster"): "its machines run in the cluster whose API this is",
    (INFRASTRUCTURE_GROUP, "KubevirtMachine"): "it runs in the cluster whose API this is",
}
_STAYS_GROUPS: Final[dict[str, str]] = {
    "kubevirt.io": "it runs in the cluster whose API this is",
    "cdi.kubevirt.io": "its disk is in the cluster whose API this is",
}


@frozen
class Pause:
    """An annotation that an object's reconciler honours."""

    annotation: str
    value: str = "true"
    by_any_value: bool = False
    """Whether it counts whatever it says, as Cluster API's does."""


def may_belong(resource: Resource) -> bool:
    """Whether objects of the kind are looked at, at all: whatever is owned by something that moves, moves with it."""
    return resource.plural not in _NEVER and resource.group not in (*_OF_CLUSTERCTL, *_OF_THE_API)


def is_of_cluster_api(resource: Resource) -> bool:
    """Also of a provider of it."""
    group = resource.group
    return (group == CORE_GROUP or group.endswith(f".{CORE_GROUP}")) and group not in _OF_CLUSTERCTL


def pause(resource: Resource) -> Pause | None:
    """None for what does nothing by itself."""
    group = resource.group
    if is_of_cluster_api(resource):
        return Pause(wellknown.PAUSED_ANNOTATION, by_any_value=True)
    if group == "argoproj.io":
        return Pause(_ARGO)
    is_managed = group.endswith(".crossplane.io") or group == _EXTERNAL_SECRETS or _is_ours(group)
    return Pause(CROSSPLANE) if is_managed else None


def _is_ours(group: str) -> bool:
    return group == _OURS or group.endswith(f".{_OURS}")


def names_secrets_anywhere(resource: Resource) -> bool:
    """Of kinds in no namespace, those whose references to Secrets are known: provider-sql's, KVM hosts, ours."""
    is_known = resource == KVM_HOSTS or resource.group == SQL_GROUP or _is_ours(resource.group)
    return is_known and not resource.namespaced


def why_it_stays(resource: Resource) -> str:
    """Empty for what can move."""
    return _STAYS.get((resource.group, resource.kind)) or _STAYS_GROUPS.get(resource.group, "")
