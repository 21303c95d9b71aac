"""Words of NetworkPolicies that several compositions use: whom to let in, and at which ports."""

from __future__ import annotations

from typing import Final

from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings.integrations import SharedServices

NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
DNS: Final[tuple[tuple[int, str], ...]] = ((53, "TCP"), (53, "UDP"))

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


def named(*namespaces: str) -> Object:
    """Selects namespaces by their names: the label is the API server's own, and nobody can give it to another."""
    return {
        "namespaceSelector": {
            "matchExpressions": [{"key": _NAMESPACE_NAME, "operator": "In", "values": list(namespaces)}]
        }
    }


def ports(*numbers: tuple[int, str]) -> list[Object]:
    """Each with its protocol."""
    return [{"protocol": protocol, "port": port} for port, protocol in sorted(set(numbers))]


def ports_of(shared: SharedServices) -> list[Object]:
    """Of shared services, DNS among them."""
    return ports(*DNS, *((each.port, each.protocol) for each in shared.services))
