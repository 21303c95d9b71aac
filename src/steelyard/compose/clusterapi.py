"""The Cluster API objects of a cluster, whatever its machines are made of, in the order in which they are applied.

Each comes after what it refers to, so that nothing has to be tried twice: the Cluster finds its infrastructure and its
control plane, and the MachineDeployment finds the Cluster. Each holds the fields that the claim decides and no others;
what the lifecycle fills in (endpoint, owner references, status) stays its own under server-side apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.api.clusterapi import resources, wellknown
from steelyard.compose import autoscaling, healthchecks, names
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.parts import of_cluster, of_pool
from steelyard.compose.shape import Pool, Shape, Sizes, Taint
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES

MAKES: Final = (
    resources.CLUSTERS,
    resources.KUBEADM_CONTROL_PLANES,
    resources.KUBEADM_CONFIG_TEMPLATES,
    resources.MACHINE_DEPLOYMENTS,
    resources.MACHINE_HEALTH_CHECKS,
    NAMESPACES,
)
"""Besides an infrastructure's own kinds."""
CLUSTER: Final = "cluster"
CONTROL_PLANE: Final = "control-plane"
NAMESPACE: Final = "namespace"
INFRASTRUCTURE: Final = "infrastructure"
_CLUSTER_STAGE: Final = FIRST_STAGE + 1
"""The Cluster goes before its parts: deleting it drains and deletes machines in order; a template or a control plane
that vanished under it would leave machines behind."""

# Where containerd listens on every image that Cluster API's image-builder makes.
_CRI_SOCKET: Final = "unix:///var/run/containerd/containerd.sock"
_KUBEADM_CORES: Final = 2
"""The fewest of which kubeadm makes a control-plane machine unasked."""

_TIMEOUTS: Final = (
    "controlPlaneComponentHealthCheckSeconds",
    "discoverySeconds",
    "etcdAPICallSeconds",
    "kubeletHealthCheckSeconds",
    "kubernetesAPICallSeconds",
    "tlsBootstrapSeconds",
)
"""Everything that kubeadm waits for."""
_CONTROL_PLANE_LABELS: Final = {"kube-ovn": {"kube-ovn/role": "master"}}
"""By network plugin: what it finds the Nodes by that its database is to run on."""


def parts(shape: Shape, infrastructure: Infrastructure) -> dict[str, Desired]:
    """By resource name."""
    made: dict[str, Desired] = {}
    if infrastructure.has_namespace:
        made[NAMESPACE] = _namespace(shape)
    made[INFRASTRUCTURE] = Desired(
        infrastructure.cluster,
        of_cluster(shape, infrastructure.cluster, shape.name, infrastructure.cluster_spec(shape)),
    )
    plane = names.control_plane(shape.name)
    made["control-plane-machines"] = _template(
        shape, infrastructure, plane, shape.control_plane.sizes, infrastructure.control_plane_machine(shape)
    )
    made[CONTROL_PLANE] = Desired(
        resources.KUBEADM_CONTROL_PLANES,
        _control_plane(shape, infrastructure, machines=_reference(made["control-plane-machines"])),
    )
    made[CLUSTER] = Desired(
        resources.CLUSTERS,
        _cluster(shape, infrastructure),
        # Nobody owns an object in another namespace.
        owned="no" if infrastructure.has_namespace else "guarded",
        deletion_stage=_CLUSTER_STAGE,
    )
    for pool in shape.pools:
        made |= _pool(shape, infrastructure, pool)
    if infrastructure.has_health_checks:
        made |= healthchecks.parts(shape, infrastructure.patience)
    return {**made, **infrastructure.further(shape)}


def workers(pool: Pool) -> str:
    """The resource name of a pool's MachineDeployment."""
    return of_pool("workers", pool)


def _pool(shape: Shape, infrastructure: Infrastructure, pool: Pool) -> dict[str, Desired]:
    name = names.machine_deployment(shape.name, pool.name)
    machines = _template(shape, infrastructure, name, pool.sizes, infrastructure.worker_machine(shape, pool))
    bootstrap = _bootstrap(shape, infrastructure, name, pool)
    return {
        of_pool("worker-machines", pool): machines,
        of_pool("worker-bootstrap", pool): bootstrap,
        workers(pool): Desired(
            resources.MACHINE_DEPLOYMENTS,
            _workers(shape, name, pool, machines=_reference(machines), bootstrap=_reference(bootstrap)),
        ),
    }


def _reference(part: Desired) -> Object:
    """Within the namespace, and without a version: Cluster API finds the served one by the contract."""
    return {"apiGroup": part.resource.group, "kind": part.resource.kind, "name": objects.name(part.object)}


def _template(shape: Shape, infrastructure: Infrastructure, base: str, sizes: Sizes, further: Object) -> Desired:
    spec: Object = {"template": {"spec": {**infrastructure.machine_spec(shape, sizes), **further}}}
    obj = of_cluster(shape, infrastructure.template, names.template(base, spec), spec)
    return Desired(infrastructure.template, obj, in_use_while_rolling=True)


