"""cluster-template.yaml: a cluster on KVM hosts for `clusterctl generate cluster`, with its variables and defaults.

Written as text, since what is filled in need not be YAML before it is: numbers stand where their variables do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from steelyard.compose.integrations import flannel

VARIABLES: Final[Mapping[str, str]] = {
    "CONTROL_PLANE_MACHINE_COUNT": "3",
    "WORKER_MACHINE_COUNT": "3",
    "CONTROL_PLANE_MACHINE_CPUS": "4",
    "WORKER_MACHINE_CPUS": "4",
    "CONTROL_PLANE_MACHINE_MEMORY": "8GB",
    "WORKER_MACHINE_MEMORY": "8GB",
    "CONTROL_PLANE_DOCKER_VOLUME_SIZE_GB": "40",
    "CONTROL_PLANE_VOLUME_SIZE_GB": "40",
    "DOCKER_VOLUME_SIZE_GB": "40",
    "VOLUME_SIZE_GB": "40",
    "POD_IP_RANGE": "172.24.0.0/16",
    "SERVICE_IP_RANGE": "172.31.0.0/16",
}
"""With their defaults."""
REQUIRED: Final = ("CLUSTER_NAME", "NAMESPACE", "KUBERNETES_VERSION")
"""clusterctl knows these itself, by its arguments."""


def text() -> str:
    """With every variable in place, as `${NAME:=default}`."""
    found = _TEMPLATE.replace("<flannel>", _flannel())
    for name, default in VARIABLES.items():
        found = found.replace(f"<{name}>", f"${{{name}:={default}}}")
    for name in REQUIRED:
        found = found.replace(f"<{name}>", f"${{{name}}}")
    return found


def _flannel() -> str:
    return orjson.dumps(flannel.manifests("<POD_IP_RANGE>")).decode()


_TEMPLATE: Final = """\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: "<CLUSTER_NAME>"
  namespace: "<NAMESPACE>"
  labels:
    cluster.x-k8s.io/cluster-name: "<CLUSTER_NAME>"
spec:
  clusterNetwork:
    pods:
      cidrBlocks: ["<POD_IP_RANGE>"]
    services:
      cidrBlocks: ["<SERVICE_IP_RANGE>"]
  infrastructureRef:
    apiGroup: infrastructure.cluster.x-k8s.io
    kind: KVMCluster
    name: "<CLUSTER_NAME>"
  controlPlaneRef:
    apiGroup: controlplane.cluster.x-k8s.io
    kind: KubeadmControlPlane
    name: "<CLUSTER_NAME>-control-plane"
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha4
kind: KVMCluster
metadata:
  name: "<CLUSTER_NAME>"
  namespace: "<NAMESPACE>"
spec:
  network:
    mode: NAT
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata:
  name: "<CLUSTER_NAME>-control-plane"
  namespace: "<NAMESPACE>"
spec:
  replicas: <CONTROL_PLANE_MACHINE_COUNT>
  version: "<KUBERNETES_VERSION>"
  machineTemplate:
    spec:
      infrastructureRef:
        apiGroup: infrastructure.cluster.x-k8s.io
        kind: KVMMachineTemplate
        name: "<CLUSTER_NAME>-control-plane"
  kubeadmConfigSpec:
    initConfiguration:
      nodeRegistration:
        name: '{{ ds.meta_data.hostname }}'
        criSocket: unix:///var/run/containerd/containerd.sock
        kubeletExtraArgs:
          - name: provider-id
            value: 'kvm://{{ ds.meta_data.instance_id }}'
    joinConfiguration:
      nodeRegistration:
        name: '{{ ds.meta_data.hostname }}'
        criSocket: unix:///var/run/containerd/containerd.sock
        kubeletExtraArgs:
          - name: provider-id
            value: 'kvm://{{ ds.meta_data.instance_id }}'
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha4
kind: KVMMachineTemplate
metadata:
  name: "<CLUSTER_NAME>-control-plane"
  namespace: "<NAMESPACE>"
spec:
  template:
    spec:
      resources:
        cpu: <CONTROL_PLANE_MACHINE_CPUS>
        memory: "<CONTROL_PLANE_MACHINE_MEMORY>"
        disk: "<CONTROL_PLANE_VOLUME_SIZE_GB>GB"
        dockerVolumeSize: "<CONTROL_PLANE_DOCKER_VOLUME_SIZE_GB>GB"
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: "<CLUSTER_NAME>-md-0"
  namespace: "<NAMESPACE>"
spec:
  clusterName: "<CLUSTER_NAME>"
  replicas: <WORKER_MACHINE_COUNT>
  selector:
    matchLabels: {}
  template:
    spec:
      clusterName: "<CLUSTER_NAME>"
      version: "<KUBERNETES_VERSION>"
      bootstrap:
        configRef:
          apiGroup: bootstrap.cluster.x-k8s.io
          kind: KubeadmConfigTemplate
          name: "<CLUSTER_NAME>-md-0"
      infrastructureRef:
        apiGroup: infrastructure.cluster.x-k8s.io
        kind: KVMMachineTemplate
        name: "<CLUSTER_NAME>-md-0"
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha4
kind: KVMMachineTemplate
metadata:
  name: "<CLUSTER_NAME>-md-0"
  namespace: "<NAMESPACE>"
spec:
  template:
    spec:
      resources:
        cpu: <WORKER_MACHINE_CPUS>
        memory: "<WORKER_MACHINE_MEMORY>"
        disk: "<VOLUME_SIZE_GB>GB"
        dockerVolumeSize: "<DOCKER_VOLUME_SIZE_GB>GB"
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata:
  name: "<CLUSTER_NAME>-md-0"
  namespace: "<NAMESPACE>"
spec:
  template:
    spec:
      joinConfiguration:
        nodeRegistration:
          name: '{{ ds.meta_data.hostname }}'
          criSocket: unix:///var/run/containerd/containerd.sock
          kubeletExtraArgs:
            - name: provider-id
              value: 'kvm://{{ ds.meta_data.instance_id }}'
---
# The network of pods that images made by `steelyard image build` have. Take both away to install another.
apiVersion: addons.cluster.x-k8s.io/v1beta2
kind: ClusterResourceSet
metadata:
  name: "<CLUSTER_NAME>-flannel"
  namespace: "<NAMESPACE>"
spec:
  clusterSelector:
    matchLabels:
      cluster.x-k8s.io/cluster-name: "<CLUSTER_NAME>"
  resources:
    - kind: Secret
      name: "<CLUSTER_NAME>-flannel"
  strategy: Reconcile
---
apiVersion: v1
kind: Secret
metadata:
  name: "<CLUSTER_NAME>-flannel"
  namespace: "<NAMESPACE>"
type: addons.cluster.x-k8s.io/resource-set
stringData:
  flannel.json: |
    <flannel>
"""
