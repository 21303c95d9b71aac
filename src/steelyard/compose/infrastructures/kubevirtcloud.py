"""KubeVirt's cloud controller manager, one beside each cluster, in the cluster's namespace on the management cluster.

It sees Services of type LoadBalancer inside the cluster and makes one for each outside, where they get an address; and
it tells the cluster's Nodes which machines they are. So it needs the cluster's kubeconfig, and rights in the namespace.
"""

from __future__ import annotations

from typing import Final

from steelyard.compose import names
from steelyard.compose.composed import Desired
from steelyard.compose.parts import of_cluster
from steelyard.compose.shape import Shape
from steelyard.kube import permits
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, SERVICE_ACCOUNTS, Resource
from steelyard.settings.kubevirt import CloudControllerManager

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = Resource(RBAC_GROUP, "v1", "roles", "Role")
ROLE_BINDINGS: Final = Resource(RBAC_GROUP, "v1", "rolebindings", "RoleBinding")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
MAKES: Final = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CONFIG_MAPS, DEPLOYMENTS)

_RULES: Final = (
    ("kubevirt.io", "virtualmachines", ("get", "list", "watch")),
    ("kubevirt.io", "virtualmachineinstances", ("get", "list", "watch", "update")),
    ("", "pods", ("get", "list", "watch")),
    ("", "services", ("get", "list", "watch", "create", "update", "patch", "delete")),
)
HANDS_ON: Final = tuple(
    each for group, plural, verbs in _RULES for each in permits.only(verbs, Resource(group, "v1", plural, ""))
)
"""What its role lets it do."""

_NAME: Final = "kubevirt-cloud-controller-manager"
_ACCOUNT: Final = "cloud-controller-manager"
_CONFIG: Final = "cloud-config"
_KUBECONFIG: Final = "kubeconfig"
_ROLE: Final = "kccm"
_SELECTED: Final = {"k8s-app": _NAME}


def parts(shape: Shape, settings: CloudControllerManager) -> dict[str, Desired]:
    account = of_cluster(shape, SERVICE_ACCOUNTS, _ACCOUNT)
    role = {**of_cluster(shape, ROLES, _ROLE), "rules": _rules()}
    binding = {
        **of_cluster(shape, ROLE_BINDINGS, _ROLE),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": ROLES.kind, "name": _ROLE},
        "subjects": [{"kind": SERVICE_ACCOUNTS.kind, "name": _ACCOUNT, "namespace": shape.namespace}],
    }
    config = {**of_cluster(shape, CONFIG_MAPS, _CONFIG), "data": {_CONFIG: _cloud_config(shape)}}
    deployment = {**of_cluster(shape, DEPLOYMENTS, _NAME), "spec": _deployment(shape, settings)}
    return {
        "cloud-controller-account": Desired(SERVICE_ACCOUNTS, account),
        "cloud-controller-role": Desired(ROLES, role),
        "cloud-controller-binding": Desired(ROLE_BINDINGS, binding),
        "cloud-controller-config": Desired(CONFIG_MAPS, config),
        "cloud-controller": Desired(DEPLOYMENTS, deployment),
    }


def _rules() -> list[Object]:
    return [{"apiGroups": [group], "resources": [plural], "verbs": list(verbs)} for group, plural, verbs in _RULES]


def _cloud_config(shape: Shape) -> str:
    return (
        "loadBalancer:\n"
        "  creationPollInterval: 5\n"
        "  creationPollTimeout: 60\n"
        f"namespace: {shape.namespace}\n"
        "instancesV2:\n"
        "  enabled: true\n"
        "  zoneAndRegionEnabled: false\n"
    )


def _deployment(shape: Shape, settings: CloudControllerManager) -> Object:
    container: Object = {
        "name": _NAME,
        "image": settings.image,
        "command": ["/bin/kubevirt-cloud-controller-manager"],
        "args": [
            "--cloud-provider=kubevirt",
            f"--cloud-config=/etc/cloud/{_CONFIG}",
            f"--kubeconfig=/etc/kubernetes/{_KUBECONFIG}/value",
            "--authentication-skip-lookup=true",
            # As an argument of its own there is no shell to take quotes off: with quotes the name would contain them.
            f"--cluster-name={shape.name}",
        ],
        "resources": {"requests": {"cpu": "100m"}},
        "volumeMounts": [
            {"name": _KUBECONFIG, "mountPath": f"/etc/kubernetes/{_KUBECONFIG}", "readOnly": True},
            {"name": _CONFIG, "mountPath": "/etc/cloud", "readOnly": True},
        ],
    }
    role = "node-role.kubernetes.io/control-plane"
    return {
        "replicas": 1,
        "selector": {"matchLabels": dict(_SELECTED)},
        "template": {
            "metadata": {"labels": dict(_SELECTED)},
            "spec": {
                "serviceAccountName": _ACCOUNT,
                "nodeSelector": {role: ""},
                "tolerations": [{"key": role, "operator": "Exists", "effect": "NoSchedule"}],
                "containers": [container],
                "volumes": [
                    {"name": _CONFIG, "configMap": {"name": _CONFIG}},
                    # It starts once the control plane has made the kubeconfig.
                    {"name": _KUBECONFIG, "secret": {"secretName": names.kubeconfig_secret(shape.name)}},
                ],
            },
        },
    }
