"""What the reference page tells of WorkloadCluster besides its fields."""

from __future__ import annotations

from typing import Final

from steelyard.compose.claimkind import Guide
from steelyard.compose.cluster import guide

GUIDE: Final = Guide(
    example={
        "parameters": {"environment": "dev", "workerReplicas": 4},
        "writeConnectionSecretToRef": {"name": "dev-cluster-kubeconfig", "namespace": "argocd"},
    },
    notes=(guide.NAME, guide.POOLS),
    conditions=guide.CONDITIONS,
    deletion=guide.DELETION,
)
