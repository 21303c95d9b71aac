"""The kubeconfig of a cluster: whether the Secret of that name is the cluster's own, may be passed on, and where to.

Cluster API puts it into `<cluster>-kubeconfig` beside the Cluster. Whoever may write Secrets there can have put
anything into it, and those who get a copy trust it; so it is looked at before anybody does.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

from steelyard.api.claims import SecretReference
from steelyard.compose import clusterapi, connection, names
from steelyard.compose.composed import Desired, Observed
from steelyard.compose.shape import Shape
from steelyard.kube import foreignconfig, objects
from steelyard.kube.objects import Object

KUBECONFIG: Final = "kubeconfig"
"""The name under which the Secret is required."""
_MAKERS: Final = (clusterapi.CLUSTER, clusterapi.CONTROL_PLANE)


def own(observed: Observed, makers: Sequence[str] = _MAKERS) -> Object | None:
    """The Secret if it is that of the cluster which was made for the claim: one of the parts that stand for it (the
    Cluster itself, its control plane) controls it. One that only has the name may be the key to anybody's cluster.
    """
    kubeconfig = observed.one(KUBECONFIG)
    owner = objects.controller_of(kubeconfig) if kubeconfig is not None else None
    parts = [observed.resources[name] for name in makers if name in observed.resources]
    is_own = owner is not None and any(objects.uid(part) and objects.uid(part) == owner.get("uid") for part in parts)
    return kubeconfig if is_own else None


def not_to_pass_on(kubeconfig: Object | None, endpoint: str) -> str:
    """Why the kubeconfig is given to nobody; empty if it can be."""
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


def secret(claim: Object, asked: SecretReference | None, shape: Shape, kubeconfig: Object | None) -> Desired | None:
    """The Secret that the claim asks for, once there is a kubeconfig to put into it. Where the claim names the very
    Secret that Cluster API makes, that one gets the key which it does not have.
    """
    value = objects.at(kubeconfig, "data", "value")
    if asked is None or not value:
        return None
    made_by_cluster_api = (shape.namespace, names.kubeconfig_secret(shape.name))
    if (connection.namespace_of(claim, asked), asked.name) == made_by_cluster_api:
        return connection.addition(claim, asked, {"kubeconfig": str(value)})
    return connection.secret(claim, asked, {"kubeconfig": str(value), "value": str(value)})


def waiting_for(
    claim: Object, asked: SecretReference | None, shape: Shape, observed: Observed, makers: Sequence[str] = _MAKERS
) -> str:
    """What is still missing of the Secrets with the kubeconfig."""
    kubeconfig = own(observed, makers)
    if objects.at(kubeconfig, "data", "value") is None:
        name = names.kubeconfig_secret(shape.name)
        if observed.one(KUBECONFIG) is not None and kubeconfig is None:
            return f"waiting for Secret {name}: the one of that name is not this cluster's; delete it"
        return f"waiting for Secret {name}"
    return connection.waiting_for(claim, asked, observed, "kubeconfig")
