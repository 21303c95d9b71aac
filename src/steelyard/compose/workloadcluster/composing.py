"""Composes a WorkloadCluster: the claim and what was observed in, the objects and status of a cluster out.

    spec.parameters: {environment: dev}   ->   Cluster, KubeadmControlPlane, MachineDeployment, templates, …

A claim stays with the revision of the composition that it was first composed with (`status.compositionRevision`), so
that a newer Steelyard does not roll anybody's machines by composing differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from steelyard.api.workloadcluster import UsedParameters, WorkloadClusterSpec
from steelyard.compose import names
from steelyard.compose import refusing as refusals
from steelyard.compose.cluster import choosing
from steelyard.compose.cluster import composing as clusters
from steelyard.compose.cluster.composing import REVISION, REVISIONS, Asked
from steelyard.compose.composed import Composed, Observed
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.refusing import refusing
from steelyard.compose.shape import ControlPlane, Pool, Shape, Sizes
from steelyard.compose.workloadcluster import effective
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

NETWORK_PLUGIN: Final = "cilium"
"""Where neither claim nor platform file says otherwise, on machines that come without a network."""
_COUNTS: Final = frozenset({"controlPlaneReplicas", "workerReplicas"})


@refusing
def compose(
    claim: Object, observed: Observed, platform: Platform, *, infrastructures: Mapping[str, Infrastructure]
) -> Composed:
    spec = refusals.spec(claim, WorkloadClusterSpec)
    revision = refusals.revision(claim, REVISIONS, REVISION)
    environment = choosing.environment(spec.parameters.environment, platform)
    used, held_back = effective.parameters(spec.parameters, platform, environment, running=_running_version(claim))
    name = choosing.infrastructure_name(claim, spec.parameters.infrastructure, used.infrastructure)
    used = used.model_copy(update={"infrastructure": name})
    infrastructure = choosing.infrastructure(name, revision, infrastructures, platform)
    asked = Asked(
        shape=_shape(claim, used, platform, infrastructure, revision),
        infrastructure=infrastructure,
        parameters=used.to_json(),
        counts=_COUNTS,
        connection=spec.write_connection_secret_to_ref,
        held_back=held_back,
    )
    return clusters.compose(claim, asked, observed, platform)


def _shape(
    claim: Object, used: UsedParameters, platform: Platform, infrastructure: Infrastructure, revision: str
) -> Shape:
    sizes = Sizes(used.cpu_cores, used.memory_gi, used.disk_gb)
    return Shape(
        name=names.cluster(claim),
        namespace=choosing.namespace(claim, infrastructure),
        environment=used.environment,
        version=used.kubernetes_version,
        control_plane=ControlPlane(used.control_plane_replicas, sizes),
        pools=(Pool(used.worker_replicas, sizes),),
        network=choosing.network(infrastructure, platform, platform.kubevirt.network_plugin or NETWORK_PLUGIN),
        revision=revision,
        image=infrastructure.image(used.kubernetes_version),
    )


def _running_version(claim: Object) -> str:
    return str(objects.at(claim, "status", "parameters", "kubernetesVersion") or "")
