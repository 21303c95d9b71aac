"""How an object is written at the target, and what is patched at either end. Pure.

A copy has everything but what a server gives (UID, revision, times): labels, annotations, finalizers, status, who
manages which field. Owner references lead to the copies of the owners. Until it is resumed it is paused, and carries
which move made it, of which object, and digests of what that held.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from steelyard.api import authors
from steelyard.api.claims import CREATED, PROTECTED
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.moving.belongings import Thing

FIELD_MANAGER: Final = "steelyard-move"
MOVE: Final = "steelyard.dev/move"
"""Label of a copy, annotation of an object that was paused for a move: which move."""
SOURCE: Final = "steelyard.dev/moved-from"
"""Annotation of a copy: the UID of the original."""
CONTENT: Final = "steelyard.dev/moved-content"
"""Annotation of a copy: digests of what the original held, and of what is left of that when it is let go."""
WAS_PAUSED: Final = "steelyard.dev/was-paused"
"""Annotation: what stood in the place of the pause before the move, and is put back."""
LET_GO: Final = "steelyard.dev/let-go"
"""Annotation of an original: its finalizers are taken off for this move, its copy has them. Whoever may write the
object may say so, too: it counts together with what the copy says only."""

_OF_THE_SERVER: Final = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "managedFields", "selfLink",
)  # fmt: skip
_PROTECTION: Final = "deletionProtection"
_OWN: Final = (MOVE, SOURCE, CONTENT, WAS_PAUSED, LET_GO)
_AUTHORS: Final = (
    (authors.AUTHOR, authors.GROUPS),
    (authors.DELIVERY_AUTHOR, authors.DELIVERY_GROUPS),
    (authors.CLONE_AUTHOR, authors.CLONE_GROUPS),
)


def paused(thing: Thing, move: str) -> Object | None:
    """The patch that pauses an original; None where that has been done, or nothing acts on it."""
    pause, obj = thing.pause, thing.object
    is_marked = objects.annotations(obj).get(MOVE) == move
    if pause is None or thing.is_held_by_cluster or (is_marked and is_paused(thing)):
        return None
    wanted: dict[str, str | None] = {MOVE: move}
    if not is_marked:
        wanted |= _remembered(thing)
    metadata: Object = {"uid": objects.uid(obj), "annotations": wanted}
    if thing.is_cluster:
        return {"metadata": metadata, "spec": {"paused": True}}
    wanted[pause.annotation] = pause.value
    return {"metadata": metadata}


def is_paused(thing: Thing) -> bool:
    """As whoever acts on it understands it: `crossplane.io/paused: "false"` pauses nothing."""
    pause, obj = thing.pause, thing.object
    if thing.is_cluster:
        return bool(objects.at(obj, "spec", "paused"))
    said = None if pause is None else objects.annotations(obj).get(pause.annotation)
    return pause is not None and said is not None and (pause.by_any_value or said == pause.value)


def is_held(thing: Thing) -> bool:
    """Whether nothing acts on it: it is paused itself, or with its Cluster, or nothing would in any case."""
    return thing.pause is None or thing.is_held_by_cluster or is_paused(thing)


def _remembered(thing: Thing) -> dict[str, str | None]:
    """The annotation by which `resumed` finds what stood there before; what somebody wrote into it does not count."""
    pause, annotations = thing.pause, objects.annotations(thing.object)
    if thing.is_cluster or pause is None:
        said = "true" if is_paused(thing) else None
    else:
        said = annotations.get(pause.annotation)
    return {} if said is None and WAS_PAUSED not in annotations else {WAS_PAUSED: said}


def resumed(thing: Thing) -> Object:
    """The patch that takes off what the move put onto an object, and puts back what somebody had said of its pause."""
    obj = thing.object
    annotations = objects.annotations(obj)
    change: dict[str, str | None] = {key: None for key in _OWN if key in annotations}
    metadata: Object = {"annotations": change}
    if MOVE in objects.labels(obj):
        metadata["labels"] = {MOVE: None}
    patch: Object = {"metadata": metadata}
    if thing.pause is None:
        return patch
    before = annotations.get(WAS_PAUSED)
    if thing.is_cluster and before is None:
        patch["spec"] = {"paused": None}
    elif not thing.is_cluster and thing.pause.annotation in annotations:
        change[thing.pause.annotation] = before
    return patch


def copy(thing: Thing, move: str, owners: Mapping[str, str], mover: authors.Author) -> Object:
    """What is created at the target. `owners` leads from UIDs of originals to those of their copies. Claims that act
    with somebody's rights do so with the mover's there: nobody may say anything else of themselves."""
    obj = objects.copy(thing.object)
    before = objects.metadata(obj)
    metadata: Object = {key: value for key, value in before.items() if key not in _OF_THE_SERVER}
    annotations = {key: value for key, value in objects.annotations(obj).items() if key not in (MOVE, LET_GO)}
    annotations |= {SOURCE: objects.uid(obj), CONTENT: content(thing.object)}
    if thing.pause is not None:
        if objects.annotations(obj).get(MOVE) != move:
            annotations.pop(WAS_PAUSED, None)
            annotations |= {key: value for key, value in _remembered(thing).items() if value is not None}
        if not thing.is_cluster:
            annotations[thing.pause.annotation] = thing.pause.value
    if thing.is_claim:
        annotations.setdefault(CREATED, str(before.get("creationTimestamp") or ""))
        for author, groups in _AUTHORS:
            if author in annotations:
                annotations |= {author: mover.name, groups: "\n".join(mover.groups)}
    metadata["annotations"] = annotations
    metadata["labels"] = {**objects.labels(obj), MOVE: move}
    references = [
        {**each, "uid": owners[str(each.get("uid"))]}
        for each in objects.owner_references(obj)
        if str(each.get("uid")) in owners
    ]
    metadata.pop("ownerReferences", None)
    if references:
        metadata["ownerReferences"] = references
    obj["metadata"] = metadata
    if thing.is_cluster:
        obj["spec"] = {**objects.mapping(obj.get("spec")), "paused": True}
    return obj


def acts_for_somebody(claim: Object) -> bool:
    return any(author in objects.annotations(claim) for author, _ in _AUTHORS)


def shared(thing: Thing, move: str) -> Object:
    """Of what is only copied: what somebody wrote, and nothing of what became of it. Until the move has ended it says
    which move made it, so that this one can take it away again."""
    obj = objects.copy(thing.object)
    metadata = {key: value for key, value in objects.metadata(obj).items() if key not in _OF_THE_SERVER}
    for key in ("finalizers", "ownerReferences"):
        metadata.pop(key, None)
    metadata["annotations"] = {key: value for key, value in objects.annotations(obj).items() if key not in _OWN}
    metadata["labels"] = {**objects.labels(obj), MOVE: move}
    obj.pop("status", None)
    return {**obj, "metadata": metadata}


def is_shared(thing: Thing) -> bool:
    """Of what a move has made at the target: whether it is only copied."""
    return SOURCE not in objects.annotations(thing.object)


def kept() -> Object:
    """The patch after which what is only copied stays."""
    return {"metadata": {"labels": {MOVE: None}}}


def managed(original: Object, owners: Mapping[str, str]) -> list[Any]:
    """Who manages which field, as at the source, without what the move wrote. Owner references are told apart by their
    UIDs there, too. Without it no later apply could take a field away again."""
    entries = [
        each
        for each in map(objects.mapping, objects.sequence(objects.metadata(original).get("managedFields")))
        if each.get("manager") != FIELD_MANAGER
    ]
    text = orjson.dumps(entries).decode()
    for reference in objects.owner_references(original):
        uid = str(reference.get("uid"))
        text = text.replace(uid, owners.get(uid, uid))
    found: list[Any] = orjson.loads(text)
    return found


def content(original: Object) -> str:
    """Of all that a copy takes over, and of what `let_go` leaves of it.

    >>> content({"metadata": {"finalizers": ["a"]}}).split("-")[1] == content({"metadata": {}}).split("-")[1]
    True
    """
    return f"{_digest(original)}-{_digest(_bare(original))}"


def _digest(original: Object) -> str:
    metadata = objects.metadata(original)
    annotations = {key: value for key, value in objects.annotations(original).items() if key not in _OWN}
    held: Object = {key: value for key, value in original.items() if key != "metadata"}
    held["metadata"] = {
        "labels": objects.labels(original),
        "annotations": annotations,
        "ownerReferences": metadata.get("ownerReferences"),
        "finalizers": metadata.get("finalizers"),
    }
    return hashlib.sha256(orjson.dumps(held, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _bare(original: Object) -> Object:
    """Without what keeps it from going."""
    obj = objects.copy(original)
    obj["metadata"] = {key: value for key, value in objects.metadata(obj).items() if key != "finalizers"}
    if PROTECTED in objects.annotations(obj):
        obj["metadata"]["annotations"] = {
            key: value for key, value in objects.annotations(obj).items() if key != PROTECTED
        }
    if _parameters(obj).get(_PROTECTION) is not None:
        parameters = {key: value for key, value in _parameters(obj).items() if key != _PROTECTION}
        obj["spec"] = {**objects.mapping(obj.get("spec")), "parameters": parameters}
    return obj


def _parameters(obj: Object) -> Object:
    return objects.mapping(objects.at(obj, "spec", "parameters"))


def was_let_go(original: Object, move: str, copied: str) -> bool:
    """Whether it is what `let_go` leaves of an original whose copy says that it holds `copied`."""
    is_marked = objects.annotations(original).get(LET_GO) == move
    left = content(original).partition("-")[2]
    return is_marked and not objects.finalizers(original) and left == copied.partition("-")[2]


def restored(thing: Thing, move: str, copied: Object) -> Thing:
    """An original that somebody has changed since it was let go, with what was taken off it then and its copy has."""
    if objects.annotations(thing.object).get(LET_GO) != move:
        return thing
    obj = objects.copy(thing.object)
    metadata = obj["metadata"] = dict(objects.metadata(obj))
    finalizers = list(dict.fromkeys([*objects.finalizers(copied), *objects.finalizers(obj)]))
    if finalizers:
        metadata["finalizers"] = finalizers
    if thing.is_claim:
        kept = objects.annotations(copied).get(PROTECTED)
        if kept is not None:
            metadata["annotations"] = {PROTECTED: kept, **objects.annotations(obj)}
        if _parameters(copied).get(_PROTECTION):
            parameters = {**_parameters(obj), _PROTECTION: True}
            obj["spec"] = {**objects.mapping(obj.get("spec")), "parameters": parameters}
    return dataclasses.replace(thing, object=obj)


def let_go(thing: Thing, move: str) -> Object:
    """The patch after which an original goes at once and without effect. It counts for the state that was seen only."""
    obj = thing.object
    annotations: dict[str, str | None] = {LET_GO: move}
    metadata: Object = {
        "uid": objects.uid(obj),
        "resourceVersion": objects.resource_version(obj),
        "finalizers": None,
        "annotations": annotations,
    }
    patch: Object = {"metadata": metadata}
    if thing.is_claim:
        # Nobody deletes what is protected; the copy still is.
        if PROTECTED in objects.annotations(obj):
            annotations[PROTECTED] = None
        if _parameters(obj).get(_PROTECTION):
            patch["spec"] = {"parameters": {_PROTECTION: False}}
    return patch


def sources(copies: Sequence[Object]) -> dict[str, str]:
    """From UIDs of originals to those of their copies."""
    return {objects.annotations(each).get(SOURCE, ""): objects.uid(each) for each in copies}
