"""What a cluster gets from other programs, where the platform file enables them: one module for each."""

from typing import Final, get_args

from steelyard.api.clusterfields import AddOn
from steelyard.compose.connection import CONNECTION

ADD_ONS: Final = {f"add-on-{name}": name for name in get_args(AddOn)}
"""Resource names of add-ons, with what claims call them."""
ELSEWHERE: Final = frozenset(
    {
        *ADD_ONS,
        CONNECTION,
        "argocd-cluster",
        "backstage-entity",
        "external-secrets",
        "network-plugin",
        "shared-services-access",
        "vault-api-key",
        "vault-api-key-maker",
        "vault-copy",
        "vault-kubeconfig",
    }
)
"""Resource names of parts that may be in a namespace which is neither the claim's nor its cluster's."""
