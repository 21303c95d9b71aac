"""What applying leaves on an object, by which the next look knows what was applied.

A field that is no longer composed leaves no other trace to compare with, and one that somebody has changed by hand
looks like one that the claim now wants otherwise.
"""

from __future__ import annotations

import hashlib
from typing import Final

import orjson

from steelyard.kube import objects
from steelyard.kube.objects import Object

FIELD_MANAGER: Final = "steelyard-claims"
"""In whose name composed objects are applied."""
DIGEST: Final = "steelyard.dev/applied"
"""Annotation: digest of what was applied."""


def signed(desired: Object) -> Object:
    """The object as it is applied."""
    metadata = objects.metadata(desired)
    annotations = {**objects.annotations(desired), DIGEST: digest(desired)}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def digest(desired: Object) -> str:
    return hashlib.sha256(orjson.dumps(desired, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def is_of(desired: Object, observed: Object) -> bool:
    """Whether exactly this was applied last, whatever has been changed since."""
    return objects.annotations(observed).get(DIGEST) == digest(desired)
