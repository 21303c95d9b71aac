"""What a cluster gets from other programs, where the platform file enables them: one module for each."""

from typing import Final

from steelyard.compose.connection import CONNECTION

ELSEWHERE: Final = frozenset(
    {
        CONNECTION,
        "argocd-cluster",
        "backstage-entity",
        "external-secrets",
        "network-plugin",
        "shared-services-access",
        "vault-copy",
        "vault-kubeconfig",
    }
)
"""Resource names of parts that may be in a namespace which is neither the claim's nor its cluster's."""
