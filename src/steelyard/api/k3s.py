"""What a VirtualCluster's composition and the controller that makes its keys agree upon: names, and KubeVirt's kinds.

The composition makes a namespace, a Service and virtual machines; the machines have a disk with the keys of the
cluster, made from a Secret. Keys are made of randomness, which a composition has none of: the controller fills the
Secret in, and until then no machine starts.
"""

from __future__ import annotations

from typing import Final, Literal

from steelyard.api import troubles
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

VIRTUAL_MACHINES: Final = Resource("kubevirt.io", "v1", "virtualmachines", "VirtualMachine")
VIRTUAL_MACHINE_INSTANCES: Final = Resource("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance")

IngressClass = Literal["traefik", "nginx", "none"]
API_PORT: Final = 6443
AUTHORITY: Final = "steelyard.dev/authority"
"""Annotation of the namespace: by which key the cluster's authority is known. Written before the first machine can
start, so that keys which machines run with are never made anew."""
PROBLEM: Final = "steelyard.dev/keys-problem"
"""Annotation of the namespace: why the keys cannot be made or kept, and what to do."""


def api_service(cluster: str) -> str:
    """The Service that leads to the cluster's API."""
    return f"{cluster}-api"


def keys_secret(cluster: str) -> str:
    """The Secret that machines see as a disk."""
    return f"{cluster}-k3s"


def needs_restart(machine: Object) -> bool:
    """Whether KubeVirt says that a virtual machine runs with less, or more, than it is to have."""
    return troubles.condition(machine, "RestartRequired").get("status") == "True"


def address(service: Object | None) -> str:
    """Where a Service of type LoadBalancer is reached from outside; empty until it has an address."""
    for each in map(objects.mapping, objects.sequence(objects.at(service, "status", "loadBalancer", "ingress"))):
        if found := each.get("ip") or each.get("hostname"):
            return str(found)
    return ""
