"""The claims that the mission's documents print, field by field."""

from __future__ import annotations

from typing import Any

from steelyard.kube.objects import Object


def _selector(domain: str, plural: str, group: str) -> Object:
    return {"matchLabels": {"crossplane.io/xrd": f"x{plural}.{group}.{domain}"}}


def database(
    name: str, namespace: str, domain: str = "yourdomain.com", annotations: Object | None = None, **parameters: Any
) -> Object:
    metadata: Object = {"name": name, "namespace": namespace}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": f"database.{domain}/v1alpha1",
        "kind": "PostgreSQLInstance",
        "metadata": metadata,
        "spec": {
            "parameters": parameters,
            "compositionSelector": _selector(domain, "postgresqlinstances", "database"),
            "writeConnectionSecretToRef": {"name": "postgres-connection"},
        },
    }


def cache(name: str, namespace: str, **parameters: Any) -> Object:
    return {
        "apiVersion": "cache.yourdomain.com/v1alpha1",
        "kind": "RedisInstance",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parameters": parameters,
            "compositionSelector": _selector("yourdomain.com", "redisinstances", "cache"),
        },
    }


def virtual_cluster(environment: str, cores: int, memory: int, disk: int, **parameters: Any) -> Object:
    sizes = {"cpuCores": cores, "memoryGi": memory, "diskGb": disk, "k8sVersion": "1.30.0"}
    return {
        "apiVersion": "compute.pnats.cloud/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": f"{environment}-cluster", "namespace": "kubevirt-vms"},
        "spec": {
            "parameters": {"environment": environment, **sizes, **parameters},
            "writeConnectionSecretToRef": {"name": f"{environment}-cluster-kubeconfig", "namespace": "argocd"},
        },
    }


def _selecting(claim: Object) -> Object:
    selector = _selector("pnats.cloud", "virtualclusters", "compute")
    return {**claim, "spec": {**claim["spec"], "compositionSelector": selector}}


def _multi_tenant() -> Object:
    claim = database(
        "dev-database",
        "dev",
        "pnats.cloud",
        environment="dev",
        size="small",
        storageGB=20,
        enableBackup=False,
        vaultPath="secret/database/dev",
        primaryClusterDB=True,
        multiTenant=True,
    )
    claim["spec"]["writeConnectionSecretToRef"]["namespace"] = "vault"
    return claim


def _of_environment(environment: str, size: str, storage: int, *, backup: bool, **more: Any) -> Object:
    return database(
        f"{environment}-database",
        environment,
        environment=environment,
        size=size,
        storageGB=storage,
        enableBackup=backup,
        vaultPath=f"secret/database/{environment}",
        **more,
    )


def _with(claim: Object, *fields: str) -> Object:
    """With these fields of its spec alone."""
    return {**claim, "spec": {key: claim["spec"][key] for key in fields}}


def kubernetes_cluster(environment: str, **parameters: Any) -> Object:
    return {
        "apiVersion": "compute.yourdomain.com/v1alpha1",
        "kind": "KubernetesCluster",
        "metadata": {"name": f"{environment}-cluster", "namespace": "default"},
        "spec": {
            "parameters": {
                "environment": environment,
                **parameters,
                "kubernetesVersion": "v1.31.0",
                "enableLiveMigration": True,
                "networkPlugin": "kube-ovn",
                "vaultPath": f"secret/clusters/{environment}",
            },
            "compositionSelector": {
                "matchLabels": {
                    "crossplane.io/xrd": "xkubernetesclusters.compute.yourdomain.com",
                    "provider": "kubevirt",
                }
            },
        },
    }


def workload_cluster(name: str, **parameters: Any) -> Object:
    return {
        "apiVersion": "compute.pnats.cloud/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {"name": name, "namespace": "crossplane-system"},
        "spec": {
            "parameters": {"environment": "dev", "controlPlaneReplicas": 1, "workerReplicas": 2, **parameters},
            "writeConnectionSecretToRef": {"name": f"{name}-kubeconfig", "namespace": "argocd"},
        },
    }


CLUSTERS: dict[str, Object] = {
    "000 dev cluster": workload_cluster(
        "dev-cluster", cpuCores=8, memoryGi=32, diskGb=100, kubernetesVersion="v1.32.1"
    ),
    "000 template": workload_cluster("shop-cluster", cpuCores=8, memoryGi=32),
    "003 dev cluster": kubernetes_cluster(
        "dev",
        controlPlaneNodes=1,
        workerNodes=2,
        controlPlaneCPU="2",
        controlPlaneMemory="4Gi",
        workerCPU="2",
        workerMemory="4Gi",
        workerStorage="50Gi",
    ),
    "003 production cluster": kubernetes_cluster(
        "production",
        controlPlaneNodes=3,
        workerNodes=5,
        controlPlaneCPU="4",
        controlPlaneMemory="8Gi",
        workerCPU="8",
        workerMemory="16Gi",
        workerStorage="200Gi",
    ),
}
"""Those for clusters; the one that a template makes with the name that its author would give."""

VIRTUAL_CLUSTERS: dict[str, Object] = {
    "001 dev cluster": _selecting(virtual_cluster("dev", 8, 32, 100, ingressClass="nginx")),
    "001 staging cluster": virtual_cluster("staging", 12, 48, 200),
    "001 production cluster": virtual_cluster("production", 32, 128, 500, highAvailability=True),
}
CLAIMS: dict[str, Object] = {
    "001 multi-tenant": _multi_tenant(),
    "001 microservice": _with(
        database("shop-dev-db", "dev", "pnats.cloud", environment="dev", size="small", storageGB=20), "parameters"
    ),
    "003 dev database": _of_environment("dev", "small", 20, backup=False),
    "003 staging database": _of_environment("staging", "medium", 50, backup=True),
    "003 production database": _of_environment("production", "large", 200, backup=True),
    "003 preview": _of_environment(
        "pr-17",
        "small",
        10,
        backup=False,
        annotations={"crossplane.io/external-name": "pr-17-db", "ttl": "168h"},
    ),
    "003 preview by Tekton": _with(
        database(
            "pr-17-database",
            "pr-17",
            environment="dev",
            size="small",
            storageGB=10,
            enableBackup=False,
            vaultPath="secret/database/pr-17",
        ),
        "parameters",
        "writeConnectionSecretToRef",
    ),
    "003 sandbox": _of_environment(
        "sandbox",
        "large",
        200,
        backup=False,
        annotations={"crossplane.io/external-name": "sandbox-db", "source": "production-clone"},
    ),
    "003 dev cache": cache("dev-redis", "dev", environment="dev", replicas=1, memoryGB=1),
    "003 staging cache": cache("staging-redis", "staging", environment="staging", replicas=2, memoryGB=2),
    "003 production cache": cache("production-redis", "production", environment="production", replicas=3, memoryGB=8),
}
"""Under what they are; the one that a template makes with the name that its author would give."""


EVERYTHING: dict[str, Object] = {**CLUSTERS, **VIRTUAL_CLUSTERS, **CLAIMS}


def domain_of(claim: Object) -> str:
    return str(claim["apiVersion"]).partition("/")[0].partition(".")[2]
