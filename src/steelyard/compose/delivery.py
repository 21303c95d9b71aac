"""A claim's connection data in workload clusters: from what its `deliverTo` says to SecretDeliveries. Pure.

    deliverTo: [{cluster: shop, namespace: web, name: db}]   ->   a Secret with the data beside the credentials, where
                                                                  only the platform reads it, and a SecretDelivery

Every kind of claim with connection data can have it: the composition calls `compose`, adds what comes back, and has
`MAKES` among the kinds that it makes and `left` for what its deletion waits for. A delivery that waits, or that nobody
may have, keeps nobody from the database itself: it is told in the condition Delivered and in UpToDate, and Ready is
about the database alone.

Whose rights: into clusters of the claim's own namespace, anybody's who may write the claim. Into others those of who
wrote the list, which are asked for when the claim is written (`api/policies.py: deliveries`) and by the controller
before each use; or a grant of the platform file. With Vault and External Secrets enabled no password goes through the
platform: the ExternalSecret names what its cluster fetches from Vault by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from steelyard.api import authors, secretdelivery, troubles
from steelyard.api.secretdelivery import EXTERNAL_SECRETS, RESERVED, Delivery, DeliveryReport
from steelyard.compose import comparing, managed, names
from steelyard.compose.claimkind import Reported
from steelyard.compose.composed import FIRST_STAGE, LAST_STAGE, Condition, Desired, Observed, Requirement
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.settings import Platform

MAKES: Final[tuple[Resource, ...]] = (secretdelivery.RESOURCE, SECRETS)
"""For `ClaimKind.makes`."""
SOURCE: Final = "delivered"
"""Resource name of the Secret that deliveries copy. It is in another namespace than the claim's, where the credentials
are."""
REPORTED: Final = (
    Reported("Delivered", "True", "Delivered", "The connection data is in the clusters that `deliverTo` names."),
    Reported("Delivered", "False", "NotDelivered", "Not in all of them; the message says why, and what to do."),
)
"""For `Guide.conditions`."""
_PREFIX: Final = "delivery-"
_REFRESHED: Final = "5m"
_DELIVERED: Final = "Delivered"


@frozen
class InVault:
    """Where the same data is in Vault."""

    path: str
    """With the engine first: secret/apps/dev/shop."""
    properties: Mapping[str, str]
    """The keys that applications are to find in their Secret, each with the property at the path that it is:
    {"password": "password", "DATABASE_URL": "database-url"}."""


@frozen
class Deliveries:
    desired: Mapping[str, Desired] = field(default_factory=dict[str, Desired])
    requirements: Mapping[str, Requirement] = field(default_factory=dict[str, Requirement])
    retained: frozenset[str] = frozenset()
    status: Object = field(default_factory=dict[str, object])
    """Fields of the claim's status: `deliveries`, or nothing."""
    waiting_for: str = ""
    """The first of what is missing, in words; empty when everything is where it should be."""
    waits_untold: bool = False
    """For `Composed.waits_untold`: another claim has the place, and nothing tells when it goes."""
    are_asked_for: bool = False

    def conditions(self, others: Sequence[Condition]) -> list[Condition]:
        """Those of the claim, with Delivered where something is to be; and what is not delivered is not UpToDate."""
        if not self.are_asked_for:
            return list(others)
        if not self.waiting_for:
            return [*others, Condition(_DELIVERED, "True", "Delivered")]
        told = [
            Condition("UpToDate", "False", "NotDelivered", self.waiting_for)
            if each.type == "UpToDate" and each.status == "True"
            else each
            for each in others
        ]
        return [*told, Condition(_DELIVERED, "False", "NotDelivered", self.waiting_for)]


NONE: Final = Deliveries()


