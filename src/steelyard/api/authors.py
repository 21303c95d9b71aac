"""Who asked that a claim's connection Secret goes to another namespace: two annotations that only the API server sets.

The claims controller asks what that person may do before it writes there. So the annotations name the caller of the
request that created the reference or changed it, and stay as they are with every other request: the embedded server
writes them (`stamp`), and the policy of `policies.py` refuses a claim in which they say anything else, on
kube-apiserver as well.
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


@frozen
class Author:
    name: str
    groups: tuple[str, ...]


def of(claim: Object) -> Author | None:
    annotations = objects.annotations(claim)
    name = annotations.get(AUTHOR)
    return Author(name, tuple(annotations.get(GROUPS, "").splitlines())) if name else None


def destination(claim: Object) -> str:
    """The namespace of the connection Secret where it is not the claim's own, else nothing."""
    namespace = str(objects.at(claim, "spec", "writeConnectionSecretToRef", "namespace") or "")
    return "" if namespace == objects.namespace(claim) else namespace


def stamp(claim: Object, old: Object | None, user: str, groups: Sequence[str]) -> None:
    """Settles the annotations of a claim that is about to be written, whatever the client says of them; in place."""
    annotations = {**objects.annotations(claim)}
    said = {AUTHOR: annotations.pop(AUTHOR, None), GROUPS: annotations.pop(GROUPS, None)}
    if destination(claim):
        annotations |= _settled(claim, old, user, groups)
    elif said == {AUTHOR: None, GROUPS: None}:
        return
    claim["metadata"].pop("annotations", None)
    if annotations:
        claim["metadata"]["annotations"] = annotations


def _settled(claim: Object, old: Object | None, user: str, groups: Sequence[str]) -> dict[str, str]:
    if old is None or _reference(old) != _reference(claim):
        return {AUTHOR: user, GROUPS: "\n".join(groups)}
    known = objects.annotations(old)
    return {key: known[key] for key in (AUTHOR, GROUPS) if key in known}


def _reference(claim: Object) -> object:
    return objects.at(claim, "spec", "writeConnectionSecretToRef")
