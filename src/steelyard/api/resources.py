"""The API resources that are Steelyard's own. Groups of claims end in the platform's domain, so those are functions."""

from __future__ import annotations

from steelyard.kube.resources import Resource

INFRASTRUCTURE_GROUP = "infrastructure.cluster.x-k8s.io"
SIMULATED_CLUSTERS = Resource(INFRASTRUCTURE_GROUP, "v1beta2", "simulatedclusters", "SimulatedCluster")
SIMULATED_MACHINES = Resource(INFRASTRUCTURE_GROUP, "v1beta2", "simulatedmachines", "SimulatedMachine")
SIMULATED_MACHINE_TEMPLATES = Resource(
    INFRASTRUCTURE_GROUP, "v1beta2", "simulatedmachinetemplates", "SimulatedMachineTemplate"
)
KVM_CLUSTERS = Resource(INFRASTRUCTURE_GROUP, "v1alpha4", "kvmclusters", "KVMCluster")
KVM_CLUSTER_TEMPLATES = Resource(INFRASTRUCTURE_GROUP, "v1alpha4", "kvmclustertemplates", "KVMClusterTemplate")
KVM_MACHINES = Resource(INFRASTRUCTURE_GROUP, "v1alpha4", "kvmmachines", "KVMMachine")
KVM_MACHINE_TEMPLATES = Resource(INFRASTRUCTURE_GROUP, "v1alpha4", "kvmmachinetemplates", "KVMMachineTemplate")
KVM_HOSTS = Resource(INFRASTRUCTURE_GROUP, "v1alpha4", "kvmhosts", "KVMHost", namespaced=False)


def compute_group(domain: str) -> str:
    return f"compute.{domain}"


def virtual_clusters(domain: str) -> Resource:
    return Resource(compute_group(domain), "v1alpha1", "virtualclusters", "VirtualCluster")


def workload_clusters(domain: str) -> Resource:
    return Resource(compute_group(domain), "v1alpha1", "workloadclusters", "WorkloadCluster")


def kubernetes_clusters(domain: str) -> Resource:
    return Resource(compute_group(domain), "v1alpha1", "kubernetesclusters", "KubernetesCluster")