def compose(
    claim: Object,
    wanted: Sequence[Delivery] | None,
    observed: Observed,
    platform: Platform,
    *,
    credentials_namespace: str,
    data: Mapping[str, str] | None,
    in_vault: InVault | None = None,
) -> Deliveries:
    """`data` is what a Secret in a cluster is to hold, not encoded; None while it is not known: what is there stays.
    `credentials_namespace` is where only the platform may read. `in_vault` counts where the platform file enables vault
    and externalSecrets."""
    places = {_name(claim, each): each for each in wanted or ()}
    if not places:
        return NONE
    fetched = _fetched(in_vault, platform)
    desired: dict[str, Desired] = {}
    if fetched is None and data is not None:
        desired[SOURCE] = _source(claim, credentials_namespace, data)
    taken: dict[str, str] = {}
    for name, place in places.items():
        if problem := _taken(claim, place, observed.one(_namesake(name))):
            taken[name] = problem
        else:
            desired[_part(name)] = _delivery(claim, name, place, platform, credentials_namespace, fetched)
    reports = [_report(claim, name, each, desired, observed, taken) for name, each in places.items()]
    return Deliveries(
        desired=desired,
        requirements={_namesake(name): Requirement(secretdelivery.RESOURCE, "", name) for name in places},
        retained=frozenset({SOURCE} if fetched is None and data is None else ()),
        status={"deliveries": [each.to_json() for each in reports]},
        waiting_for=next((each.message or "" for each in reports if not each.ready), ""),
        waits_untold=bool(taken),
        are_asked_for=True,
    )


def left(required: Mapping[str, Sequence[Object]]) -> str:
    """For `ClaimKind.left`: what a delivery that is to go says of why it is still there."""
    for name, found in required.items():
        for each in found:
            if name.startswith(_PREFIX) and objects.is_being_deleted(each):
                return str(troubles.condition(each, "Synced").get("message") or "")
    return ""


def environment(data: Mapping[str, str] | None, variables: Mapping[str, str]) -> dict[str, str] | None:
    """The data, and some of it once more under the names of environment variables.

    >>> environment({"uri": "postgresql://x"}, {"DATABASE_URL": "uri"})
    {'uri': 'postgresql://x', 'DATABASE_URL': 'postgresql://x'}
    """
    if data is None:
        return None
    return {**data, **{name: data[key] for name, key in variables.items() if key in data}}


def _name(claim: Object, place: Delivery) -> str:
    return secretdelivery.name_of(_home(claim, place), place.cluster, place.namespace, place.name)


def _home(claim: Object, place: Delivery) -> str:
    return place.cluster_namespace or objects.namespace(claim)


def _part(name: str) -> str:
    return f"{_PREFIX}{name.rpartition('-')[2]}"


def _namesake(name: str) -> str:
    return f"{_PREFIX}{name}"


def _taken(claim: Object, place: Delivery, found: Object | None) -> str:
    """Nothing is delivered to one place for two claims: the second is told."""
    if found is None or objects.matches(names.claim_labels(claim), found):
        return ""
    known = objects.mapping(objects.at(found, "spec", "deliveredFor"))
    is_near = known.get("namespace") == objects.namespace(claim)
    whose = f"{known.get('kind')} {known.get('name')}" if is_near else "a claim in another namespace"
    return f"{place.namespace}/{place.name} in cluster {place.cluster} is what {whose} delivers; choose another name"


def _source(claim: Object, namespace: str, data: Mapping[str, str]) -> Desired:
    obj: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": _source_name(claim),
            "namespace": namespace,
            "labels": {secretdelivery.IS_SOURCE: "true"},
        },
        "type": "Opaque",
        "data": managed.encoded(data),
    }
    return Desired(SECRETS, obj, deletion_stage=LAST_STAGE)


def _source_name(claim: Object) -> str:
    """A namespace and a kind have no dot in their names, so no two claims have the same."""
    kind = str(claim.get("kind") or "").lower()
    return f"delivery.{kind}.{objects.namespace(claim)}.{objects.name(claim)}"