def _cluster(shape: Shape, infrastructure: Infrastructure) -> Object:
    network: Object = {
        "pods": {"cidrBlocks": [shape.network.pods]},
        "services": {"cidrBlocks": [shape.network.services]},
    }
    if shape.network.domain:
        network["serviceDomain"] = shape.network.domain
    obj = of_cluster(
        shape,
        resources.CLUSTERS,
        shape.name,
        {
            "clusterNetwork": network,
            "controlPlaneRef": {
                "apiGroup": resources.KUBEADM_CONTROL_PLANES.group,
                "kind": resources.KUBEADM_CONTROL_PLANES.kind,
                "name": names.control_plane(shape.name),
            },
            "infrastructureRef": {
                "apiGroup": infrastructure.cluster.group,
                "kind": infrastructure.cluster.kind,
                "name": shape.name,
            },
        },
    )
    obj["metadata"]["labels"][names.ENVIRONMENT] = shape.environment
    return obj


def _namespace(shape: Shape) -> Desired:
    obj = of_cluster(shape, NAMESPACES, shape.namespace)
    obj["metadata"]["labels"] |= {names.ENVIRONMENT: shape.environment, "cluster-type": shape.cluster_type}
    return Desired(NAMESPACES, obj)


def _control_plane(shape: Shape, infrastructure: Infrastructure, *, machines: Object) -> Object:
    registration = _registration(infrastructure, labels=_CONTROL_PLANE_LABELS.get(shape.network.plugin, {}))
    if infrastructure.has_pods and not shape.pools:
        # It is all there is: without this kubeadm would keep everything else off it.
        registration["taints"] = []
    if infrastructure.allows_one_core and shape.control_plane.sizes.cpu_cores < _KUBEADM_CORES:
        registration["ignorePreflightErrors"] = ["NumCPU"]
    kubeadm = {**_timeouts(infrastructure), **_patches(infrastructure)}
    return of_cluster(
        shape,
        resources.KUBEADM_CONTROL_PLANES,
        names.control_plane(shape.name),
        {
            "replicas": shape.control_plane.replicas,
            "version": shape.version,
            "machineTemplate": {"spec": {"infrastructureRef": machines}},
            "kubeadmConfigSpec": {
                "initConfiguration": {"nodeRegistration": registration, **kubeadm},
                "joinConfiguration": {"nodeRegistration": dict(registration), **kubeadm},
                **infrastructure.bootstrap(shape),
                **infrastructure.control_plane_bootstrap(shape),
            },
            # One more before one less: a single control-plane machine is never replaced by taking it away.
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        },
    )


def _registration(infrastructure: Infrastructure, *, labels: Mapping[str, str], taints: Sequence[Taint] = ()) -> Object:
    """How a machine makes itself known as a Node."""
    registration: Object = {"criSocket": _CRI_SOCKET}
    if infrastructure.node_name:
        registration["name"] = infrastructure.node_name
    arguments = {"cloud-provider": "external"} if infrastructure.has_cloud_controller else {}
    arguments |= infrastructure.kubelet_arguments
    if labels:
        arguments["node-labels"] = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    if arguments:
        registration["kubeletExtraArgs"] = [{"name": name, "value": value} for name, value in arguments.items()]
    if taints:
        registration["taints"] = [_taint(each) for each in taints]
    return registration


def _timeouts(infrastructure: Infrastructure) -> Object:
    """Cluster API wants them to be the same for the first machine of a control plane and for those that join it."""
    seconds = infrastructure.kubeadm_seconds
    return {"timeouts": dict.fromkeys(_TIMEOUTS, seconds)} if seconds else {}


def _patches(infrastructure: Infrastructure) -> Object:
    return {"patches": {"directory": infrastructure.kubeadm_patches}} if infrastructure.kubeadm_patches else {}


def _taint(taint: Taint) -> Object:
    return {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}


def _bootstrap(shape: Shape, infrastructure: Infrastructure, base: str, pool: Pool) -> Desired:
    registration = _registration(infrastructure, labels=pool.labels, taints=pool.taints)
    joining: Object = {"nodeRegistration": registration, **_timeouts(infrastructure)}
    config: Object = {"joinConfiguration": joining, **infrastructure.bootstrap(shape)}
    spec: Object = {"template": {"spec": config}}
    obj = of_cluster(shape, resources.KUBEADM_CONFIG_TEMPLATES, names.template(base, spec), spec)
    return Desired(resources.KUBEADM_CONFIG_TEMPLATES, obj, in_use_while_rolling=True)


def _workers(shape: Shape, name: str, pool: Pool, *, machines: Object, bootstrap: Object) -> Object:
    own = {wellknown.CLUSTER_NAME_LABEL: shape.name, wellknown.MACHINE_DEPLOYMENT_LABEL: name}
    spec: Object = {
        "clusterName": shape.name,
        "replicas": pool.replicas,
        "selector": {"matchLabels": own},
        "rollout": {
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        },
        "template": {
            "metadata": {"labels": dict(own)},
            "spec": {
                "clusterName": shape.name,
                "version": shape.version,
                "bootstrap": {"configRef": bootstrap},
                "infrastructureRef": machines,
            },
        },
    }
    if pool.is_scaled_by_others:
        del spec["replicas"]
    obj = of_cluster(shape, resources.MACHINE_DEPLOYMENTS, name, spec)
    if pool.bounds is not None:
        obj["metadata"]["annotations"] = autoscaling.marks(pool, pool.bounds)
    return obj
