"""Whose the kinds are that claims become and that Steelyard does not define: what to install where one is missing."""

from __future__ import annotations

from typing import Final

from steelyard.api.crossplane import EXTERNAL_SECRETS

_BY_KIND: Final = {
    "KubevirtCluster.infrastructure.cluster.x-k8s.io": "KubeVirt and its Cluster API provider "
    "(clusterctl init --infrastructure kubevirt) in a management cluster",
    "VirtualMachine.kubevirt.io": "KubeVirt and its Containerized Data Importer (CDI) in a management cluster",
    "Application.argoproj.io": "Argo CD",
    "ClusterResourceSet.addons.cluster.x-k8s.io": "Cluster API v1.11 or later, whose ClusterResourceSets bring objects "
    "into clusters",
    "PushSecret.external-secrets.io": EXTERNAL_SECRETS,
    "Password.generators.external-secrets.io": EXTERNAL_SECRETS,
    "VaultEntry.data.steelyard.dev": "Steelyard's provider of Vault, or set integrations.vault.configure to false in "
    "the platform file",
    "ServiceEntry.networking.istio.io": "Istio, or turn integrations.istio off in the platform file",
}
_LIKE: Final = {
    "KubevirtMachineTemplate.infrastructure.cluster.x-k8s.io": "KubevirtCluster.infrastructure.cluster.x-k8s.io"
}


def that_define(kind: str) -> str:
    """After "install": for the kind with its group, as in `Application.argoproj.io`."""
    return _BY_KIND.get(_LIKE.get(kind, kind), "its definition")
