"""Asks an API server what a program may do there, before it begins: SelfSubjectAccessReviews, one for each permit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.permits import Permit
from steelyard.kube.resources import Resource

_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_WHO: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
_AT_ONCE: Final = 8


async def missing(client: Client, permits: Iterable[Permit], namespace: str = "") -> list[Permit]:
    """Those that whoever the client is does not have; with a `namespace`, there, else everywhere."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def lacks(permit: Permit) -> bool:
        asked: Object = {
            "verb": permit.verb,
            "group": permit.resource.group,
            "resource": permit.resource.plural,
            **({"subresource": permit.subresource} if permit.subresource else {}),
            **({"name": permit.name} if permit.name else {}),
            **({"namespace": namespace} if namespace else {}),
        }
        review: Object = {
            "apiVersion": _REVIEWS.api_version,
            "kind": _REVIEWS.kind,
            "spec": {"resourceAttributes": asked},
        }
        async with places:
            answer = await client.create(_REVIEWS, review)
        return objects.at(answer, "status", "allowed") is not True

    wanted = list(dict.fromkeys(permits))
    found = await asyncio.gather(*map(lacks, wanted))
    return [permit for permit, is_missing in zip(wanted, found, strict=True) if is_missing]


async def own_name(client: Client) -> str:
    """Who the client is to the server: `system:serviceaccount:steelyard-system:steelyard-controllers`."""
    answer = await client.create(_WHO, {"apiVersion": _WHO.api_version, "kind": _WHO.kind})
    return str(objects.at(answer, "status", "userInfo", "username") or "")
