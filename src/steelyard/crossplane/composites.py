"""A composite of Crossplane as the claim that compositions know.

    XWorkloadCluster shop-x7k2p, spec.claimRef: team-a/shop   ->   WorkloadCluster shop in team-a
    WorkloadCluster shop in team-a (Crossplane v2)            ->   itself

Everything outside is called after the claim, never after the composite, whose name has characters at random in it: a
claim that is made again finds its database.
"""

from __future__ import annotations

import re
from typing import Final

from steelyard.api import state, xrd
from steelyard.api.xrd import Form
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.offering import Offering
from steelyard.compose.refusing import Refused
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

CONNECTION_COPY: Final = "steelyard.dev/connection-secret-copy"
"""Annotation of a legacy claim, NAMESPACE/NAME: where a copy of its connection Secret goes. The claim's own reference
has no namespace there."""
_OF_SYNCED: Final = frozenset({state.DRIFTED, state.REFUSED, state.PAUSED, state.FAILING})
_PLACE: Final = re.compile(r"(?P<namespace>[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)/(?P<name>[a-z0-9][-a-z0-9.]{0,252})")


@frozen
class Place:
    namespace: str
    name: str


@frozen
class Subject:
    kind: ClaimKind
    claim: Object
    form: Form
    copy: Place | None = None
    """Where a copy of the connection Secret is asked for."""


def of(composite: Object, claim: Object | None, offering: Offering, platform: Platform) -> Subject:
    """`claim` is the claim of a legacy composite, where it was looked up: the composite does not say whether a
    connection Secret is asked for. Raises `Refused`."""
    form: Form = xrd.NAMESPACED if objects.namespace(composite) else xrd.LEGACY
    found = _in_namespace(composite) if form == xrd.NAMESPACED else _of_legacy(composite, claim)
    kind = offering.kind_of(found)
    if kind is None:
        raise Refused(
            "UnknownKind",
            f"the function has no composition for {found.get('kind')} of {found.get('apiVersion')}; it has "
            f"{', '.join(each.resource(platform.domain).kind for each in offering.kinds)}. Take the function out of "
            "this Composition's pipeline, or run a version that has it",
        )
    served = kind.resource(platform.domain).api_version
    if found["apiVersion"] != served:
        raise Refused(
            "AnotherDomain",
            f"{found['kind']} of {found['apiVersion']} is not this platform's, whose claims are of {served}; set "
            "domain in the platform file that the Composition's input or the function has",
        )
    if form == xrd.NAMESPACED:
        return Subject(kind, found, form)
    place = _copy(found)
    if place is not None and "writeConnectionSecretToRef" not in found["spec"]:
        found["spec"]["writeConnectionSecretToRef"] = {"name": place.name}
    return Subject(kind, found, form, place)


def claim_reference(composite: Object) -> Object:
    """Of a legacy composite: apiVersion, kind, namespace and name of its claim; empty where it has none."""
    return objects.mapping(objects.at(composite, "spec", "claimRef"))


def _in_namespace(composite: Object) -> Object:
    return {
        **_common(composite),
        "apiVersion": str(composite.get("apiVersion") or ""),
        "kind": str(composite.get("kind") or ""),
        "spec": _own(composite),
    }


def _of_legacy(composite: Object, claim: Object | None) -> Object:
    reference = claim_reference(composite)
    namespace, name = str(reference.get("namespace") or ""), str(reference.get("name") or "")
    if not namespace or not name:
        raise Refused(
            "NoClaim",
            f"{composite.get('kind')} {objects.name(composite)} has no claim (spec.claimRef), and everything is named "
            "after the claim and its namespace; delete it, and make a claim in a namespace instead",
        )
    found = _common(composite)
    found["metadata"] |= {"namespace": namespace, "name": name}
    spec = {key: value for key, value in _own(composite).items() if key != "writeConnectionSecretToRef"}
    asked = objects.mapping(objects.at(claim, "spec", "writeConnectionSecretToRef"))
    if asked.get("name"):
        spec["writeConnectionSecretToRef"] = {"name": str(asked["name"])}
    return {
        **found,
        "apiVersion": str(reference.get("apiVersion") or ""),
        "kind": str(reference.get("kind") or ""),
        "spec": spec,
    }


def _common(composite: Object) -> Object:
    """Metadata and status. Owners, finalizers and the identity on the server are the composite's, not the claim's."""
    metadata = objects.metadata(composite)
    kept = ("name", "namespace", "labels", "annotations", "creationTimestamp", "deletionTimestamp", "generation")
    status = dict(objects.mapping(composite.get("status")))
    if status:
        status["conditions"] = _conditions(status)
    return {
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        **({"status": status} if status else {}),
    }


def _own(composite: Object) -> Object:
    """The spec, without what Crossplane has in it."""
    spec = objects.mapping(composite.get("spec"))
    return {key: value for key, value in spec.items() if key not in xrd.OWN_FIELDS}


def _conditions(status: Object) -> list[Object]:
    """As compositions left them. Ready is Crossplane's to write, with reasons of its own; ours is the state, where that
    says how the claim is, and not what keeps it from being applied."""
    found: list[Object] = [dict(objects.mapping(each)) for each in objects.sequence(status.get("conditions"))]
    word = str(status.get("state") or "")
    for each in found:
        if each.get("type") != "Ready" or not word:
            continue
        if word not in _OF_SYNCED:
            each["reason"] = state.AVAILABLE if word == state.READY else word
        elif each.get("status") == "True":
            each["reason"] = state.AVAILABLE
    return found


def _copy(claim: Object) -> Place | None:
    said = objects.annotations(claim).get(CONNECTION_COPY, "")
    if not said:
        return None
    found = _PLACE.fullmatch(said)
    if found is None:
        raise Refused(
            "InvalidClaim",
            f"the annotation {CONNECTION_COPY}: {said[:100]} is no place for a Secret; write it as NAMESPACE/NAME",
        )
    return Place(found["namespace"], found["name"])
