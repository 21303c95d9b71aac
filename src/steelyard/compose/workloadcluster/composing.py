"""Composes a WorkloadCluster: the claim and what was observed in, the objects and status of a cluster out.

    spec.parameters: {environment: dev}   ->   Cluster, KubeadmControlPlane, MachineDeployment, templates, …

A claim stays with the revision of the composition that it was first composed with (`status.compositionRevision`), so
that a newer Steelyard does not roll anybody's machines by composing differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from steelyard.api.workloadcluster import WorkloadClusterSpec
from steelyard.compose import refusing as refusals
from steelyard.compose.cluster import choosing, fields
from steelyard.compose.cluster import composing as clusters
from steelyard.compose.cluster.composing import REVISION, REVISIONS, Asked
from steelyard.compose.composed import Composed, Observed
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.refusing import refusing
from steelyard.compose.shape import ControlPlane, Pool, Shape, Sizes
from steelyard.compose.workloadcluster import effective
from steelyard.kube.objects import Object
from steelyard.settings import Platform

NETWORK_PLUGIN: Final = "cilium"
"""Where neither claim nor platform file says otherwise, on machines that come without a network."""
_COUNTS: Final = fields.COUNTS | {"controlPlaneReplicas", "workerReplicas"}


@refusing
def compose(
    claim: Object, observed: Observed, platform: Platform, *, infrastructures: Mapping[str, Infrastructure]
) -> Composed:
    spec = refusals.spec(claim, WorkloadClusterSpec)
    revision = refusals.revision(claim, REVISIONS, REVISION)
    environment = choosing.environment(spec.parameters.environment, platform)
    used, held_back = effective.parameters(
        spec.parameters, platform, environment, running=choosing.running_version(claim)
    )
    name = choosing.infrastructure_name(claim, spec.parameters.infrastructure, used.infrastructure)
    used = used.model_copy(update={"infrastructure": name})
    infrastructure = choosing.infrastructure(name, revision, infrastructures, platform, spec.parameters.node_settings)
    sizes = Sizes(used.cpu_cores, used.memory_gi, used.disk_gb)
    settled = fields.settled(
        claim,
        spec.parameters,
        observed,
        platform,
        revision=revision,
        infrastructure=infrastructure,
        control_plane=sizes,
        workers=sizes,
    )
    plugin = infrastructure.network_plugin or NETWORK_PLUGIN
    asked = Asked(
        shape=Shape(
            name=choosing.name(claim, infrastructure),
            namespace=choosing.namespace(claim, infrastructure),
            environment=used.environment,
            version=used.kubernetes_version,
            control_plane=ControlPlane(used.control_plane_replicas, sizes),
            pools=(Pool(used.worker_replicas, sizes), *settled.pools),
            network=choosing.network(infrastructure, settled.ranges, plugin, observed),
            revision=revision,
            image=infrastructure.image(used.kubernetes_version),
            endpoint=spec.parameters.api_endpoint or "",
            add_ons=tuple(spec.parameters.add_ons or ()),
        ),
        infrastructure=infrastructure,
        parameters={**used.to_json(), **settled.reported},
        counts=_COUNTS,
        connection=spec.write_connection_secret_to_ref,
        held_back=held_back,
        requirements=settled.requirements,
    )
    return clusters.compose(claim, asked, observed, platform)
