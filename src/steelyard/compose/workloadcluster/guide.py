"""What the reference page tells of WorkloadCluster besides its fields."""

from __future__ import annotations

from typing import Final

from steelyard.api import workloadcluster
from steelyard.compose.claimkind import Guide, Reported
from steelyard.compose.cluster import integrating

GUIDE: Final = Guide(
    example={
        "parameters": {"environment": "dev", "workerReplicas": 4},
        "writeConnectionSecretToRef": {"name": "dev-cluster-kubeconfig", "namespace": "argocd"},
    },
    notes=(
        f"The name may have up to {workloadcluster.NAME_MAX} characters: `<name>-control-plane` must fit into a label.",
    ),
    conditions=(
        Reported("Synced", "False", "InfrastructureNotAvailable", "This version cannot compose that infrastructure."),
        Reported("Synced", "False", "EnvironmentNotAvailable", "The platform file no longer has that environment."),
        Reported("Ready", "True", "Available", "The cluster is as asked for and can be used."),
        Reported("Ready", "True", "Scaling", "It can be used while machines come or go."),
        Reported("Ready", "True", "Updating", "It can be used while its machines are replaced one by one."),
        Reported("Ready", "False", "Creating", "The cluster is being made; the message says what is waited for."),
        Reported(
            "Ready",
            "False",
            "Degraded",
            "A Node, a machine or the API was lost; the message names it, with its time.",
        ),
        Reported("Ready", "False", "Recovering", "What was lost is being replaced."),
        Reported("UpToDate", "True", "AsAskedFor", "The cluster is exactly what the claim asks for."),
        Reported("UpToDate", "False", "", "It is not, or not yet; the reason is that of `Ready`."),
        Reported(
            "UpToDate",
            "False",
            "VersionHeldBack",
            "The environment's Kubernetes version cannot be reached in one step.",
        ),
        *integrating.REPORTED,
    ),
    deletion="the connection Secret and what other programs were told go first, then the Cluster with its machines, "
    "then templates",
)
