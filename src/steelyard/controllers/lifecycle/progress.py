"""Which changes of a Cluster concern what is in it."""

from __future__ import annotations

from steelyard.kube.runtime import triggers

CLUSTER_PROGRESS = triggers.changed(
    ("spec", "paused"),
    ("spec", "controlPlaneEndpoint"),
    ("status", "initialization"),
    triggers.OWNERS,
    triggers.DELETION,
)
"""What everything in a cluster waits for."""
CLUSTER_HOLDS = triggers.changed(("spec", "paused"), triggers.DELETION)
"""What concerns those in a cluster that wait for other things than the cluster itself."""
