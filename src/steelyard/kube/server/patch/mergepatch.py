"""JSON merge patch (RFC 7386) as kube-apiserver applies it.

`apply` never changes its arguments; the result shares with them what the patch left alone, so treat all three as
read-only afterwards. One rule goes beyond the RFC, as upstream's library has it: objects inside a list that the patch
brings also lose their null fields.
"""

from __future__ import annotations

from typing import Any, Final, cast

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object

INVALID: Final = "Invalid JSON Patch"


def apply(doc: Object, patch: Any) -> Any:
    """The patched document; a list as a patch takes the place of all of it.

    >>> apply({"spec": {"a": 1, "b": 2}}, {"spec": {"a": None, "c": 3}})
    {'spec': {'b': 2, 'c': 3}}
    """
    if isinstance(patch, dict):
        return _merge(doc, cast(Object, patch))
    if isinstance(patch, list):
        return _without_nulls(patch)
    raise errors.BadRequest(INVALID)


def _merge(doc: Object, patch: Object) -> Object:
    merged = dict(doc)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
            continue
        current = doc.get(key)
        if isinstance(current, dict):
            current = cast(Object, current)
            merged[key] = _merge(current, cast(Object, value)) if isinstance(value, dict) else value
        else:
            merged[key] = _without_nulls(value)
    return merged


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast(Object, value)
        return {key: _without_nulls(field) for key, field in fields.items() if field is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast("list[Any]", value)]
    return value


def diff(before: Object, after: Object) -> Object:
    """The smallest merge patch that turns `before` into `after`; empty when they are equal.

    A null field in `after` cannot be expressed by a merge patch and is left out.
    """
    patch: Object = {key: None for key in before if after.get(key) is None}
    for key, value in after.items():
        current = before.get(key)
        if value is None or objects.same(value, current):
            continue
        if isinstance(current, dict) and isinstance(value, dict):
            nested = diff(cast(Object, current), cast(Object, value))
            if nested:
                patch[key] = nested
        else:
            patch[key] = value
    return patch
