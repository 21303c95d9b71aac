"""The connection Secret, which every kind of claim can ask for: where it goes, whose it is, when it goes away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from steelyard.api.claims import SecretReference
from steelyard.compose.composed import FIRST_STAGE, Desired, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS

CONNECTION: Final = "connection"
"""Its resource name. It may be in a namespace that is not the claim's; no other part may."""


def secret(claim: Object, asked: SecretReference, data: Mapping[str, str]) -> Desired:
    """A Secret of the claim's own with this data, in base64.

    In another namespace than the claim's ownership cannot be expressed, and the labels alone say whose it is.
    """
    namespace = namespace_of(claim, asked)
    obj: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": asked.name, "namespace": namespace},
        "type": "Opaque",
        "data": dict(data),
    }
    is_at_home = namespace == objects.namespace(claim)
    return Desired(SECRETS, obj, owned="owned" if is_at_home else "no", deletion_stage=FIRST_STAGE)


def addition(claim: Object, asked: SecretReference, data: Mapping[str, str]) -> Desired:
    """Keys in a Secret that somebody else makes and takes away."""
    metadata: Object = {"name": asked.name, "namespace": namespace_of(claim, asked)}
    obj: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": dict(data)}
    return Desired(SECRETS, obj, is_shared=True)


def namespace_of(claim: Object, asked: SecretReference) -> str:
    return asked.namespace or objects.namespace(claim)


def waiting_for(claim: Object, asked: SecretReference | None, observed: Observed, key: str) -> str:
    """What is still missing of a Secret that was asked for; nothing where it is there with its key."""
    if asked is None or objects.at(observed.resources.get(CONNECTION), "data", key) is not None:
        return ""
    return f"waiting for Secret {namespace_of(claim, asked)}/{asked.name}"
