"""As much of an observed object as its composition answers for: what the two are compared by.

Under server-side apply an object holds more than was applied, set by others or by default. What counts is every field
that is composed now, and every field that was applied before and still is the composition's: such a one goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import orjson

from steelyard.compose import comparing
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan import fielddiff
from steelyard.plan.marks import DIGEST, FIELD_MANAGER

_EVERYTHING: Final[Object] = {}


def covered(observed: Object, desired: Object) -> Object:
    """Without the mark that applying leaves. What nobody applied, such as a manifest in a file, is covered wholly."""
    found = cast(Object, _covered(observed, desired, _applied(observed)))
    metadata = dict(objects.metadata(found))
    annotations = {key: value for key, value in objects.annotations(found).items() if key != DIGEST}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return {**found, "metadata": metadata}


def put_back(observed: Object, desired: Object) -> Object:
    """What the object would be without what others have set otherwise in it: fields that are composed, and are no
    longer the composition's, as they are desired."""
    return cast(Object, _put_back(observed, desired, _applied(observed) or {}))


def applied_over(live: Object, wanted: Object, manager: str) -> Object:
    """A claim as it will be when `manager` applies it: what others have set in it stays, and what the manager had
    applied before and no longer says goes."""
    held, of_others = (
        _held(live, lambda who, how: who == manager and how == "Apply"),
        _held(live, lambda who, how: who != manager or how != "Apply"),
    )
    result = {**live, "spec": _over(live.get("spec"), wanted.get("spec"), held, of_others, "spec")}
    metadata = dict(objects.metadata(live))
    held, of_others = (objects.mapping(each.get("f:metadata")) for each in (held, of_others))
    for key in ("labels", "annotations"):
        had, said = metadata.pop(key, None), objects.metadata(wanted).get(key)
        merged = _over(had, said, held, of_others, key)
        if merged:
            metadata[key] = merged
    return {**result, "metadata": metadata}


def _over(have: Any, want: Any, held: Object, of_others: Object, key: str) -> Any:
    mine, theirs = (objects.mapping(each.get(f"f:{key}")) for each in (held, of_others))
    if not isinstance(have, dict) or not (want is None or isinstance(want, dict)):
        return cast(Any, have) if want is None else want
    wanted = objects.mapping(want)
    result: Object = {}
    for name, value in cast(Object, have).items():
        is_given_up = f"f:{name}" in mine and f"f:{name}" not in theirs
        if name in wanted or not is_given_up:
            result[name] = _over(value, wanted.get(name), mine, theirs, name)
    return {**result, **{name: value for name, value in wanted.items() if name not in result}}


def _applied(observed: Object) -> Object | None:
    """The tree of fields that the claims controller holds; None where nothing says who holds what."""
    if not objects.metadata(observed).get("managedFields"):
        return None
    return _held(observed, lambda who, _: who == FIELD_MANAGER)


def _held(obj: Object, is_meant: Callable[[str, str], bool]) -> Object:
    found: Object = {}
    for entry in map(objects.mapping, objects.sequence(objects.metadata(obj).get("managedFields"))):
        if is_meant(str(entry.get("manager")), str(entry.get("operation"))) and not entry.get("subresource"):
            found = _merged(found, objects.mapping(entry.get("fieldsV1")))
    return found


def _merged(one: Object, other: Object) -> Object:
    result = dict(one)
    for key, value in other.items():
        result[key] = _merged(objects.mapping(result.get(key)), objects.mapping(value))
    return result


def _covered(have: Any, want: Any, held: Object | None) -> Any:
    if isinstance(have, dict) and (want is None or isinstance(want, dict)):
        wanted = objects.mapping(want)
        return {
            key: _covered(value, wanted.get(key), _below(held, f"f:{key}"))
            for key, value in cast(Object, have).items()
            if held is None or key in wanted or f"f:{key}" in held
        }
    if isinstance(have, list) and isinstance(want, list):
        return _covered_items(cast("list[Any]", have), cast("list[Any]", want), held)
    return cast(Any, have)


def _covered_items(have: list[Any], want: list[Any], held: Object | None) -> list[Any]:
    if held is not None and comparing.covers(have, want) and not any(key.startswith("k:") for key in held):
        return want
    named = fielddiff.items_by_name(have, want)
    if held is None or named is None:
        return have
    one, other = named
    found: list[Any] = []
    for name, item in one.items():
        key = _key_of(item, held)
        if name in other or key:
            found.append(_covered(item, other.get(name), objects.mapping(held.get(key)) if key else _EVERYTHING))
    return found


def _below(held: Object | None, key: str) -> Object | None:
    """What is held whole has nothing below it in the tree, and all of it counts."""
    if held is None:
        return None
    found = held.get(key)
    if found is None:
        return {}
    below = objects.mapping(found)
    return below or None


def _key_of(item: Any, held: Object) -> str:
    for key in held:
        if key.startswith("k:") and comparing.covers(item, orjson.loads(key[2:])):
            return key
    return ""


def _put_back(have: Any, want: Any, held: Object) -> Any:
    if not isinstance(have, dict) or not isinstance(want, dict):
        return want
    result = dict(cast(Object, have))
    for key, value in cast(Object, want).items():
        is_held, below = f"f:{key}" in held, objects.mapping(held.get(f"f:{key}"))
        if key in result and (not is_held or (below and isinstance(value, dict))):
            result[key] = _put_back(result[key], value, below)
    return result
