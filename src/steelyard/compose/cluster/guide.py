"""What the reference pages tell of every kind of cluster."""

from __future__ import annotations

from typing import Final

from steelyard.api import clusterfields
from steelyard.compose.claimkind import Reported
from steelyard.compose.cluster import integrating

NAME: Final = (
    f"The name may have up to {clusterfields.NAME_MAX} characters: `<name>-control-plane` must fit into a label, and "
    "so must `<name>-md-<pool>` of every pool."
)
POOLS: Final = (
    "A pool that is taken off the list goes with its machines, after their pods have been moved. Where minReplicas and "
    "maxReplicas are set, the number of machines is the autoscaler's: `replicas` counts when the pool is made, and the "
    "claim changes the number only where it is out of bounds."
)
DELETION: Final = (
    "the connection Secret and what other programs were told go first, then the Cluster with its machines, then "
    "templates"
)
NAMES: Final = (
    Reported("Synced", "False", "NameTaken", "A claim of another kind has a cluster of this name in the namespace."),
    Reported("Synced", "False", "NamespaceTaken", "The namespace that the cluster would have is somebody else's."),
    Reported("Synced", "False", "NameNotUsable", "Something that is called after the cluster cannot have that name."),
)
"""What a claim is refused for because of its name."""
CONDITIONS: Final = (
    Reported("Synced", "False", "InfrastructureNotAvailable", "This version cannot compose that infrastructure."),
    Reported("Synced", "False", "EnvironmentNotAvailable", "The platform file no longer has that environment."),
    Reported("Synced", "False", "NeedsNewerRevision", "The claim is pinned to a revision that lacks a field it uses."),
    Reported("Synced", "False", "ParametersNotAvailable", "Something cannot be had here; the message says what to do."),
    Reported("Synced", "False", "NoAddressesLeft", "The platform file's pools of addresses are used up."),
    *NAMES,
    Reported("Ready", "True", "Available", "The cluster is as asked for and can be used."),
    Reported("Ready", "True", "Scaling", "It can be used while machines come or go."),
    Reported("Ready", "True", "Updating", "It can be used while its machines are replaced one by one."),
    Reported("Ready", "False", "Creating", "The cluster is being made; the message says what is waited for."),
    Reported(
        "Ready", "False", "Degraded", "A Node, a machine or the API was lost; the message names it, with its time."
    ),
    Reported("Ready", "False", "Recovering", "What was lost is being replaced."),
    Reported("UpToDate", "True", "AsAskedFor", "The cluster is exactly what the claim asks for."),
    Reported("UpToDate", "False", "", "It is not, or not yet; the reason is that of `Ready`."),
    Reported(
        "UpToDate", "False", "VersionHeldBack", "The environment's Kubernetes version cannot be reached in one step."
    ),
    *integrating.REPORTED,
    Reported("Autoscaled", "Unknown", "NeedsClusterAutoscaler", "Pools have bounds, which an autoscaler must act on."),
    Reported("Expiring", "True", "EndOfLife", "The claim is deleted soon; the message says when, and how to keep it."),
    Reported("Expiring", "False", "Protected", "Its time is over, and it stays since it is protected."),
)
