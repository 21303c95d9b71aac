"""Labels, annotations, finalizers and Secret names of Cluster API, spelled as upstream spells them.

Whoever takes a cluster over finds its parts by these, so none of them is ours to choose.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Final

CLUSTER_NAME_LABEL: Final = "cluster.x-k8s.io/cluster-name"
CONTROL_PLANE_LABEL: Final = "cluster.x-k8s.io/control-plane"
CONTROL_PLANE_NAME_LABEL: Final = "cluster.x-k8s.io/control-plane-name"
MACHINE_SET_LABEL: Final = "cluster.x-k8s.io/set-name"
MACHINE_DEPLOYMENT_LABEL: Final = "cluster.x-k8s.io/deployment-name"
TEMPLATE_HASH_LABEL: Final = "machine-template-hash"
INTERRUPTIBLE_LABEL: Final = "cluster.x-k8s.io/interruptible"

CLUSTER_NAME_ANNOTATION: Final = "cluster.x-k8s.io/cluster-name"
CLUSTER_NAMESPACE_ANNOTATION: Final = "cluster.x-k8s.io/cluster-namespace"
MACHINE_ANNOTATION: Final = "cluster.x-k8s.io/machine"
OWNER_KIND_ANNOTATION: Final = "cluster.x-k8s.io/owner-kind"
OWNER_NAME_ANNOTATION: Final = "cluster.x-k8s.io/owner-name"
LABELS_FROM_MACHINE_ANNOTATION: Final = "cluster.x-k8s.io/labels-from-machine"
ANNOTATIONS_FROM_MACHINE_ANNOTATION: Final = "cluster.x-k8s.io/annotations-from-machine"
PAUSED_ANNOTATION: Final = "cluster.x-k8s.io/paused"
DELETE_MACHINE_ANNOTATION: Final = "cluster.x-k8s.io/delete-machine"
DISABLE_MACHINE_CREATE_ANNOTATION: Final = "cluster.x-k8s.io/disable-machine-create"
CLONED_FROM_NAME_ANNOTATION: Final = "cluster.x-k8s.io/cloned-from-name"
CLONED_FROM_KIND_ANNOTATION: Final = "cluster.x-k8s.io/cloned-from-groupkind"
EXCLUDE_DRAIN_ANNOTATION: Final = "machine.cluster.x-k8s.io/exclude-node-draining"
CERTIFICATES_EXPIRY_ANNOTATION: Final = "machine.cluster.x-k8s.io/certificates-expiry"
PRE_DRAIN_HOOK_PREFIX: Final = "pre-drain.delete.hook.machine.cluster.x-k8s.io"
PRE_TERMINATE_HOOK_PREFIX: Final = "pre-terminate.delete.hook.machine.cluster.x-k8s.io"
CONTROL_PLANE_HOOK_ANNOTATION: Final = f"{PRE_TERMINATE_HOOK_PREFIX}/kcp-cleanup"
CLUSTER_CONFIGURATION_ANNOTATION: Final = "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration"
REVISION_ANNOTATION: Final = "machinedeployment.clusters.x-k8s.io/revision"
DESIRED_REPLICAS_ANNOTATION: Final = "machinedeployment.clusters.x-k8s.io/desired-replicas"
MAX_REPLICAS_ANNOTATION: Final = "machinedeployment.clusters.x-k8s.io/max-replicas"

CLUSTER_FINALIZER: Final = "cluster.cluster.x-k8s.io"
CONTROL_PLANE_FINALIZER: Final = "kubeadm.controlplane.cluster.x-k8s.io"
MACHINE_FINALIZER: Final = "machine.cluster.x-k8s.io"
MACHINE_SET_FINALIZER: Final = "cluster.x-k8s.io/machineset"
MACHINE_DEPLOYMENT_FINALIZER: Final = "cluster.x-k8s.io/machinedeployment"

CLUSTER_SECRET_TYPE: Final = "cluster.x-k8s.io/secret"  # noqa: S105 (a type, not a secret)
UNINITIALIZED_TAINT: Final = {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}
OUTDATED_TAINT: Final = {"key": "node.cluster.x-k8s.io/outdated-revision", "effect": "PreferNoSchedule"}

NODE_ROLE_DOMAIN: Final = "node-role.kubernetes.io"
NODE_RESTRICTION_DOMAIN: Final = "node-restriction.kubernetes.io"
MANAGED_NODE_DOMAIN: Final = "node.cluster.x-k8s.io"

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_LONGEST_NAME: Final = 63


def secret_name(cluster: str, purpose: str) -> str:
    return f"{cluster}-{purpose}"


def init_lock_name(cluster: str) -> str:
    return f"{cluster}-lock"


def random_suffix() -> str:
    """Without vowels and look-alikes, as Kubernetes makes generated names, so that none spells a word."""
    return "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))


def suffix_of(identity: str) -> str:
    """Like a random one, but always the same for the same identity."""
    number = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big")
    characters: list[str] = []
    for _ in range(_SUFFIX_LENGTH):
        number, position = divmod(number, len(_SUFFIX_ALPHABET))
        characters.append(_SUFFIX_ALPHABET[position])
    return "".join(characters)


def with_suffix(base: str, suffix: str) -> str:
    """`base-suffix`, the base cut so that the whole is still good for a host name and a label value."""
    return f"{base[: _LONGEST_NAME - len(suffix) - 1]}-{suffix}"


def from_template(template: str, values: dict[str, str], suffix: str) -> str:
    """A name by a `machineNaming.template` such as `{{ .cluster.name }}-{{ .random }}`."""
    text = template
    for variable, value in {**values, ".random": suffix}.items():
        for written in (f"{{{{ {variable} }}}}", f"{{{{{variable}}}}}"):
            text = text.replace(written, value)
    if len(text) <= _LONGEST_NAME:
        return text
    return with_suffix(text[: -len(suffix)].rstrip("-"), suffix) if text.endswith(suffix) else text[:_LONGEST_NAME]


def label_value(name: str) -> str:
    """The name, or where it is too long for a label value a digest of it, in the form upstream uses."""
    if len(name) <= _LONGEST_NAME:
        return name
    digest = base64.urlsafe_b64encode(fnv32a(name.encode()).to_bytes(4, "big")).decode().rstrip("=")
    return f"hash_{digest}_z"


def fnv32a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
