"""The strategy of each built-in kind."""

from __future__ import annotations

from typing import Final

from steelyard.kube.resources import Resource
from steelyard.kube.server.strategies import (
    certificates,
    cluster,
    core,
    endpoints,
    events,
    jobs,
    networking,
    policies,
    quotas,
    rbac,
    services,
    webhooks,
    workloads,
)
from steelyard.kube.server.strategies.base import Strategy, Tracked

_PLAIN: Final = Strategy()
_TRACKED: Final = Tracked()
_RBAC: Final = rbac.GROUP
_ADMISSION: Final = "admissionregistration.k8s.io"

_STRATEGIES: Final[dict[tuple[str, str], Strategy]] = {
    ("", "namespaces"): core.NamespaceStrategy(),
    ("", "secrets"): core.SecretStrategy(),
    ("", "configmaps"): core.ConfigMapStrategy(),
    ("", "services"): services.ServiceStrategy(),
    ("", "serviceaccounts"): core.ServiceAccountStrategy(),
    ("", "nodes"): core.NodeStrategy(),
    ("", "pods"): core.PodStrategy(),
    ("", "events"): events.EventStrategy(is_new=False),
    ("events.k8s.io", "events"): events.EventStrategy(is_new=True),
    ("", "persistentvolumes"): core.PendingStrategy(),
    ("", "persistentvolumeclaims"): core.PendingStrategy(),
    ("", "replicationcontrollers"): _TRACKED,
    ("coordination.k8s.io", "leases"): core.LeaseStrategy(),
    (_RBAC, "roles"): rbac.RoleStrategy(namespaced=True),
    (_RBAC, "clusterroles"): rbac.RoleStrategy(namespaced=False),
    (_RBAC, "rolebindings"): rbac.BindingStrategy(namespaced=True),
    (_RBAC, "clusterrolebindings"): rbac.BindingStrategy(namespaced=False),
    ("apps", "deployments"): workloads.DeploymentStrategy(),
    ("apps", "replicasets"): workloads.ReplicaSetStrategy(),
    ("apps", "daemonsets"): workloads.DaemonSetStrategy(),
    ("apps", "statefulsets"): workloads.StatefulSetStrategy(),
    ("batch", "jobs"): jobs.JobStrategy(),
    ("batch", "cronjobs"): jobs.CronJobStrategy(),
    ("apiextensions.k8s.io", "customresourcedefinitions"): cluster.DefinitionStrategy(),
    ("scheduling.k8s.io", "priorityclasses"): cluster.PriorityClassStrategy(),
    ("storage.k8s.io", "storageclasses"): cluster.StorageClassStrategy(),
    ("networking.k8s.io", "networkpolicies"): networking.NetworkPolicyStrategy(),
    ("networking.k8s.io", "ingresses"): networking.IngressStrategy(),
    ("networking.k8s.io", "ingressclasses"): _TRACKED,
    ("policy", "poddisruptionbudgets"): networking.BudgetStrategy(),
    ("discovery.k8s.io", "endpointslices"): endpoints.EndpointSliceStrategy(),
    ("", "endpoints"): endpoints.EndpointsStrategy(),
    ("", "resourcequotas"): quotas.ResourceQuotaStrategy(),
    ("", "limitranges"): quotas.LimitRangeStrategy(),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): _TRACKED,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): _TRACKED,
    (certificates.GROUP, "certificatesigningrequests"): certificates.SigningRequestStrategy(),
    (_ADMISSION, "validatingwebhookconfigurations"): webhooks.WebhookStrategy(mutating=False),
    (_ADMISSION, "mutatingwebhookconfigurations"): webhooks.WebhookStrategy(mutating=True),
    (_ADMISSION, "validatingadmissionpolicies"): policies.PolicyStrategy(),
    (_ADMISSION, "validatingadmissionpolicybindings"): policies.BindingStrategy(),
}


def of(resource: Resource) -> Strategy:
    return _STRATEGIES.get((resource.group, resource.plural), _PLAIN)
