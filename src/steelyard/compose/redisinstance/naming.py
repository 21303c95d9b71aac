"""What a claim's cache is called: the Helm release, or the user of its servers; and the object that stands for it.

team-a/shop                                      ->   redis-shop, object team-a-redis-shop-5b0e7a19
crossplane.io/external-name: redis-sessions      ->   redis-sessions
"""

from __future__ import annotations

import hashlib

from steelyard.api import externalnames
from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.api.externalnames import RELEASE_MAX, RELEASE_PREFIX
from steelyard.compose.refusing import Refused
from steelyard.kube import objects
from steelyard.kube.objects import Object


def of(claim: Object) -> str:
    """Raises `Refused` where the claim may not have the name that it gives, or once had another."""
    asked = objects.annotations(claim).get(EXTERNAL_NAME, "")
    if problem := externalnames.release_problem(asked) if asked else "":
        raise Refused("ExternalNameForbidden", f"the annotation {EXTERNAL_NAME}: {asked[:100]}: {problem}")
    name = asked or _derived(claim)
    status = objects.mapping(claim.get("status"))
    recorded = str(status.get("release") or status.get("username") or name)
    if recorded != name:
        what = "release" if status.get("release") else "cache"
        raise Refused(
            "ExternalNameChanged",
            f"the claim's {what} is {recorded}, and the annotation {EXTERNAL_NAME} says {asked or 'nothing'}; a "
            f"{what} does not change its name. Put the annotation back as it was, or make another claim",
        )
    return name


def of_object(namespace: str, name: str) -> str:
    """One cache is one object, and the API lets nobody have it twice."""
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:8]
    return f"{namespace}-{name}-{digest}"


def _derived(claim: Object) -> str:
    name = objects.name(claim)
    whole = f"{RELEASE_PREFIX}{name}"
    if len(whole) <= RELEASE_MAX:
        return whole
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{whole[: RELEASE_MAX - 9].rstrip('-')}-{digest}"
