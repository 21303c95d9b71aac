"""The provider of KVM hosts as clusterctl installs it: definitions, rights, and a Deployment, in one namespace.

    infrastructure-components.yaml    everything that runs
    metadata.yaml                     which contract of Cluster API each release keeps
    kvmhost-example.yaml              the first host, to be changed and applied

The rights are what the provider's calls need and nothing more: it reads Clusters and Machines, reads a Secret of which
a Machine has told it the name, and writes its own kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.api import crd, kvm, resources
from steelyard.kube import permits
from steelyard.kube.objects import Object
from steelyard.providers.kvm import unit

NAMESPACE: Final = "steelyard-kvm-system"
PROVIDER: Final = "kvm"
IMAGE: Final = "registry.steelyard.local/steelyard"
CONTRACT: Final = "v1beta2"
HEALTH_PORT: Final = 9440
ACCOUNT: Final = "steelyard-kvm-manager"

_NAME: Final = "steelyard-kvm-controller-manager"
_ROLES: Final = "rbac.authorization.k8s.io"
_LIBVIRT_KEYS: Final = {
    "cacert.pem": "CA/cacert.pem",
    "clientcert.pem": "libvirt/clientcert.pem",
    "clientkey.pem": "libvirt/private/clientkey.pem",
}
"""Where libvirt's client looks for what it needs for qemu+tls, under /etc/pki."""


def metadata(version: str) -> Object:
    major, minor, _ = version.split(".", 2)
    return {
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
        "kind": "Metadata",
        "releaseSeries": [{"major": int(major), "minor": int(minor), "contract": CONTRACT}],
    }


def components(image: str) -> list[Object]:
    """`image` has the program `steelyard` with libvirt's library in it."""
    made: Sequence[Object] = (
        _named("v1", "Namespace", NAMESPACE, namespaced=False),
        *(crd.definition(kind) for kind in kvm.KINDS),
        _named("v1", "ServiceAccount", ACCOUNT),
        {**_named(f"{_ROLES}/v1", "ClusterRole", ACCOUNT, namespaced=False), "rules": rules()},
        {
            **_named(f"{_ROLES}/v1", "ClusterRoleBinding", ACCOUNT, namespaced=False),
            **_bound("ClusterRole"),
        },
        {
            **_named(f"{_ROLES}/v1", "Role", ACCOUNT),
            "rules": permits.rules(permits.of_leases()),
        },
        {**_named(f"{_ROLES}/v1", "RoleBinding", ACCOUNT), **_bound("Role")},
        _deployment(image),
    )
    return [_labelled(each) for each in made]


def rules() -> list[Object]:
    """In all namespaces: clusters are wherever people make them."""
    return permits.rules([*unit.NEEDED, *permits.of_every_controller()])


def host_example() -> Object:
    return {
        **_named(resources.KVM_HOSTS.api_version, resources.KVM_HOSTS.kind, "rack-1", namespaced=False),
        "spec": {
            "uri": "qemu+tls://rack-1.example.org/system",
            "storageRoots": ["/var/lib/steelyard/machines"],
            "imageRoots": ["/var/lib/steelyard/images"],
            "networks": {"ranges": ["10.200.0.0/16"]},
        },
    }


def _deployment(image: str) -> Object:
    labels = {"control-plane": _NAME, **kvm.PROVIDER_LABELS}
    return {
        **_named("apps/v1", "Deployment", _NAME),
        "spec": {
            # The second waits for the lease of the first.
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": dict(labels)}, "spec": _pod(image)},
        },
    }


def _pod(image: str) -> Object:
    return {
        "serviceAccountName": ACCOUNT,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
        "containers": [_manager(image)],
        "volumes": [
            {
                "name": "libvirt-client",
                "secret": {
                    "secretName": "steelyard-kvm-libvirt",
                    "optional": True,
                    "items": [{"key": key, "path": path} for key, path in _LIBVIRT_KEYS.items()],
                },
            },
            {"name": "tmp", "emptyDir": {}},
        ],
    }


def _manager(image: str) -> Object:
    def probe(path: str) -> Object:
        return {"httpGet": {"path": path, "port": "health"}, "periodSeconds": 10}

    return {
        # As clusterctl's contract has it.
        "name": "manager",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["provider", PROVIDER, "--health-address", f"0.0.0.0:{HEALTH_PORT}"],
        "env": [{"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT}],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "libvirt-client", "mountPath": "/etc/pki", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 (inside the container)
        ],
    }


def _named(api_version: str, kind: str, name: str, *, namespaced: bool = True) -> Object:
    metadata: Object = {"name": name, "namespace": NAMESPACE} if namespaced else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _bound(kind: str) -> Object:
    return {
        "roleRef": {"apiGroup": _ROLES, "kind": kind, "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }


def _labelled(obj: Object) -> Object:
    labels = {**kvm.PROVIDER_LABELS, **dict(obj["metadata"].get("labels", {}))}
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}
