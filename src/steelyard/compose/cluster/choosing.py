"""What every claim for a cluster chooses: an environment of the platform file, and what its machines are made of.

Neither follows a change of the platform file behind its author's back: a cluster stays on the infrastructure that it
was made on, since machines of another are other machines, in another place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from steelyard.api import clusterpolicies, versions
from steelyard.api.nodesettings import NodeSettings
from steelyard.compose import names
from steelyard.compose.composed import Observed
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.networks import Ranges
from steelyard.compose.refusing import Refused
from steelyard.compose.shape import Network
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Environment, Platform
from steelyard.settings.networkplugins import FLANNEL

OF_IMAGES: Final = frozenset({FLANNEL})
"""Network plugins that come with images of machines, and from nowhere else."""


def environment(name: str, platform: Platform) -> Environment:
    found = platform.environment(name)
    if found is None:
        raise Refused(
            "EnvironmentNotAvailable",
            f"the platform file has no environment {name}; what was made for the claim stays as "
            f"it is. Set spec.parameters.environment to one of {', '.join(platform.environments)}, or bring it back",
        )
    return found


def infrastructure_name(claim: Object, asked: str | None, default: str) -> str:
    """The claim's word; else the one that the cluster is on already; else the platform's."""
    running = str(objects.at(claim, "status", "parameters", "infrastructure") or "")
    wanted = asked or running or default
    if running and wanted != running:
        raise Refused(
            "InfrastructureCannotChange",
            f"the cluster is made of {running} machines, and cannot become one of {wanted}: its machines and what they "
            f"hold would be lost. Set spec.parameters.infrastructure to {running}, and make a new claim for {wanted}",
        )
    return wanted


def infrastructure(
    name: str,
    revision: str,
    infrastructures: Mapping[str, Infrastructure],
    platform: Platform,
    nodes: NodeSettings | None = None,
) -> Infrastructure:
    """With the settings of the platform file, and those of the claim in their place."""
    found = infrastructures.get(name)
    if found is None:
        raise Refused(
            "InfrastructureNotAvailable",
            f"this version of Steelyard cannot make clusters of infrastructure {name}; "
            f"set spec.parameters.infrastructure to {' or '.join(infrastructures)}",
        )
    if revision == "v1" and (found.has_namespace or not found.has_network):
        raise Refused(
            "InfrastructureNotAvailable",
            f"composition revision v1, which the claim is pinned to, cannot make clusters of infrastructure {name}; "
            f"make a new claim for it",
        )
    if nodes is None or revision == "v1":
        return found.on(platform)
    if found.adjusted is None:
        problem = clusterpolicies.no_settings(name)
        raise Refused("ParametersNotAvailable", f"{clusterpolicies.SETTINGS}: {problem}")
    return found.adjusted(platform, nodes)


def name(claim: Object, infrastructure: Infrastructure) -> str:
    """Of the cluster."""
    found = names.cluster(claim)
    if infrastructure.has_services and not found[:1].isalpha():
        raise Refused(
            "NameNotUsable",
            f"on {infrastructure.name} the API of a cluster is reached by a Service that is called after it, and the "
            f"name of a Service begins with a letter, unlike {found}; make a claim with another name",
        )
    return found


def namespace(claim: Object, infrastructure: Infrastructure) -> str:
    """Where the cluster's objects are."""
    home = objects.namespace(claim)
    return names.external(home, objects.name(claim)) if infrastructure.has_namespace else home


def network(infrastructure: Infrastructure, ranges: Ranges, plugin: str, observed: Observed) -> Network:
    """`plugin` is what carries the traffic of pods where the machines come without a network."""
    carrier = "" if infrastructure.has_network else plugin
    if carrier in OF_IMAGES and carrier not in infrastructure.own_plugins:
        problem = clusterpolicies.no_plugin(carrier, infrastructure.name)
        raise Refused("ParametersNotAvailable", f"{clusterpolicies.PLUGIN}: {problem}")
    return Network(ranges.pods, ranges.services, carrier, _domain(infrastructure, observed))


def _domain(infrastructure: Infrastructure, observed: Observed) -> str:
    """That which the cluster was made with: nothing inside could follow a change."""
    cluster = observed.resources.get("cluster")
    if cluster is None:
        return infrastructure.cluster_domain
    return str(objects.at(cluster, "spec", "clusterNetwork", "serviceDomain") or "")


def version(environment: str, settings: Environment, asked: str | None, running: str) -> tuple[str, str]:
    """The version to use, and why it is not the environment's, where a cluster that runs another cannot go there.

    What a claim says itself was checked when it was written; another platform file was not.
    """
    wanted = versions.canonical(settings.kubernetes_version if asked is None else asked)
    problem = versions.step_problem(running, wanted) if asked is None else ""
    if not problem:
        return wanted, ""
    return running, (
        f"the version of environment {environment}, {wanted}, cannot be reached from {running}: {problem}; "
        "until then the cluster stays as it is. Name each version on the way in spec.parameters.kubernetesVersion"
    )


def running_version(claim: Object) -> str:
    return str(objects.at(claim, "status", "parameters", "kubernetesVersion") or "")
