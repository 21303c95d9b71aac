"""A cluster as every infrastructure understands it: how many machines of which size, and nothing of who asked for it.

Claim kinds differ in what they let people say; all of them are brought into this shape, and only this shape is what
`clusterapi.py` and an infrastructure's plug see.
"""

from __future__ import annotations

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
class Pool:
    """Worker machines that are alike."""

    replicas: int
    sizes: Sizes
    name: str = ""
    """Of the pools after the first; the first has none."""


@frozen
class Network:
    pods: str
    services: str


@frozen
class Shape:
    name: str
    namespace: str
    environment: str
    version: str
    control_plane: ControlPlane
    pools: tuple[Pool, ...]
    network: Network
