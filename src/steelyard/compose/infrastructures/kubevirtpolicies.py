"""NetworkPolicies around the machines of a cluster, in its namespace on the management cluster.

Who administers a cluster has root on its machines, and a machine is a pod of the management cluster: without policies
it reaches the machines of every other cluster at every port, etcd's and kubelets' among them. What a cluster needs to
come up must get through all the same:

    its own machines              from each other, also with the addresses of their pods, where a plugin routes those
    ssh, from the provider        which asks so whether a machine has started
    6443, from everywhere         a load balancer shows its own address, or that of whoever is outside
    30000-32767, from everywhere  where the cloud controller manager leads load balancers to ports of Services

What goes out is closed only where the platform file says which networks are not for machines to reach; the cloud
controller manager and importers of disks, pods of the platform in the same namespace, reach them still.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.compose import networkpolicies
from steelyard.compose.composed import Desired
from steelyard.compose.networkpolicies import DNS, NETWORK_POLICIES
from steelyard.compose.parts import of_cluster
from steelyard.compose.shape import Shape
from steelyard.kube.objects import Object
from steelyard.settings.integrations import SharedServices
from steelyard.settings.kubevirt import NetworkPolicies
from steelyard.settings.networks import overlap

MAKES: Final = (NETWORK_POLICIES,)

_API_PORT: Final = 6443
_NODE_PORTS: Final = (30000, 32767)
_MACHINES: Final = {"kubevirt.io": "virt-launcher"}
_DNS_NAMESPACE: Final = "kube-system"
_EVERYWHERE: Final = ("0.0.0.0/0", "::/0")


def parts(
    shape: Shape,
    settings: NetworkPolicies,
    *,
    has_load_balancers: bool,
    shared: SharedServices,
    open_ports: Sequence[int] = (_API_PORT,),
) -> dict[str, Desired]:
    """`open_ports` are open to everywhere."""
    if not settings.enabled:
        return {}
    ingress = _ingress(shape, settings, has_load_balancers, open_ports)
    made = {"network-policy": _policy(shape, f"{shape.name}-machines", ingress)}
    if settings.closed_networks:
        made["network-policy-outgoing"] = _policy(shape, f"{shape.name}-outgoing", _egress(shape, settings, shared))
    return made


def _policy(shape: Shape, name: str, spec: Object) -> Desired:
    return Desired(NETWORK_POLICIES, of_cluster(shape, NETWORK_POLICIES, name, spec))


def _ingress(shape: Shape, settings: NetworkPolicies, has_load_balancers: bool, open_ports: Sequence[int]) -> Object:
    rules: list[Object] = [
        {"from": [{"podSelector": {}}, {"ipBlock": {"cidr": shape.network.pods}}]},
        {"ports": networkpolicies.ports(*((port, "TCP") for port in open_ports))},
    ]
    if settings.open_to:
        rules.insert(1, {"from": [networkpolicies.named(*settings.open_to)]})
    if has_load_balancers:
        first, last = _NODE_PORTS
        rules.append({"ports": [{"protocol": each, "port": first, "endPort": last} for each in ("TCP", "UDP")]})
    return {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": rules}


def _egress(shape: Shape, settings: NetworkPolicies, shared: SharedServices) -> Object:
    own: list[Object] = [{"podSelector": {}}]
    # A claim that asks for a range of the management cluster's does not open it.
    if not any(overlap(shape.network.pods, each) for each in settings.closed_networks):
        own.append({"ipBlock": {"cidr": shape.network.pods}})
    rules: list[Object] = [
        {"to": own},
        {"to": [networkpolicies.named(_DNS_NAMESPACE)], "ports": networkpolicies.ports(*DNS)},
        {"to": list(_outside(settings))},
    ]
    if shared.enabled:
        rules.append({"to": [networkpolicies.named(shared.namespace)], "ports": networkpolicies.ports_of(shared)})
    return {"podSelector": {"matchLabels": dict(_MACHINES)}, "policyTypes": ["Egress"], "egress": rules}


def _outside(settings: NetworkPolicies) -> Iterator[Object]:
    closed = [ipaddress.ip_network(each) for each in settings.closed_networks]
    for everything in _EVERYWHERE:
        version = ipaddress.ip_network(everything).version
        excepted = [str(each) for each in closed if each.version == version]
        yield {"ipBlock": {"cidr": everything, **({"except": excepted} if excepted else {})}}
