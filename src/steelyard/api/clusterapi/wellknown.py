"""Labels, annotations, finalizers and taints of Cluster API, spelled as upstream spells them, each in this one place.

Whoever takes a cluster over finds its parts by these, so none of them is ours to choose.
"""

from __future__ import annotations

from typing import Final

CLUSTERCTL_LABEL: Final = "clusterctl.cluster.x-k8s.io"
"""Of a definition: clusterctl looks at objects of this kind when it moves clusters."""
CLUSTERCTL_MOVE_LABEL: Final = "clusterctl.cluster.x-k8s.io/move"
"""Of a definition: clusterctl takes all objects of this kind along; those in no namespace stay as well."""
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
SKIP_REMEDIATION_ANNOTATION: Final = "cluster.x-k8s.io/skip-remediation"
REMEDIATE_MACHINE_ANNOTATION: Final = "cluster.x-k8s.io/remediate-machine"
DISABLE_MACHINE_CREATE_ANNOTATION: Final = "cluster.x-k8s.io/disable-machine-create"
CLONED_FROM_NAME_ANNOTATION: Final = "cluster.x-k8s.io/cloned-from-name"
CLONED_FROM_KIND_ANNOTATION: Final = "cluster.x-k8s.io/cloned-from-groupkind"
EXCLUDE_DRAIN_ANNOTATION: Final = "machine.cluster.x-k8s.io/exclude-node-draining"
EXCLUDE_DETACH_ANNOTATION: Final = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"
CERTIFICATES_EXPIRY_ANNOTATION: Final = "machine.cluster.x-k8s.io/certificates-expiry"
PRE_DRAIN_HOOK_PREFIX: Final = "pre-drain.delete.hook.machine.cluster.x-k8s.io"
PRE_TERMINATE_HOOK_PREFIX: Final = "pre-terminate.delete.hook.machine.cluster.x-k8s.io"
CONTROL_PLANE_HOOK_ANNOTATION: Final = f"{PRE_TERMINATE_HOOK_PREFIX}/kcp-cleanup"
CLUSTER_CONFIGURATION_ANNOTATION: Final = "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration"
REMEDIATION_IN_PROGRESS_ANNOTATION: Final = "controlplane.cluster.x-k8s.io/remediation-in-progress"
REMEDIATION_FOR_ANNOTATION: Final = "controlplane.cluster.x-k8s.io/remediation-for"
REVISION_ANNOTATION: Final = "machinedeployment.clusters.x-k8s.io/revision"
DESIRED_REPLICAS_ANNOTATION: Final = "machinedeployment.clusters.x-k8s.io/desired-replicas"
MAX_REPLICAS_ANNOTATION: Final = "machinedeployment.clusters.x-k8s.io/max-replicas"

CLUSTER_FINALIZER: Final = "cluster.cluster.x-k8s.io"
CONTROL_PLANE_FINALIZER: Final = "kubeadm.controlplane.cluster.x-k8s.io"
MACHINE_FINALIZER: Final = "machine.cluster.x-k8s.io"
MACHINE_SET_FINALIZER: Final = "cluster.x-k8s.io/machineset"
MACHINE_DEPLOYMENT_FINALIZER: Final = "cluster.x-k8s.io/machinedeployment"
RESOURCE_SET_FINALIZER: Final = "addons.cluster.x-k8s.io"

CLUSTER_SECRET_TYPE: Final = "cluster.x-k8s.io/secret"  # noqa: S105 (a type, not a secret)
RESOURCE_SET_SECRET_TYPE: Final = "addons.cluster.x-k8s.io/resource-set"  # noqa: S105 (a type, not a secret)
UNINITIALIZED_TAINT: Final = {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}
OUTDATED_TAINT: Final = {"key": "node.cluster.x-k8s.io/outdated-revision", "effect": "PreferNoSchedule"}

NODE_ROLE_DOMAIN: Final = "node-role.kubernetes.io"
NODE_RESTRICTION_DOMAIN: Final = "node-restriction.kubernetes.io"
MANAGED_NODE_DOMAIN: Final = "node.cluster.x-k8s.io"

ETCD_LABEL: Final = "steelyard.dev/etcd"
UNASKED: Final = "unasked"
"""The value of this label on a pod of etcd through which no member is to be asked how it is: it is well as long as the
cluster's API answers. So it is in simulated clusters, of which there may be a thousand."""
