"""What is to be in the cluster: the Secret or the ExternalSecret, signed with whose it is. Pure."""

from __future__ import annotations

from typing import Final

from steelyard.api.secretdelivery import DELIVERED_FOR, DELIVERY, EXTERNAL_SECRETS, SecretDeliverySpec
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.plan import changes, marks

KINDS: Final = (SECRETS, EXTERNAL_SECRETS)
"""What a delivery can have put there."""


@frozen
class Wanted:
    resource: Resource
    object: Object

    @property
    def digest(self) -> str:
        return marks.digest(self.object)

    def is_there(self, observed: Object) -> bool:
        """Whether all of it is; what others have added is theirs."""
        return changes.is_applied(self.object, observed)


def of_source(name: str, spec: SecretDeliverySpec, secret: Object) -> Wanted:
    """A copy of a Secret, or of some of its keys. One that is missing there is missing in the copy."""
    data = objects.mapping(secret.get("data"))
    keys = spec.source.keys if spec.source is not None else None
    chosen = data if keys is None else {key: value for key, value in data.items() if key in keys}
    return _signed(name, spec, SECRETS, {"type": "Opaque", "data": dict(chosen)})


def of_manifest(name: str, spec: SecretDeliverySpec) -> Wanted:
    """Only an ExternalSecret's spec is taken of it, whatever else it says."""
    return _signed(name, spec, EXTERNAL_SECRETS, {"spec": objects.mapping((spec.manifest or {}).get("spec"))})


def identity(spec: SecretDeliverySpec) -> str:
    """By name and not by UID, so that a claim restored from a backup or from Git finds it again."""
    claim = spec.delivered_for
    return f"{claim.kind}/{claim.namespace}/{claim.name}"


def is_ours(observed: Object, name: str, spec: SecretDeliverySpec) -> bool:
    is_labelled = objects.labels(observed).get(DELIVERY) == name
    return is_labelled and objects.annotations(observed).get(DELIVERED_FOR) == identity(spec)


def _signed(name: str, spec: SecretDeliverySpec, resource: Resource, content: Object) -> Wanted:
    metadata: Object = {
        "name": spec.target.name,
        "namespace": spec.target.namespace,
        "labels": {DELIVERY: name},
        "annotations": {DELIVERED_FOR: identity(spec)},
    }
    return Wanted(
        resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
    )
