"""A cluster as every infrastructure understands it: how many machines of which size, and nothing of who asked for it.

Claim kinds differ in what they let people say; all of them are brought into this shape, and only this shape is what
`clusterapi.py` and an infrastructure's plug see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from steelyard.frozen import frozen


@frozen
class Sizes:
    """Of one machine."""

    cpu_cores: int
    memory_gi: int
    disk_gb: int


@frozen
class ControlPlane:
    replicas: int
    sizes: Sizes


@frozen
class Taint:
    key: str
    effect: str
    value: str = ""


@frozen
class Pool:
    """Worker machines that are alike."""

    replicas: int
    sizes: Sizes
    name: str = ""
    """Of the pools after the first; the first has none."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of its Nodes."""
    taints: tuple[Taint, ...] = ()
    bounds: tuple[int, int] | None = None
    """How few and how many machines an autoscaler may make of it; None where nothing scales it."""
    is_scaled_by_others: bool = False
    """Whether an autoscaler has set the number of its machines, which is then not applied."""


@frozen
class Network:
    pods: str
    services: str
    plugin: str = ""
    """What carries the pods' traffic, such as cilium; empty where the infrastructure brings its own."""
    domain: str = ""
    """What names of Services end in; empty for Kubernetes' own, cluster.local."""


@frozen
class Shape:
    name: str
    namespace: str
    environment: str
    version: str
    control_plane: ControlPlane
    pools: tuple[Pool, ...]
    network: Network
    revision: str = "v1"
    """Of the composition. What v1 makes of a shape never changes; what is added is for later ones."""
    image: str = ""
    """What machines of this version boot from, by the catalogue; empty where the infrastructure needs none."""
    live_migration: bool = True
    """Whether machines can move between hosts while they run, where the infrastructure is able to do that."""
    cluster_type: str = "workload"
    """By which others select clusters, beside the environment."""
    endpoint: str = ""
    """`host:port` at which the API is to be reached, where the claim or the platform says so."""
    add_ons: tuple[str, ...] = ()
    """What is installed in it, by name."""
