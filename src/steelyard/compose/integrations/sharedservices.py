"""Services of the management cluster that clusters use: databases, queues, caches, at the names that they have there.

a policy beside the services   lets the machines of this cluster in, at the ports of services
entries for Istio              in the cluster's namespace, and seen from nowhere else
the cluster's DNS              asks the management cluster's for names of shared services
"""

from __future__ import annotations

import ipaddress
from typing import Final

from steelyard.api.clusterapi import wellknown
from steelyard.compose import networkpolicies
from steelyard.compose.composed import FIRST_STAGE, Condition, Desired
from steelyard.compose.integrations import inside
from steelyard.compose.integrations.subject import NOTHING, Integrated, Subject
from steelyard.compose.networkpolicies import NETWORK_POLICIES
from steelyard.compose.parts import of_cluster
from steelyard.compose.shape import Shape
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings.integrations import SharedService, SharedServices

SERVICE_ENTRIES: Final = Resource("networking.istio.io", "v1", "serviceentries", "ServiceEntry")
ACCESS: Final = "shared-services-access"
"""Resource name of the policy."""

_WHAT: Final = "shared-services"
_NOBODY: Final = Condition(
    "SharedServices",
    "False",
    "NobodyTellsItsDNS",
    "nothing here brings objects into a cluster that is not made by Cluster API, so its DNS does not know the names of "
    "shared services; tell it by hand, or use their addresses",
)
_COREFILE: Final = """.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes <domain> in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
"""
"""As kubeadm writes it for a domain, whose CoreDNS reads no other file."""


def of(subject: Subject) -> Integrated:
    settings = subject.platform.integrations.shared_services
    if not settings.enabled:
        return NOTHING
    parts: dict[str, Desired] = {}
    # A policy knows machines that are pods of the management cluster, and by their namespace.
    if subject.infrastructure.has_namespace:
        parts[ACCESS] = _access(subject, settings)
    if subject.platform.integrations.istio.enabled:
        parts |= _entries(subject, settings)
    return Integrated(parts) | _names(subject, settings)


def _access(subject: Subject, settings: SharedServices) -> Desired:
    """A namespace with a policy is closed to whom none lets in: so this one lets in, besides the cluster, everybody who
    is not in a cluster, as it would be without."""
    others: list[Object] = [
        {
            "namespaceSelector": {
                "matchExpressions": [{"key": wellknown.CLUSTER_NAME_LABEL, "operator": "DoesNotExist"}]
            }
        },
        *({"ipBlock": {"cidr": network}} for network in settings.open_to),
    ]
    obj: Object = {
        "apiVersion": NETWORK_POLICIES.api_version,
        "kind": NETWORK_POLICIES.kind,
        "metadata": {"name": f"cluster-{subject.name}", "namespace": settings.namespace},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [networkpolicies.named(subject.shape.namespace)],
                    "ports": networkpolicies.ports_of(settings),
                },
                {"from": others},
            ],
        },
    }
    return Desired(NETWORK_POLICIES, obj, deletion_stage=FIRST_STAGE)


def _entries(subject: Subject, settings: SharedServices) -> dict[str, Desired]:
    by_name: dict[str, list[SharedService]] = {}
    # Istio's entries know no UDP.
    for each in (each for each in settings.services if each.protocol == "TCP"):
        by_name.setdefault(each.name, []).append(each)
    return {f"istio-{name}": _entry(subject, settings, name, each) for name, each in by_name.items()}


def _entry(subject: Subject, settings: SharedServices, name: str, services: list[SharedService]) -> Desired:
    addresses = list(dict.fromkeys(each.address for each in services if each.address))
    spec: Object = {
        "hosts": [f"{name}.{zone(settings)}"],
        "ports": [
            {"number": number, "name": f"tcp-{number}", "protocol": "TCP"}
            for number in sorted({each.port for each in services})
        ],
        "location": "MESH_INTERNAL",
        "resolution": "STATIC" if addresses else "DNS",
        # Nobody else's traffic is led by what one cluster's namespace says of a service.
        "exportTo": ["."],
    }
    if addresses:
        spec |= {"addresses": addresses, "endpoints": [{"address": each} for each in addresses]}
    # A dot is in neither name, so that no two of them make the same.
    return Desired(SERVICE_ENTRIES, of_cluster(subject.shape, SERVICE_ENTRIES, f"{name}.{subject.shape.name}", spec))


def _names(subject: Subject, settings: SharedServices) -> Integrated:
    if settings.dns is None:
        return NOTHING
    if own := _own_range(subject.shape, settings.dns):
        told = (
            f"the management cluster's DNS, {settings.dns}, is in the range {own}, which this cluster has inside: it "
            f"would ask itself, so it is not told of it. Give the cluster another range, or set "
            f"integrations.sharedServices.dns to an address outside"
        )
        return Integrated(conditions=[Condition("SharedServices", "False", "AddressInCluster", told)])
    if subject.is_told_at_first:
        return NOTHING
    if not subject.has_door:
        return Integrated(conditions=[_NOBODY])
    problem = inside.waiting_for(subject.shape, _WHAT, subject.observed)
    return Integrated(
        inside.delivered(subject.shape, _WHAT, inside.manifests([dns_of_kubeadm(subject.shape, settings)])),
        waiting_for=f"waiting for the cluster's DNS to know shared services ({problem})" if problem else "",
    )


def _own_range(shape: Shape, address: str) -> str:
    """The range of the cluster's own that the address is in; empty if it is in none."""
    return next((each for each in (shape.network.pods, shape.network.services) if _is_in(address, each)), "")


def for_first_start(shape: Shape, settings: SharedServices) -> Object | None:
    """What servers of k3s are given to install when they first start, where there is something to tell their DNS."""
    is_usable = settings.enabled and settings.dns is not None and not _own_range(shape, settings.dns)
    return dns_of_k3s(settings) if is_usable else None


def zone(settings: SharedServices) -> str:
    return f"{settings.namespace}.svc.{settings.domain}"


def dns_of_kubeadm(shape: Shape, settings: SharedServices) -> Object:
    """The whole Corefile. kubeadm writes its own once, before; Cluster API's upgrades of CoreDNS keep what is in it."""
    corefile = _COREFILE.replace("<domain>", shape.network.domain or "cluster.local")
    return _config_map("coredns", {"Corefile": f"{corefile}{_server(settings)}"})


def dns_of_k3s(settings: SharedServices) -> Object:
    """k3s has a file for what is added, and reads each key that ends in `.server`."""
    return _config_map("coredns-custom", {f"{settings.namespace}.server": _server(settings)})


def _config_map(name: str, data: dict[str, str]) -> Object:
    metadata: Object = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _server(settings: SharedServices) -> str:
    return f"{zone(settings)}:53 {{\n    errors\n    cache 30\n    forward . {settings.dns}\n}}\n"


def _is_in(address: str, network: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(network)
