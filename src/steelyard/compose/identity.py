"""Whose composed objects are: written onto them by the caller of compose, which knows, and not by compose.

    a claim of the embedded API   labels that name the claim; it owns what says so
    a file on disk                the labels alone: there is no object to own anything
    a Crossplane composite        Crossplane owns and names; templates need names of their own among its resources

The labels are by name and not by UID, so that a claim restored from a backup or from Git finds its cluster again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Container, Mapping

from steelyard.compose import names
from steelyard.compose.composed import Composed, Desired
from steelyard.kube import objects
from steelyard.kube.objects import Object

_HASHED = re.compile(r"^(?P<part>.+)-(?P<hash>[0-9a-f]{8})$")


def of_claim(claim: Object, composed: Composed) -> Composed:
    """For the embedded API. A claim that was never stored has no UID, and owns nothing."""
    return _signed(claim, composed, owner=claim if objects.uid(claim) else None)


def of_file(claim: Object, composed: Composed) -> Composed:
    """For manifests that go to Git: what applies them decides about ownership."""
    return _signed(claim, composed, owner=None)


def of_composite(claim: Object, composed: Composed) -> dict[str, Desired]:
    """For Crossplane, under its resource names.

    Crossplane keeps the name of an object that exists under a resource name. A template whose name changes with its
    content is therefore a resource of its own, `worker-machines-3f2a9c1b`.
    """
    signed = _signed(claim, composed, owner=None).desired
    return {name_in_composite(name, part): part for name, part in signed.items()}


def name_in_composite(resource_name: str, part: Desired) -> str:
    found = _HASHED.match(objects.name(part.object)) if part.in_use_while_rolling else None
    return resource_name if found is None else f"{resource_name}-{found['hash']}"


def given_back(composed: Composed, given: Container[str], observed: Mapping[str, Object]) -> dict[str, Object]:
    """What is no longer composed and stays for a while, as it was seen, under Crossplane's resource names: templates
    that machines are made of, and what cannot be composed at the moment. What is not given back, Crossplane deletes.

    `observed` are the parts that are there, under those names, and `given` the names that the composition has.
    """
    return {
        name: _as_applied(obj)
        for name, obj in observed.items()
        if name not in given and _is_still_needed(composed, objects.annotations(obj).get(names.RESOURCE_NAME, name))
    }


def _is_still_needed(composed: Composed, resource_name: str) -> bool:
    if resource_name in composed.retained:
        return True
    part = composed.desired.get(resource_name)
    return composed.rolling and (part is None or part.in_use_while_rolling)


def _as_applied(obj: Object) -> Object:
    """Without what the API server and others have added."""
    metadata = objects.metadata(obj)
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if key in metadata}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": kept}


def _signed(claim: Object, composed: Composed, owner: Object | None) -> Composed:
    desired = {
        resource_name: part if part.is_shared else _signed_part(claim, resource_name, part, owner)
        for resource_name, part in composed.desired.items()
    }
    return dataclasses.replace(composed, desired=desired)


def _signed_part(claim: Object, resource_name: str, part: Desired, owner: Object | None) -> Desired:
    metadata: Object = {
        **objects.metadata(part.object),
        "labels": {**names.claim_labels(claim), **objects.labels(part.object)},
        "annotations": {names.RESOURCE_NAME: resource_name, **objects.annotations(part.object)},
    }
    if owner is not None and part.owned != "no":
        is_guarded = part.owned == "guarded"
        metadata["ownerReferences"] = [
            objects.owner_reference(owner, controller=True, block_owner_deletion=True)
            if is_guarded
            else objects.owner_reference(owner, controller=True)
        ]
    return dataclasses.replace(part, object={**part.object, "metadata": metadata})
