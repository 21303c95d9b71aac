"""Who asked that a claim's connection Secret goes to another namespace, or into clusters of another: for each a
pair of annotations that only the API server sets.

What that person may do is asked before anything is written there. So the annotations name the caller of the request
that created the reference or changed it, and stay as they are with every other request: the embedded server writes them
(`stamp`), and the policies of `policies.py` refuse a claim in which they say anything else, on kube-apiserver as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

AUTHOR: Final = "steelyard.dev/author"
GROUPS: Final = "steelyard.dev/author-groups"
"""The author's groups, one a line."""
DELIVERY_AUTHOR: Final = "steelyard.dev/delivery-author"
DELIVERY_GROUPS: Final = "steelyard.dev/delivery-author-groups"
"""The same of who wrote `spec.parameters.deliverTo`."""
CLONE_AUTHOR: Final = "steelyard.dev/clone-author"
CLONE_GROUPS: Final = "steelyard.dev/clone-author-groups"
"""The same of who wrote `spec.parameters.cloneFrom`."""
_SETTLED: Final = frozenset((AUTHOR, GROUPS, DELIVERY_AUTHOR, DELIVERY_GROUPS, CLONE_AUTHOR, CLONE_GROUPS))


@frozen
class Author:
    name: str
    groups: tuple[str, ...]


def of(claim: Object) -> Author | None:
    return _found(claim, AUTHOR, GROUPS)


def of_deliveries(claim: Object) -> Author | None:
    return _found(claim, DELIVERY_AUTHOR, DELIVERY_GROUPS)


def of_clone(claim: Object) -> Author | None:
    return _found(claim, CLONE_AUTHOR, CLONE_GROUPS)


def _found(claim: Object, author: str, groups: str) -> Author | None:
    annotations = objects.annotations(claim)
    name = annotations.get(author)
    return Author(name, tuple(annotations.get(groups, "").splitlines())) if name else None


def destination(claim: Object) -> str:
    """The namespace of the connection Secret where it is not the claim's own, else nothing."""
    namespace = str(objects.at(claim, "spec", "writeConnectionSecretToRef", "namespace") or "")
    return "" if namespace == objects.namespace(claim) else namespace


def delivers_elsewhere(claim: Object) -> bool:
    """Whether something is to go into a cluster that is not in the claim's own namespace."""
    places = map(objects.mapping, objects.sequence(_deliveries(claim)))
    return any(each.get("clusterNamespace") not in (None, objects.namespace(claim)) for each in places)


def clones_elsewhere(claim: Object) -> bool:
    """Whether data of another namespace is to be copied."""
    return objects.mapping(_clone(claim)).get("namespace") not in (None, objects.namespace(claim))


def stamp(claim: Object, old: Object | None, user: str, groups: Sequence[str]) -> None:
    """Settles the annotations of a claim that is about to be written, whatever the client says of them; in place."""
    said = objects.annotations(claim)
    annotations = {key: value for key, value in said.items() if key not in _SETTLED}
    now = (user, "\n".join(groups))
    if destination(claim):
        is_new = old is None or _reference(old) != _reference(claim)
        annotations |= _settled((AUTHOR, GROUPS), now if is_new else None, old)
    if delivers_elsewhere(claim):
        is_new = old is None or _deliveries(old) != _deliveries(claim)
        annotations |= _settled((DELIVERY_AUTHOR, DELIVERY_GROUPS), now if is_new else None, old)
    if clones_elsewhere(claim):
        is_new = old is None or _clone(old) != _clone(claim)
        annotations |= _settled((CLONE_AUTHOR, CLONE_GROUPS), now if is_new else None, old)
    if annotations == said:
        return
    claim["metadata"].pop("annotations", None)
    if annotations:
        claim["metadata"]["annotations"] = annotations


def _settled(keys: tuple[str, str], now: tuple[str, str] | None, old: Object | None) -> dict[str, str]:
    if now is not None:
        return dict(zip(keys, now, strict=True))
    known = objects.annotations(old or {})
    return {key: known[key] for key in keys if key in known}


def _reference(claim: Object) -> object:
    return objects.at(claim, "spec", "writeConnectionSecretToRef")


def _clone(claim: Object) -> object:
    return objects.at(claim, "spec", "parameters", "cloneFrom")


def _deliveries(claim: Object) -> object:
    return objects.at(claim, "spec", "parameters", "deliverTo")
