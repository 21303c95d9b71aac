"""Composes a WorkloadCluster: the claim and what was observed in, the objects and status of a cluster out.

    spec.parameters: {environment: dev}   ->   Cluster, KubeadmControlPlane, MachineDeployment, templates, …

A claim stays with the revision of the composition that it was first composed with (`status.compositionRevision`), so
that a newer Steelyard does not roll anybody's machines by composing differently.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import pydantic

from steelyard.api import resources, state, troubles
from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.api.workloadcluster import Infrastructure, SecretReference, UsedParameters, WorkloadClusterSpec
from steelyard.compose import effective, names, progress, simulated
from steelyard.compose.clusterapi import Blueprint
from steelyard.compose.composed import Composed, Condition, Desired, Observed, Refusal, Requirement
from steelyard.compose.progress import Progress
from steelyard.kube import foreignconfig, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.settings import Platform

REVISION = "v1"
"""The revision that new claims get. A change of what is composed is a new one, beside the old."""
REVISIONS = frozenset({"v1"})

KUBECONFIG = "kubeconfig"
MACHINES = "machines"
CONNECTION = "connection"

_PARTS: dict[Infrastructure, Callable[[Blueprint], dict[str, Desired]]] = {"simulated": simulated.parts}
RESOURCES: tuple[Resource, ...] = (
    resources.SIMULATED_CLUSTERS,
    resources.SIMULATED_MACHINE_TEMPLATES,
    clusterapi_resources.CLUSTERS,
    clusterapi_resources.KUBEADM_CONTROL_PLANES,
    clusterapi_resources.KUBEADM_CONFIG_TEMPLATES,
    clusterapi_resources.MACHINE_DEPLOYMENTS,
    SECRETS,
)
"""Everything that a revision of this composition can make: what a controller watches, and knows how to delete."""
_HAS_BEEN_READY = frozenset((state.AVAILABLE, state.SCALING, state.UPDATING, state.DEGRADED, state.RECOVERING))
_NUMBERS = {"controlPlaneReplicas": 0, "workerReplicas": 0}
COMPOSED_INTEGRATIONS: frozenset[str] = frozenset()
"""Integrations that this version composes objects for."""


def compose(claim: Object, observed: Observed, platform: Platform) -> Composed:
    try:
        spec = WorkloadClusterSpec.model_validate(claim.get("spec"))
    except pydantic.ValidationError as error:
        return _refused("InvalidClaim", f"the claim cannot be read: {_first(error)}")
    revision = str(objects.at(claim, "status", "compositionRevision") or REVISION)
    if revision not in REVISIONS:
        return _refused(
            "UnknownCompositionRevision",
            f"the claim is pinned to composition revision {revision}, which this version of Steelyard does not have; "
            f"it has {', '.join(sorted(REVISIONS))}. Run the version that made it, or a newer one",
        )
    used, held_back = effective.parameters(spec.parameters, platform, running=_running_version(claim))
    make_parts = _PARTS.get(used.infrastructure)
    if make_parts is None:
        return _refused(
            "InfrastructureNotAvailable",
            f"this version of Steelyard cannot make clusters of infrastructure {used.infrastructure}; "
            f"set spec.parameters.infrastructure to {' or '.join(_PARTS)}",
        )
    blueprint = Blueprint(claim, used, platform)
    desired = make_parts(blueprint)
    kubeconfig = _own(observed.one(KUBECONFIG), observed)
    here = progress.of(desired, observed.resources, observed.required.get(MACHINES, ()))
    refusal = _not_to_pass_on(kubeconfig, here.endpoint)
    connection = None if refusal else _connection(claim, spec.write_connection_secret_to_ref, kubeconfig)
    if connection is not None:
        desired[CONNECTION] = connection
    waiting_for = refusal or here.waiting_for or _waiting_for_secrets(spec, kubeconfig, observed, blueprint)
    return Composed(
        desired=_with_readiness(desired, observed, here),
        requirements={
            KUBECONFIG: Requirement(SECRETS, blueprint.namespace, names.kubeconfig_secret(blueprint.cluster)),
            MACHINES: Requirement(
                clusterapi_resources.MACHINES, blueprint.namespace, label=(names.CLUSTER_NAME, blueprint.cluster)
            ),
        },
        conditions=[*_conditions(claim, used, here, waiting_for, held_back), *_integrations(platform)],
        status=_status(blueprint, revision, here, kubeconfig),
        rolling=not (here.control_plane.complete and here.workers.complete),
        retained=frozenset({CONNECTION} if connection is None and spec.write_connection_secret_to_ref else ()),
    )


def _refused(reason: str, message: str) -> Composed:
    return Composed(
        conditions=[Condition("Ready", "False", reason, message)],
        refusal=Refusal(reason, message),
    )


def _first(error: pydantic.ValidationError) -> str:
    detail = error.errors(include_url=False)[0]
    return f"{'.'.join(str(step) for step in ('spec', *detail['loc']))}: {detail['msg']}"


def _connection(claim: Object, asked: SecretReference | None, kubeconfig: Object | None) -> Desired | None:
    """The Secret that the claim asks for, once there is a kubeconfig to put into it.

    In the claim's namespace it is owned by the claim; in another one ownership cannot be expressed, and the labels
    alone say whose it is. Where the claim names the very Secret that Cluster API makes, that one gets the key which it
    does not have.
    """
    value = objects.at(kubeconfig, "data", "value")
    if asked is None or not value:
        return None
    namespace = asked.namespace or objects.namespace(claim)
    if (namespace, asked.name) == (objects.namespace(claim), names.kubeconfig_secret(names.cluster(claim))):
        metadata: Object = {"name": asked.name, "namespace": namespace}
        addition: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"kubeconfig": value}}
        return Desired(SECRETS, addition, is_shared=True)
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": asked.name,
            "namespace": namespace,
            "labels": names.claim_labels(claim),
            "annotations": {names.RESOURCE_NAME: CONNECTION},
        },
        "type": "Opaque",
        "data": {"kubeconfig": value, "value": value},
    }
    if namespace == objects.namespace(claim) and objects.uid(claim):
        secret["metadata"]["ownerReferences"] = [objects.owner_reference(claim, controller=True)]
    return Desired(SECRETS, secret)


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
    parts = [observed.resources[name] for name in ("cluster", "control-plane") if name in observed.resources]
    is_own = owner is not None and any(objects.uid(part) and objects.uid(part) == owner.get("uid") for part in parts)
    return kubeconfig if is_own else None


def _waiting_for_secrets(
    spec: WorkloadClusterSpec, kubeconfig: Object | None, observed: Observed, blueprint: Blueprint
) -> str:
    if objects.at(kubeconfig, "data", "value") is None:
        name = names.kubeconfig_secret(blueprint.cluster)
        if observed.one(KUBECONFIG) is not None and kubeconfig is None:
            return f"waiting for Secret {name}: the one of that name is not this cluster's; delete it"
        return f"waiting for Secret {name}"
    asked = spec.write_connection_secret_to_ref
    if asked is not None and objects.at(observed.resources.get(CONNECTION), "data", "kubeconfig") is None:
        return f"waiting for Secret {asked.namespace or blueprint.namespace}/{asked.name}"
    return ""


def _with_readiness(desired: dict[str, Desired], observed: Observed, here: Progress) -> dict[str, Desired]:
    ready = {
        "infrastructure": here.infrastructure_provisioned,
        "control-plane": here.control_plane.complete,
        "workers": here.workers.complete,
        "cluster": here.infrastructure_provisioned and here.control_plane_initialized and not here.trouble,
    }
    return {
        name: Desired(
            part.resource,
            part.object,
            ready=name in observed.resources and ready.get(name, True),
            in_use_while_rolling=part.in_use_while_rolling,
            is_shared=part.is_shared,
        )
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


def _status(blueprint: Blueprint, revision: str, here: Progress, kubeconfig: Object | None) -> Object:
    used: UsedParameters = blueprint.used
    status: Object = {
        "parameters": used.to_json(),
        "compositionRevision": revision,
        "clusterRef": {"name": blueprint.cluster, "namespace": blueprint.namespace},
        "controlPlane": here.control_plane.to_json(),
        "workers": here.workers.to_json(),
    }
    if here.endpoint:
        status["endpoint"] = here.endpoint
    if kubeconfig is not None:
        status["kubeconfigSecret"] = {"name": objects.name(kubeconfig), "namespace": objects.namespace(kubeconfig)}
    return status
