"""Composes a VirtualCluster: the claim and what was observed in, the objects and status of a cluster out.

spec.parameters: {environment: dev}   ->   on kubevirt: VirtualMachine, Service, …; elsewhere: Cluster, …
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from steelyard.api.virtualcluster import INSTALLED_ONCE, Parameters, UsedParameters, VirtualClusterSpec
from steelyard.compose import managed
from steelyard.compose import refusing as refusals
from steelyard.compose.cluster import choosing
from steelyard.compose.cluster import composing as clusters
from steelyard.compose.cluster.composing import REVISION, Asked
from steelyard.compose.composed import Composed, Observed
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.networks import Ranges
from steelyard.compose.refusing import refusing
from steelyard.compose.shape import ControlPlane, Shape, Sizes
from steelyard.compose.virtualcluster import effective, k3scluster
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

CLUSTER_TYPE: Final = "virtual"
REVISIONS: Final = frozenset({REVISION})
"""They are counted for all kinds of clusters together; this one began later."""
_NETWORK_PLUGIN: Final = "cilium"
"""On machines that come without a network, and are no k3s servers, which bring their own."""
_COUNTS: Final = frozenset({"highAvailability"})
_SERVERS: Final = 3


@refusing
def compose(
    claim: Object, observed: Observed, platform: Platform, *, infrastructures: Mapping[str, Infrastructure]
) -> Composed:
    spec = refusals.spec(claim, VirtualClusterSpec)
    revision = refusals.revision(claim, REVISIONS, REVISION)
    environment = choosing.environment(spec.parameters.environment, platform)
    name = choosing.infrastructure_name(claim, spec.parameters.infrastructure, platform.infrastructure)
    infrastructure = choosing.infrastructure(name, revision, infrastructures, platform)
    running = objects.mapping(objects.at(claim, "status", "parameters"))
    used, held_back = effective.parameters(spec.parameters, platform, environment, infrastructure=name, running=running)
    asked = Asked(
        shape=_shape(claim, used, platform, infrastructure, revision, observed),
        infrastructure=infrastructure,
        parameters=used.to_json(),
        counts=_COUNTS,
        connection=spec.write_connection_secret_to_ref,
        held_back=held_back,
    )
    if name in INSTALLED_ONCE:
        return k3scluster.compose(claim, asked, str(used.ingress_class), observed, platform)
    composed = clusters.compose(claim, asked, observed, platform)
    return dataclasses.replace(
        composed,
        status={key: value for key, value in composed.status.items() if key != "workers"},
        conditions=[*composed.conditions, *managed.not_in_force(_not_in_force(spec.parameters, name))],
    )


def _shape(
    claim: Object,
    used: UsedParameters,
    platform: Platform,
    infrastructure: Infrastructure,
    revision: str,
    observed: Observed,
) -> Shape:
    sizes = Sizes(used.cpu_cores, used.memory_gi, used.disk_gb)
    is_k3s = used.infrastructure in INSTALLED_ONCE
    ranges = Ranges(platform.cluster_network.pods, platform.cluster_network.services)
    network = choosing.network(infrastructure, ranges, infrastructure.network_plugin or _NETWORK_PLUGIN, observed)
    return Shape(
        name=choosing.name(claim, infrastructure),
        namespace=choosing.namespace(claim, infrastructure),
        environment=used.environment,
        version=used.k8s_version,
        control_plane=ControlPlane(_SERVERS if used.high_availability else 1, sizes),
        pools=(),
        network=dataclasses.replace(network, plugin="") if is_k3s else network,
        revision=revision,
        image=platform.kubevirt.k3s.image if is_k3s else infrastructure.image(used.k8s_version),
        cluster_type=CLUSTER_TYPE,
    )


def _not_in_force(asked: Parameters, infrastructure: str) -> list[str]:
    if asked.ingress_class in (None, "none"):
        return []
    return [
        f"ingressClass: nothing installs {asked.ingress_class} on {infrastructure} machines; leave it out, or deploy "
        "it yourself"
    ]
