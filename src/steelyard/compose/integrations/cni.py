"""The network plugin of a cluster whose machines come without one, installed by Argo CD as an Application.

Nodes become Ready only with a plugin, and a cluster is Ready only with Nodes: so it is part of the cluster, and applied
as soon as the cluster's API has an address, which the plugin is told since there is no network yet to find it by.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from steelyard.compose.composed import Desired
from steelyard.compose.integrations import argocd
from steelyard.compose.shape import Shape
from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.settings.integrations import ArgoCD, Chart

NETWORK: Final = "network-plugin"
"""The resource name of the Application."""
KUBE_OVN: Final = "kube-ovn"


@frozen
class _Plugin:
    chart: str
    namespace: str
    source: Chart
    parameters: tuple[tuple[str, str], ...]


def application(
    shape: Shape, claim: Object, settings: ArgoCD, *, endpoint: str, control_plane: Sequence[str]
) -> dict[str, Desired]:
    """`control_plane` are the addresses of its machines, as far as they are known. Nothing before what the plugin must
    be told is known."""
    host, _, port = endpoint.removeprefix("https://").rpartition(":")
    needs_addresses = shape.network.plugin == KUBE_OVN and not control_plane
    if not host or needs_addresses:
        return {}
    plugin = _plugin(shape, settings, host.strip("[]"), port, control_plane)
    made = argocd.application(
        shape,
        claim,
        settings,
        name=shape.network.plugin,
        chart=plugin.chart,
        source=plugin.source,
        endpoint=endpoint,
        namespace=plugin.namespace,
        parameters=dict(plugin.parameters),
    )
    return {NETWORK: made}


def _plugin(shape: Shape, settings: ArgoCD, host: str, port: str, control_plane: Sequence[str]) -> _Plugin:
    charts = settings.network_plugins
    match shape.network.plugin:
        case "calico":
            return _Plugin(
                "tigera-operator",
                "tigera-operator",
                charts.calico,
                (
                    ("installation.calicoNetwork.ipPools[0].cidr", shape.network.pods),
                    ("installation.calicoNetwork.ipPools[0].encapsulation", "VXLAN"),
                    ("kubernetesServiceEndpoint.host", host),
                    ("kubernetesServiceEndpoint.port", port),
                ),
            )
        case "kube-ovn":
            # Argo CD renders charts without asking the cluster, so the chart cannot look up where its database runs.
            return _Plugin(
                "kube-ovn",
                "kube-system",
                charts.kube_ovn,
                (
                    ("MASTER_NODES", ",".join(control_plane)),
                    ("ipv4.POD_CIDR", shape.network.pods),
                    ("ipv4.POD_GATEWAY", _gateway(shape.network.pods)),
                    ("ipv4.SVC_CIDR", shape.network.services),
                ),
            )
        case _:
            return _Plugin(
                "cilium",
                "kube-system",
                charts.cilium,
                (
                    ("ipam.mode", "kubernetes"),
                    ("routingMode", "native"),
                    ("ipv4NativeRoutingCIDR", shape.network.pods),
                    ("autoDirectNodeRoutes", "true"),
                    ("enableIPv4Masquerade", "true"),
                    ("kubeProxyReplacement", "false"),
                    ("k8sServiceHost", host),
                    ("k8sServicePort", port),
                ),
            )


def _gateway(network: str) -> str:
    """The first address, as Kube-OVN has it.

    >>> _gateway("10.243.0.0/16")
    '10.243.0.1'
    """
    return str(ipaddress.ip_network(network).network_address + 1)
