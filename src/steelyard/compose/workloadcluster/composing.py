"""Composes a WorkloadCluster: the claim and what was observed in, the objects and status of a cluster out.

    spec.parameters: {environment: dev}   ->   Cluster, KubeadmControlPlane, MachineDeployment, templates, …

A claim stays with the revision of the composition that it was first composed with (`status.compositionRevision`), so
that a newer Steelyard does not roll anybody's machines by composing differently.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from typing import Final

from steelyard.api import state, troubles
from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.api.clusterapi import wellknown
from steelyard.api.workloadcluster import UsedParameters, WorkloadClusterSpec
from steelyard.compose import clusterapi, connection, names
from steelyard.compose import refusing as refusals
from steelyard.compose.composed import Composed, Condition, Desired, Observed, Requirement
from steelyard.compose.connection import CONNECTION
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.refusing import Refused, refusing
from steelyard.compose.shape import ControlPlane, Network, Pool, Shape, Sizes
from steelyard.compose.workloadcluster import effective, progress
from steelyard.compose.workloadcluster.progress import Progress
from steelyard.kube import foreignconfig, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform

REVISION: Final = "v1"
"""The revision that new claims get. A change of what is composed is a new one, beside the old."""
REVISIONS: Final = frozenset({"v1"})

KUBECONFIG: Final = "kubeconfig"
MACHINES: Final = "machines"

_HAS_BEEN_READY = frozenset((state.AVAILABLE, state.SCALING, state.UPDATING, state.DEGRADED, state.RECOVERING))
_NUMBERS = {"controlPlaneReplicas": 0, "workerReplicas": 0}
COMPOSED_INTEGRATIONS: frozenset[str] = frozenset()
"""Integrations that this version composes objects for."""


@refusing
def compose(
    claim: Object, observed: Observed, platform: Platform, *, infrastructures: Mapping[str, Infrastructure]
) -> Composed:
    spec = refusals.spec(claim, WorkloadClusterSpec)
    revision = refusals.revision(claim, REVISIONS, REVISION)
    environment = platform.environment(spec.parameters.environment)
    if environment is None:
        raise Refused(
            "EnvironmentNotAvailable",
            f"the platform file has no environment {spec.parameters.environment}; what was made for the claim stays as "
            f"it is. Set spec.parameters.environment to one of {', '.join(platform.environments)}, or bring it back",
        )
    used, held_back = effective.parameters(spec.parameters, platform, environment, running=_running_version(claim))
    infrastructure = infrastructures.get(used.infrastructure)
    if infrastructure is None:
        raise Refused(
            "InfrastructureNotAvailable",
            f"this version of Steelyard cannot make clusters of infrastructure {used.infrastructure}; "
            f"set spec.parameters.infrastructure to {' or '.join(infrastructures)}",
        )
    shape = _shape(claim, used, platform)
    desired = clusterapi.parts(shape, infrastructure)
    kubeconfig = _own(observed.one(KUBECONFIG), observed)
    here = progress.of(
        desired,
        observed.resources,
        observed.required.get(MACHINES, ()),
        workers=tuple(map(clusterapi.workers, shape.pools)),
    )
    refusal = _not_to_pass_on(kubeconfig, here.endpoint)
    secret = None if refusal else _connection(claim, spec, kubeconfig)
    if secret is not None:
        desired[CONNECTION] = secret
    waiting_for = refusal or here.waiting_for or _waiting_for_secrets(claim, spec, kubeconfig, observed)
    return Composed(
        desired=_with_readiness(desired, observed, here),
        requirements={
            KUBECONFIG: Requirement(SECRETS, shape.namespace, names.kubeconfig_secret(shape.name)),
            MACHINES: Requirement(
                clusterapi_resources.MACHINES, shape.namespace, label=(wellknown.CLUSTER_NAME_LABEL, shape.name)
            ),
        },
        conditions=[*_conditions(claim, used, here, waiting_for, held_back), *_integrations(platform)],
        status=_status(shape, used, revision, here, kubeconfig),
        rolling=not (here.control_plane.complete and here.workers.complete),
        retained=frozenset({CONNECTION} if secret is None and spec.write_connection_secret_to_ref else ()),
    )


def _shape(claim: Object, used: UsedParameters, platform: Platform) -> Shape:
    sizes = Sizes(used.cpu_cores, used.memory_gi, used.disk_gb)
    return Shape(
        name=names.cluster(claim),
        namespace=objects.namespace(claim),
        environment=used.environment,
        version=used.kubernetes_version,
        control_plane=ControlPlane(used.control_plane_replicas, sizes),
        pools=(Pool(used.worker_replicas, sizes),),
        network=Network(platform.cluster_network.pods, platform.cluster_network.services),
    )


def _connection(claim: Object, spec: WorkloadClusterSpec, kubeconfig: Object | None) -> Desired | None:
    """The Secret that the claim asks for, once there is a kubeconfig to put into it. Where the claim names the very
    Secret that Cluster API makes, that one gets the key which it does not have.
    """
    value, asked = objects.at(kubeconfig, "data", "value"), spec.write_connection_secret_to_ref
    if asked is None or not value:
        return None
    made_by_cluster_api = (objects.namespace(claim), names.kubeconfig_secret(names.cluster(claim)))
    if (connection.namespace_of(claim, asked), asked.name) == made_by_cluster_api:
        return connection.addition(claim, asked, {"kubeconfig": str(value)})
    return connection.secret(claim, asked, {"kubeconfig": str(value), "value": str(value)})


def _not_to_pass_on(kubeconfig: Object | None, endpoint: str) -> str:
    """Why the kubeconfig is given to nobody; empty if it can be. Whoever may write Secrets in the claim's namespace can
    have put anything there, and those who get the copy trust it.
    """
    value = objects.at(kubeconfig, "data", "value")
    if kubeconfig is None or not value:
        return ""
    try:
        config = foreignconfig.document(base64.b64decode(str(value)))
        other = next((each for each in foreignconfig.servers(config) if endpoint and each != endpoint), "")
        problem = f"its server is {other[:100]}, but the cluster is at {endpoint}" if other else ""
    except ValueError as error:
        problem = str(error)
    if not problem:
        return ""
    return (
        f"Secret {objects.name(kubeconfig)} is not one to use: {problem}; "
        "delete it, and the cluster's control plane makes a new one"
    )


def _own(kubeconfig: Object | None, observed: Observed) -> Object | None:
    """The Secret if it is that of the cluster which was made for the claim: its control plane, or the Cluster itself,
    controls it. One that only has the name may be the key to anybody's cluster.
    """
    owner = objects.controller_of(kubeconfig) if kubeconfig is not None else None
    parts = [
        observed.resources[name]
        for name in (clusterapi.CLUSTER, clusterapi.CONTROL_PLANE)
        if name in observed.resources
    ]
    is_own = owner is not None and any(objects.uid(part) and objects.uid(part) == owner.get("uid") for part in parts)
    return kubeconfig if is_own else None


def _waiting_for_secrets(
    claim: Object, spec: WorkloadClusterSpec, kubeconfig: Object | None, observed: Observed
) -> str:
    if objects.at(kubeconfig, "data", "value") is None:
        name = names.kubeconfig_secret(names.cluster(claim))
        if observed.one(KUBECONFIG) is not None and kubeconfig is None:
            return f"waiting for Secret {name}: the one of that name is not this cluster's; delete it"
        return f"waiting for Secret {name}"
    return connection.waiting_for(claim, spec.write_connection_secret_to_ref, observed, "kubeconfig")


def _with_readiness(desired: dict[str, Desired], observed: Observed, here: Progress) -> dict[str, Desired]:
    ready = {
        clusterapi.INFRASTRUCTURE: here.infrastructure_provisioned,
        clusterapi.CONTROL_PLANE: here.control_plane.complete,
        "workers": here.workers.complete,
        clusterapi.CLUSTER: here.infrastructure_provisioned and here.control_plane_initialized and not here.trouble,
    }
    return {
        name: dataclasses.replace(part, ready=name in observed.resources and ready.get(name, True))
        for name, part in desired.items()
    }


def _running_version(claim: Object) -> str:
    return str(objects.at(claim, "status", "parameters", "kubernetesVersion") or "")


def _conditions(
    claim: Object, used: UsedParameters, here: Progress, waiting_for: str, held_back: str
) -> tuple[Condition, Condition]:
    """Ready, whether the cluster can be used, and UpToDate, whether it is exactly what the claim asks for.

    A cluster becomes ready when all of it is there, and stays so while it is changed without losing anything. What was
    lost makes it not ready, until all of it is there again.
    """
    counts = f"control plane {here.control_plane}, workers {here.workers}"
    if not waiting_for:
        up_to_date = Condition("UpToDate", "True", "AsAskedFor")
        if held_back:
            up_to_date = Condition("UpToDate", "False", "VersionHeldBack", held_back)
        return Condition("Ready", "True", state.AVAILABLE, counts), up_to_date
    before = troubles.condition(claim, "Ready")
    change = _change(claim, used, here)
    message = f"{counts}: {waiting_for}"
    if before.get("reason") not in _HAS_BEEN_READY:
        ready = Condition("Ready", "False", state.CREATING, message)
    elif here.trouble:
        # Without the counts: they change a moment later, and nothing else is to be told then.
        ready = Condition("Ready", "False", state.DEGRADED, here.trouble)
    elif before.get("status") == "True" and _serves_as_before(claim, here):
        ready = Condition("Ready", "True", change, message)
    else:
        ready = Condition("Ready", "False", state.RECOVERING, message)
    if ready.status == "False":
        return ready, Condition("UpToDate", "False", ready.reason, "the cluster is not ready")
    return ready, Condition("UpToDate", "False", change, waiting_for)


def _serves_as_before(claim: Object, here: Progress) -> bool:
    reported = objects.mapping(claim.get("status"))
    return here.control_plane.serves_as_before(
        objects.mapping(reported.get("controlPlane"))
    ) and here.workers.serves_as_before(objects.mapping(reported.get("workers")))


def _change(claim: Object, used: UsedParameters, here: Progress) -> str:
    """Whether machines are replaced or only their number changes. Until they are counted anew, what was said stands."""
    parts = (here.control_plane, here.workers)
    reported = objects.mapping(objects.at(claim, "status", "parameters"))
    is_another = bool(reported) and {**reported, **_NUMBERS} != {**used.to_json(), **_NUMBERS}
    said = troubles.condition(claim, "Ready").get("reason")
    is_told_already = said == state.UPDATING and not all(part.is_counted for part in parts)
    if is_another or is_told_already or not all(part.is_up_to_date for part in parts):
        return state.UPDATING
    return state.SCALING


def _integrations(platform: Platform) -> list[Condition]:
    missing = [name for name in platform.integrations.enabled() if name not in COMPOSED_INTEGRATIONS]
    if not missing:
        return []
    return [
        Condition(
            "Integrated",
            "False",
            "IntegrationNotAvailable",
            f"the platform file enables {', '.join(missing)}, for which this version of Steelyard composes nothing; "
            f"the cluster is not known there",
        )
    ]


def _status(shape: Shape, used: UsedParameters, revision: str, here: Progress, kubeconfig: Object | None) -> Object:
    status: Object = {
        "parameters": used.to_json(),
        "compositionRevision": revision,
        "clusterRef": {"name": shape.name, "namespace": shape.namespace},
        "controlPlane": here.control_plane.to_json(),
        "workers": here.workers.to_json(),
    }
    if here.endpoint:
        status["endpoint"] = here.endpoint
    if kubeconfig is not None:
        status["kubeconfigSecret"] = {"name": objects.name(kubeconfig), "namespace": objects.namespace(kubeconfig)}
    return status
