"""Applying one composed object: server-side, only when something differs, and never over somebody else's object."""

from __future__ import annotations

import hashlib
from typing import Final

import orjson

from steelyard.compose import comparing
from steelyard.compose.composed import Desired
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object

FIELD_MANAGER: Final = "steelyard-claims"
DIGEST: Final = "steelyard.dev/applied"
"""Annotation: digest of what was applied. A field that is no longer composed leaves no other trace to compare with."""

_BEFORE_ANYTHING: Final = "1"
"""The revision of the first object that an API server ever stored, which is none of a claim's."""


async def apply(client: Client, desired: Desired, *, observed: Object | None, foreign: Object | None) -> bool:
    """Brings the object to what is desired; False when there was nothing to do.

    Raises `errors.AlreadyExists` where a `foreign` object, one not made for the claim, has its name, and
    `errors.Conflict` where an object has it that was not observed.
    """
    if foreign is not None:
        raise errors.AlreadyExists("it exists and was not made for this claim; delete it, or choose another name")
    # One that is going away is waited for, and then made anew.
    if observed is not None and (objects.is_being_deleted(observed) or is_applied(desired.object, observed)):
        return False
    signed = _signed(desired.object)
    if observed is None:
        # What a cache has not seen may be there all the same. A revision is ignored where there is nothing, and refused
        # where there is an object of another one.
        signed["metadata"]["resourceVersion"] = _BEFORE_ANYTHING
    await client.apply(desired.resource, signed, field_manager=FIELD_MANAGER)
    return True


def is_applied(desired: Object, observed: Object) -> bool:
    return objects.annotations(observed).get(DIGEST) == digest(desired) and comparing.covers(observed, desired)


def digest(desired: Object) -> str:
    return hashlib.sha256(orjson.dumps(desired, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _signed(desired: Object) -> Object:
    metadata = objects.metadata(desired)
    annotations = {**objects.annotations(desired), DIGEST: digest(desired)}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}
