"""Moving from client-side to server-side apply without conflicts, for kubectl's own field manager alone.

Client-side apply leaves its configuration in an annotation. The first `kubectl apply --server-side` by the manager
"kubectl" may take over, without `--force-conflicts`, what that annotation shows to have been applied and nobody has
changed since; and the annotation is kept current, so that going back works too.
"""

from __future__ import annotations

from typing import Any, Final, cast

import orjson

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.server.apply import fieldset, typed
from steelyard.kube.server.apply.fieldset import Tree
from steelyard.kube.server.apply.managedfields import Identity
from steelyard.kube.server.apply.shape import Shape

ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER: Final = "kubectl"
_MAX_ANNOTATIONS: Final = 256 << 10


def remaining(
    kind: Shape, manager: str, live: Object, api_version: str, conflicts: dict[Identity, Tree]
) -> dict[Identity, Tree]:
    """The conflicts that are not on fields which client-side apply set to the value they still have."""
    if manager != MANAGER or not conflicts:
        return conflicts
    last = _decode(objects.annotations(live).get(ANNOTATION))
    if last is None or last.get("apiVersion") != api_version:
        return conflicts
    changes = typed.compare(kind, last, live)
    unchanged = typed.to_fieldset(kind, last)
    for changed in (changes.modified, changes.added, changes.removed):
        unchanged = fieldset.difference(unchanged, changed)
    left = {identity: fieldset.difference(tree, unchanged) for identity, tree in conflicts.items()}
    return {identity: tree for identity, tree in left.items() if tree}


def refreshed(manager: str, obj: Object, applied: Object) -> Object:
    """The object with its annotation, if it has one, set to what kubectl applied; else the object itself."""
    annotations = objects.annotations(obj)
    if manager != MANAGER or not annotations.get(ANNOTATION):
        return obj
    text = _encode(applied)
    if annotations[ANNOTATION] == text:
        return obj
    others = {name: value for name, value in annotations.items() if name != ANNOTATION}
    size = sum(len(name) + len(value) for name, value in others.items()) + len(ANNOTATION) + len(text)
    fits = size <= _MAX_ANNOTATIONS
    return {
        **obj,
        "metadata": {**objects.metadata(obj), "annotations": {**others, ANNOTATION: text} if fits else others},
    }


def _decode(text: Any) -> Object | None:
    if not isinstance(text, str) or not text:
        return None
    try:
        last = orjson.loads(text)
    except ValueError:
        return None
    return cast(Object, last) if type(last) is dict else None


def _encode(applied: Object) -> str:
    metadata = objects.metadata(applied)
    annotations = {name: value for name, value in objects.annotations(applied).items() if name != ANNOTATION}
    metadata = {name: value for name, value in metadata.items() if name != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    return orjson.dumps({**applied, "metadata": metadata}, option=orjson.OPT_SORT_KEYS).decode() + "\n"
