"""Composes a KubernetesCluster: the claim and what was observed in, the objects and status of a cluster out.

    spec.parameters: {environment: dev, workerCPU: "4"}   ->   Cluster, KubeadmControlPlane, MachineDeployment, …

Its control plane and its workers have sizes of their own. Everything after the sizes is the same as for every cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

from steelyard.api import vaultpaths
from steelyard.api.kubernetescluster import KubernetesClusterSpec, Parameters, UsedParameters
from steelyard.compose import refusing as refusals
from steelyard.compose.cluster import choosing, fields
from steelyard.compose.cluster import composing as clusters
from steelyard.compose.cluster.composing import REVISION, Asked
from steelyard.compose.composed import Composed, Observed
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.integrations import vault
from steelyard.compose.kubernetescluster import effective
from steelyard.compose.kubernetescluster.effective import GIBIBYTES
from steelyard.compose.refusing import refusing
from steelyard.compose.shape import ControlPlane, Pool, Shape
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

NETWORK_PLUGIN: Final = "kube-ovn"
"""Where neither claim nor platform file says otherwise, on machines that come without a network."""
REVISIONS: Final = frozenset({REVISION})
_COUNTS: Final = fields.COUNTS | {"controlPlaneNodes", "workerNodes"}


@refusing
def compose(
    claim: Object, observed: Observed, platform: Platform, *, infrastructures: Mapping[str, Infrastructure]
) -> Composed:
    spec = refusals.spec(claim, KubernetesClusterSpec)
    revision = refusals.revision(claim, REVISIONS, REVISION)
    asked = _asked(claim, spec, observed, platform, revision, infrastructures)
    composed = clusters.compose(claim, asked, observed, platform)
    return dataclasses.replace(composed, status={**composed.status, **_printed(composed)})


def _asked(
    claim: Object,
    spec: KubernetesClusterSpec,
    observed: Observed,
    platform: Platform,
    revision: str,
    infrastructures: Mapping[str, Infrastructure],
) -> Asked:
    parameters = spec.parameters
    environment = choosing.environment(parameters.environment, platform)
    name = choosing.infrastructure_name(claim, parameters.infrastructure, platform.infrastructure)
    infrastructure = choosing.infrastructure(name, revision, infrastructures, platform, parameters.node_settings)
    version, held_back = choosing.version(
        parameters.environment, environment, parameters.kubernetes_version, choosing.running_version(claim)
    )
    control_plane, workers = (
        effective.control_plane(parameters, environment),
        effective.workers(parameters, environment),
    )
    settled = fields.settled(
        claim,
        parameters,
        observed,
        platform,
        revision=revision,
        infrastructure=infrastructure,
        control_plane=control_plane,
        workers=workers,
        problems=list(_of_vault(claim, parameters, platform)),
    )
    plugin = parameters.network_plugin or infrastructure.network_plugin or NETWORK_PLUGIN
    shape = Shape(
        name=choosing.name(claim, infrastructure),
        namespace=choosing.namespace(claim, infrastructure),
        environment=platform.environment_name(parameters.environment),
        version=version,
        control_plane=ControlPlane(
            parameters.control_plane_nodes or environment.control_plane_replicas,
            control_plane,
        ),
        pools=(Pool(parameters.worker_nodes or environment.worker_replicas, workers), *settled.pools),
        network=choosing.network(infrastructure, settled.ranges, plugin, observed),
        revision=revision,
        image=infrastructure.image(version),
        live_migration=parameters.enable_live_migration is not False,
        endpoint=parameters.api_endpoint or "",
        add_ons=tuple(parameters.add_ons or ()),
    )
    return Asked(
        shape=shape,
        infrastructure=infrastructure,
        parameters={**_used(shape, infrastructure).to_json(), **settled.reported},
        counts=_COUNTS,
        connection=spec.write_connection_secret_to_ref,
        held_back=held_back,
        vault_path=parameters.vault_path,
        requirements=settled.requirements,
        without_effect=tuple(_without_effect(parameters, infrastructure, platform)),
    )


def _used(shape: Shape, infrastructure: Infrastructure) -> UsedParameters:
    control_plane, workers = shape.control_plane.sizes, shape.pools[0].sizes
    return UsedParameters(
        environment=shape.environment,
        infrastructure=infrastructure.name,
        control_plane_nodes=shape.control_plane.replicas,
        worker_nodes=shape.pools[0].replicas,
        controlPlaneCPU=str(control_plane.cpu_cores),
        control_plane_memory=f"{control_plane.memory_gi}{GIBIBYTES}",
        workerCPU=str(workers.cpu_cores),
        worker_memory=f"{workers.memory_gi}{GIBIBYTES}",
        worker_storage=f"{workers.disk_gb}{GIBIBYTES}",
        kubernetes_version=shape.version,
        enable_live_migration=shape.live_migration if infrastructure.moves_machines else None,
        network_plugin=shape.network.plugin or None,
    )


def _of_vault(claim: Object, asked: Parameters, platform: Platform) -> Iterator[str]:
    """Also where nothing is put there yet: once Vault is enabled, it would be."""
    environments = (asked.environment, platform.environment_name(asked.environment))
    mount, namespace = platform.integrations.vault.mount, objects.namespace(claim)
    path = asked.vault_path
    if path and (problem := vaultpaths.problem(path, mount, vault.FOLDERS, environments, namespace)):
        yield f"spec.parameters.vaultPath: {path}: {problem}"


def _without_effect(asked: Parameters, infrastructure: Infrastructure, platform: Platform) -> Iterator[str]:
    if asked.enable_live_migration and not infrastructure.moves_machines:
        yield f"enableLiveMigration: machines of {infrastructure.name} do not move between hosts"
    if asked.network_plugin and infrastructure.has_network:
        yield f"networkPlugin: machines of {infrastructure.name} come with a network"
    if asked.vault_path and not platform.integrations.vault.enabled:
        yield "vaultPath: the platform file does not enable integrations.vault, so nothing is written there"


def _printed(composed: Composed) -> Object:
    """The same as elsewhere in the status, under the names that claims made for Crossplane are read by."""
    ready = next((each for each in composed.conditions if each.type == "Ready"), None)
    secret = objects.mapping(composed.status.get("kubeconfigSecret"))
    status: Object = {"clusterReady": ready is not None and ready.status == "True"}
    if composed.status.get("endpoint"):
        status["clusterEndpoint"] = composed.status["endpoint"]
    if secret:
        status["kubeconfig"] = f"{secret['namespace']}/{secret['name']}"
    return status