def _delivery(
    claim: Object,
    name: str,
    place: Delivery,
    platform: Platform,
    credentials_namespace: str,
    fetched: InVault | None,
) -> Desired:
    spec: Object = {
        "cluster": {"namespace": _home(claim, place), "name": place.cluster},
        "target": {"namespace": place.namespace, "name": place.name},
        "deliveredFor": {
            "kind": str(claim.get("kind") or ""),
            "namespace": objects.namespace(claim),
            "name": objects.name(claim),
        },
        **_rights(claim, place, platform),
    }
    if fetched is not None:
        spec["manifest"] = external_secret(place.name, fetched, platform.integrations.vault.secret_store)
    else:
        spec["source"] = {"namespace": credentials_namespace, "name": _source_name(claim)}
    resource = secretdelivery.RESOURCE
    obj: Object = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    return Desired(resource, obj, deletion_stage=FIRST_STAGE)


def _rights(claim: Object, place: Delivery, platform: Platform) -> Object:
    """Whose right is to be asked for, or why there is none to ask for."""
    namespace, home = objects.namespace(claim), _home(claim, place)
    if place.namespace in RESERVED:
        return {"suspended": f"nothing is delivered into {place.namespace}; choose another namespace in deliverTo"}
    granted = platform.connection_secrets
    if home == namespace or granted.allows_clusters(namespace, home):
        return {}
    grant = f"grant claims in {namespace} the clusters in {home} (connectionSecrets.grants in the platform file)"
    author = authors.of_deliveries(claim)
    if author is None:
        return {"suspended": f"the claim does not say who asked for it. Write deliverTo anew, or {grant}"}
    if author.name in granted.robot_users():
        return {"suspended": f"{author.name} acts for others, so its own rights do not count. {_capital(grant)}"}
    return {"onBehalfOf": {"user": author.name, "groups": list(author.groups)}}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _fetched(in_vault: InVault | None, platform: Platform) -> InVault | None:
    """None where a Secret is delivered instead: also where clusters' stores have another engine than the data is in."""
    programs = platform.integrations
    if in_vault is None or not (programs.vault.enabled and programs.external_secrets.enabled):
        return None
    return in_vault if in_vault.path.partition("/")[0] == programs.vault.mount else None


def external_secret(name: str, in_vault: InVault, store: str) -> Object:
    """An ExternalSecret without metadata, for the store that each cluster has by the name of the platform's."""
    key = in_vault.path.partition("/")[2]
    return {
        "apiVersion": EXTERNAL_SECRETS.api_version,
        "kind": EXTERNAL_SECRETS.kind,
        "spec": {
            "refreshInterval": _REFRESHED,
            "secretStoreRef": {"name": store, "kind": "ClusterSecretStore"},
            "target": {"name": name, "creationPolicy": "Owner"},
            "data": [
                {"secretKey": each, "remoteRef": {"key": key, "property": found}}
                for each, found in in_vault.properties.items()
            ],
        },
    }


def _report(
    claim: Object,
    name: str,
    place: Delivery,
    desired: Mapping[str, Desired],
    observed: Observed,
    taken: Mapping[str, str],
) -> DeliveryReport:
    report = DeliveryReport(
        cluster=place.cluster,
        cluster_namespace=_home(claim, place),
        namespace=place.namespace,
        name=place.name,
        delivery="" if name in taken else name,
        ready=False,
        message=taken.get(name),
    )
    if name in taken:
        return report
    waiting = _waiting_for(place, desired[_part(name)], observed.resources.get(_part(name)))
    return report.model_copy(update={"ready": not waiting, "message": waiting or None})


def _waiting_for(place: Delivery, part: Desired, here: Object | None) -> str:
    what = f"{place.namespace}/{place.name} in cluster {place.cluster}"
    if here is None:
        return f"{what}: not begun yet"
    is_current = comparing.covers(here.get("spec"), part.object["spec"])
    ready, synced = troubles.condition(here, "Ready"), troubles.condition(here, "Synced")
    seen = int(ready.get("observedGeneration") or 0)
    if is_current and seen >= objects.generation(here) and {ready.get("status"), synced.get("status")} == {"True"}:
        return ""
    told = next((str(each["message"]) for each in (synced, ready) if each.get("message")), "not begun yet")
    return f"{what}: {told}"
