"""What a cluster gets from other programs: which parts are composed for those that are enabled, and what they wait for.

A claim of revision v1 gets none; what is enabled and composed for nobody is told in a condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.api.clusterapi import wellknown
from steelyard.api.crossplane import PUSH_SECRETS
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.compose.claimkind import Reported
from steelyard.compose.composed import Condition, Desired, Observed
from steelyard.compose.integrations import (
    addons,
    argocd,
    backstage,
    cni,
    externalsecrets,
    flannel,
    inside,
    networkmanifests,
    sharedservices,
    vault,
)
from steelyard.compose.integrations.subject import NOTHING, Integrated, Subject
from steelyard.compose.networkpolicies import NETWORK_POLICIES
from steelyard.compose.shape import Shape
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, Resource

OF_OTHERS: Final[tuple[Resource, ...]] = (
    argocd.APPLICATIONS,
    inside.CLUSTER_RESOURCE_SETS,
    PUSH_SECRETS,
    sharedservices.SERVICE_ENTRIES,
    VAULT_ENTRIES,
)
"""Kinds of the programs' own."""
MAKES: Final[tuple[Resource, ...]] = (*OF_OTHERS, CONFIG_MAPS, NETWORK_POLICIES)
"""Besides Secrets."""
COMPOSED: Final = {
    "argocd": "",
    "vault": "",
    "externalSecrets": "vault",
    "sharedServices": "",
    "istio": "sharedServices",
    "backstage": "",
}
"""Integrations that this version composes objects for, as the platform file names them, each with the one without which
it composes nothing."""
REPORTED: Final = (
    Reported(
        "Integrated",
        "False",
        "IntegrationNotAvailable",
        "The platform file enables what this version composes nothing for, or only together with another.",
    ),
    Reported("AddOnsInstalled", "True", "Installed", "Argo CD has installed every add-on."),
    Reported("AddOnsInstalled", "False", "Waiting", "Not yet; the message says in Argo CD's words what is missing."),
    Reported("AddOnsInstalled", "Unknown", "NobodyInstallsThem", "Argo CD is not enabled."),
    Reported("NetworkInstalled", "Unknown", "NobodyInstallsIt", "Nothing here installs the cluster's network plugin."),
    Reported(
        "NetworkInstalled", "False", "ManifestsNotUsable", "What the platform file names for it cannot be used yet."
    ),
    Reported("VaultConfigured", "True", "Configured", "Vault knows the cluster; the message says where it logs in."),
    Reported("VaultConfigured", "False", "Configuring", "Not yet, or Vault is away; the message says which."),
    Reported("VaultConfigured", "False", "WaitingForCluster", "The cluster has no address yet that Vault could ask."),
    Reported("VaultConfigured", "Unknown", "NobodyConfiguresIt", "What there is to set up in Vault for the cluster."),
    Reported("VaultConfigured", "False", "NobodyBringsTheStore", "Nothing can bring a store into such a cluster."),
    Reported(
        "SharedServices",
        "False",
        "AddressInCluster",
        "The address of the management cluster's DNS is one of the cluster's own.",
    ),
    Reported("SharedServices", "False", "NobodyTellsItsDNS", "Nothing can tell the DNS of such a cluster of them."),
)
"""Conditions that claims for clusters can have by this."""


def of(subject: Subject) -> Integrated:
    enabled = subject.platform.integrations.enabled()
    if subject.shape.revision == "v1":
        return Integrated(conditions=_not_composed(enabled, "composition revision v1, which the claim is pinned to,"))
    missing = [name for name in enabled if name not in COMPOSED or COMPOSED[name] not in ("", *enabled)]
    found = Integrated(conditions=_not_composed([_named(name) for name in missing])) | _network(subject)
    for each in (addons.of, vault.of, externalsecrets.of, sharedservices.of, backstage.of):
        found |= each(subject)
    return found


def _network(subject: Subject) -> Integrated:
    """Argo CD gets the cluster; and it, or else a ClusterResourceSet, brings the cluster's network plugin. One that
    machines have already is always brought by the latter."""
    shape, settings = subject.shape, subject.platform.integrations.argocd
    addresses = tuple(_addresses(subject.machines))
    is_own = shape.network.plugin in subject.infrastructure.own_plugins
    own = flannel.of(subject) if is_own else NOTHING
    if not settings.enabled:
        if is_own:
            return own
        if shape.network.plugin and subject.infrastructure.network_manifests.of(shape.network.plugin):
            return networkmanifests.of(subject, addresses)
        return Integrated(conditions=_no_network(subject))
    parts = argocd.registration(shape, subject.claim, settings, subject.kubeconfig)
    wanted = {argocd.CLUSTER}
    if shape.network.plugin and not is_own:
        wanted.add(cni.NETWORK)
        parts |= cni.application(shape, subject.claim, settings, endpoint=subject.endpoint, control_plane=addresses)
    waiting_for = _waiting_for(shape, wanted, parts, subject.observed)
    return own | Integrated(parts, retained=frozenset(wanted - parts.keys()), waiting_for=waiting_for)


def _waiting_for(shape: Shape, wanted: set[str], parts: dict[str, Desired], observed: Observed) -> str:
    if argocd.CLUSTER in wanted and argocd.CLUSTER not in observed.resources:
        return "waiting for the cluster's registration with Argo CD"
    if cni.NETWORK not in wanted:
        return ""
    if cni.NETWORK not in parts:
        return f"waiting for what {shape.network.plugin} must be told: the addresses of the control plane"
    problem = argocd.waiting_for(observed.resources.get(cni.NETWORK))
    application = objects.qualified_name(parts[cni.NETWORK].object)
    return (
        f"waiting for Argo CD to install {shape.network.plugin} (Application {application}: {problem})"
        if problem
        else ""
    )


def _addresses(machines: Sequence[Object]) -> Iterator[str]:
    """Of the control plane's machines, sorted: the order in which they come must not change what is composed."""
    found = {
        str(objects.mapping(address).get("address"))
        for machine in machines
        if wellknown.CONTROL_PLANE_LABEL in objects.labels(machine) and not objects.is_being_deleted(machine)
        for address in objects.sequence(objects.at(machine, "status", "addresses"))
        if objects.mapping(address).get("type") == "InternalIP"
    }
    yield from sorted(found)


def _not_composed(missing: Sequence[str], composer: str = "this version of Steelyard") -> list[Condition]:
    if not missing:
        return []
    return [
        Condition(
            "Integrated",
            "False",
            "IntegrationNotAvailable",
            f"the platform file enables {', '.join(missing)}, for which {composer} composes nothing; the cluster is "
            f"not known there",
        )
    ]


def _named(name: str) -> str:
    needed = COMPOSED.get(name)
    return f"{name} without {needed}" if needed else name


def _no_network(subject: Subject) -> list[Condition]:
    """Nodes of such a cluster wait for somebody to bring a network."""
    plugin = subject.shape.network.plugin
    if not plugin:
        return []
    return [
        Condition(
            "NetworkInstalled",
            "Unknown",
            "NobodyInstallsIt",
            f"nothing here installs {plugin}, without which no Node becomes Ready: enable integrations.argocd in the "
            f"platform file, name manifests of it there in {subject.infrastructure.name}.networkManifests, or install "
            "it in the cluster by hand",
        )
    ]
