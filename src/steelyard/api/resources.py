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
DATA_GROUP = "data.steelyard.dev"
DATABASE_USAGES = Resource(DATA_GROUP, "v1alpha1", "databaseusages", "DatabaseUsage", namespaced=False)
DATABASE_BACKUPS = Resource(DATA_GROUP, "v1alpha1", "databasebackups", "DatabaseBackup", namespaced=False)
DATABASE_COPIES = Resource(DATA_GROUP, "v1alpha1", "databasecopies", "DatabaseCopy", namespaced=False)
REDIS_SERVERS = Resource(DATA_GROUP, "v1alpha1", "redisservers", "RedisServer", namespaced=False)
TEMPORARY_LOGINS = Resource(DATA_GROUP, "v1alpha1", "temporarylogins", "TemporaryLogin", namespaced=False)
VAULT_ENTRIES = Resource(DATA_GROUP, "v1alpha1", "vaultentries", "VaultEntry", namespaced=False)


def compute_group(domain: str) -> str:
    return f"compute.{domain}"


def virtual_clusters(domain: str) -> Resource:
    return Resource(compute_group(domain), "v1alpha1", "virtualclusters", "VirtualCluster")


def workload_clusters(domain: str) -> Resource:
    return Resource(compute_group(domain), "v1alpha1", "workloadclusters", "WorkloadCluster")


def kubernetes_clusters(domain: str) -> Resource:
    return Resource(compute_group(domain), "v1alpha1", "kubernetesclusters", "KubernetesCluster")
