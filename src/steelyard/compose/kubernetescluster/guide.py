"""What the reference page tells of KubernetesCluster besides its fields."""

from __future__ import annotations

from typing import Final

from steelyard.api.kubernetescluster import CONTROL_PLANE_DISK_GB
from steelyard.compose.claimkind import Guide, Reported
from steelyard.compose.cluster import guide

GUIDE: Final = Guide(
    example={
        "parameters": {
            "environment": "dev",
            "controlPlaneNodes": 1,
            "workerNodes": 2,
            "workerCPU": "4",
            "workerMemory": "8Gi",
            "workerStorage": "100Gi",
            "networkPlugin": "kube-ovn",
        },
    },
    notes=(
        guide.NAME,
        f"Sizes are whole cores and GiB. Control-plane machines have a root disk of {CONTROL_PLANE_DISK_GB} GiB.",
        guide.POOLS,
    ),
    conditions=(
        *guide.CONDITIONS,
        Reported("InForce", "False", "NotAvailable", "What the claim says has no effect here; the message says why."),
    ),
    deletion=guide.DELETION,
)
