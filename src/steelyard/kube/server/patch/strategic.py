"""Strategic merge patch, as kube-apiserver applies it to the built-in kinds.

It is a merge patch whose lists merge item by item where the schema says so (`patch_strategy` "merge", items matched by
`patch_merge_key`), with directives in the patch for what merging cannot say:

    $patch: replace | delete            in a map: take this map instead, or none; in a list's item: replace the list by
                                        the other items, or delete the items with this key
    $retainKeys: [a, b]                 drop all other fields of this map
    $deleteFromPrimitiveList/f: [x]     remove these values from the list f
    $setElementOrder/f: [...]           the order that the items of f shall have

`apply` changes none of its arguments. A patch that cannot be understood is a `BadRequest` or, where upstream has no
class for the mistake, `Unclassified`; directives never reach the result. (Upstream lets some through in items that are
new to a list: a nested item marked for deletion is then added instead. Here it is left out, and so are nulls.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from steelyard.kube import errors, fields
from steelyard.kube.objects import Object
from steelyard.kube.schema.model import ANY, Schema

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
_ORDER: Final = "$setElementOrder"
_MISSING: Final = object()

_BAD_RETAIN: Final = "invalid patch format of retainKeys"
_BAD_DELETE: Final = "invalid patch format of primitive list"
_BAD_ORDER: Final = "invalid patch format of setElementOrder list"


def apply(schema: Schema, doc: Object, patch: Object) -> Object:
    return _merge_maps(schema.resolve(), doc, patch)


def _merge_maps(schema: Schema, original: Object, patch: Object) -> Object:
    if _DIRECTIVE in patch:
        return _directed(patch)
    merged = dict(original)
    pending = _retained(merged, patch)
    for key in [key for key in pending if key.startswith(_ORDER)]:
        _check_is_list(pending[key])
        name = _field_of(key, _ORDER, _BAD_ORDER)
        _merge_ordered(schema, merged, name, pending.pop(key), pending.pop(name, _MISSING))
    for key, value in pending.items():
        if key.startswith(_DELETE_FROM):
            name = _field_of(key, _DELETE_FROM, _BAD_DELETE)
            if name in merged and isinstance(merged[name], list):
                merged[name] = _without(merged[name], _list(value, _BAD_DELETE))
        elif value is None:
            merged.pop(key, None)
        else:
            _merge_field(schema, merged, key, value)
    return merged


def _directed(patch: Object) -> Object:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return cast(Object, _plain(patch))
    if directive == "delete":
        return {}
    raise _unknown_directive(patch)


def _unknown_directive(patch: Object) -> errors.Unclassified:
    return errors.Unclassified(
        f"unknown patch type: {fields.go_value(patch[_DIRECTIVE])} in map: {fields.go_value(patch)}"
    )


def _retained(merged: Object, patch: Object) -> Object:
    """The patch without its `$retainKeys`; what that does not list is taken out of `merged`."""
    pending = dict(patch)
    wanted = pending.pop(_RETAIN, None)
    if wanted is None:
        return pending
    keys = {key for key in _list(wanted, _BAD_RETAIN) if isinstance(key, str)}
    for key, value in pending.items():
        if value is not None and key not in keys and not key.startswith((_DELETE_FROM, _ORDER)):
            raise errors.BadRequest(_BAD_RETAIN)
    for key in merged.keys() - keys:
        del merged[key]
    return pending


def _merge_field(schema: Schema, merged: Object, key: str, value: Any) -> None:
    current = merged.get(key, _MISSING)
    field = _field(schema, key)
    if isinstance(value, dict) and isinstance(current, dict):
        value, current = cast(Object, value), cast(Object, current)
        merged[key] = _plain(value) if _strategy(field) == "replace" else _merge_maps(field.resolve(), current, value)
    elif isinstance(value, list) and isinstance(current, list):
        merged[key] = _merge_lists(field, cast("list[Any]", current), cast("list[Any]", value))
    else:
        added = _added(value)
        if added is _MISSING:
            merged.pop(key, None)
        else:
            merged[key] = added


def _merge_lists(field: Schema, original: list[Any], patch: list[Any]) -> list[Any]:
    if _strategy(field) != "merge":
        return cast("list[Any]", _plain(patch))
    if not original and not patch:
        return original
    if not _holds_maps(original, patch):
        merged = _unique((*original, *patch))
        return _in_order(merged, _identity, [*patch], original)
    key = field.patch_merge_key
    if not key:
        raise errors.Unclassified("cannot merge lists without merge key")
    original, wanted = _without_special_items(original, patch, key)
    merged = list(original)
    places = _places(item.get(key, _MISSING) for item in merged)
    for item in wanted:
        at = places.get(_mark(_key_of(item, key)))
        if at is not None:
            merged[at] = _merge_maps(_items(field), merged[at], item)
            continue
        added = _plain(item)
        places.setdefault(_mark(added.get(key, _MISSING)), len(merged))
        merged.append(added)
    return _in_order(merged, lambda item: _key_of(item, key), [_key_of(item, key) for item in wanted], original)


def _without_special_items(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """The original list after deletions, and the items of the patch that are to be merged into it."""
    ordinary: list[Any] = []
    deleted: set[Any] = set()
    is_replaced = False
    for item in patch:
        match item.get(_DIRECTIVE, _MISSING):
            case "delete":
                deleted.add(_mark(_key_of(item, key)))
            case "replace":
                is_replaced = True
            case "merge":
                raise errors.Unclassified("merging lists cannot yet be specified in the patch")
            case directive:
                if directive is not _MISSING:
                    raise _unknown_directive(item)
                ordinary.append(item)
    if is_replaced:
        return [_plain(item) for item in ordinary], []
    kept = [item for item in original if _mark(item.get(key, _MISSING)) not in deleted] if deleted else original
    return kept, ordinary


def _merge_ordered(schema: Schema, merged: Object, name: str, order: Any, patch: Any) -> None:
    """Merges a list together with its `$setElementOrder`, which the patch's own items must follow."""
    wanted = cast("list[Any]", order)
    field = _field(schema, name)
    original = merged.get(name, _MISSING)
    if original is _MISSING and patch is _MISSING:
        return
    before = [] if original is _MISSING or original is None else _check_is_list(original)
    items = [] if patch is _MISSING else _check_is_list(patch)
    key = field.patch_merge_key
    _check_order(items, wanted, key)
    if original is _MISSING:
        result = cast("list[Any]", _added(items))
    else:
        result = before if patch is _MISSING else _merge_lists(field, before, items)
    if _holds_maps(before, items):
        merged[name] = _in_order(
            result, lambda item: _key_of(item, key), [_key_of(item, key) for item in wanted], before
        )
    else:
        merged[name] = _in_order(result, _identity, wanted, before)


def _check_order(patch: list[Any], order: list[Any], key: str) -> None:
    if not patch or not order:
        return
    ordinary = [item for item in patch if item.__class__ is not dict or _DIRECTIVE not in item]
    values = [_key_of(item, key) if key else item for item in ordinary]
    remaining = iter([_key_of(item, key) if key else item for item in order])
    if not all(any(value == candidate for candidate in remaining) for value in values):
        raise errors.Unclassified(
            f"The order in patch list:\n{fields.go_value(patch)}\n doesn't match {_ORDER} list:\n"
            f"{fields.go_value(order)}\n"
        )


def _in_order(merged: list[Any], value_of: Callable[[Any], Any], order: list[Any], original: list[Any]) -> list[Any]:
    """Items that `order` names, in that order; the others keep their place among those that they stood with before."""
    before, wanted = _places(map(value_of, original)), _places(order)
    named: list[tuple[int, Any, Any]] = []
    others: list[tuple[int, Any, Any]] = []
    for item in merged:
        mark = _mark(value_of(item))
        if mark in wanted:
            named.append((wanted[mark], before.get(mark, -1), item))
        else:
            others.append((before.get(mark, -1), before.get(mark, -1), item))
    for part in (named, others):
        part.sort(key=lambda each: each[0])
    result: list[Any] = []
    at_other = at_named = 0
    while at_other < len(others) and at_named < len(named):
        left, right = others[at_other][1], named[at_named][1]
        if 0 <= left < right:
            result.append(others[at_other][2])
            at_other += 1
        else:
            result.append(named[at_named][2])
            at_named += 1
    return [*result, *(each[2] for each in (*others[at_other:], *named[at_named:]))]


def _places(values: Iterable[Any]) -> dict[Any, int]:
    """Where each value, by its mark, is first."""
    places: dict[Any, int] = {}
    for at, value in enumerate(values):
        places.setdefault(_mark(value), at)
    return places


def _mark(value: Any) -> Any:
    """The same for equal values, to find them by: to look through a list for each item of another takes the product of
    their lengths. Nearly all values are strings."""
    if isinstance(value, dict):
        return dict, frozenset((key, _mark(field)) for key, field in cast(Object, value).items())
    if isinstance(value, list):
        return list, tuple(map(_mark, cast("list[Any]", value)))
    return value


def _identity(item: Any) -> Any:
    return item


def _key_of(item: Any, key: str) -> Any:
    value = cast(Object, item).get(key, _MISSING) if isinstance(item, dict) else _MISSING
    if value is _MISSING:
        raise errors.Unclassified(f"map: {fields.go_value(item)} does not contain declared merge key: {key}")
    return value


def _holds_maps(*lists: list[Any]) -> bool:
    """Whether the items are maps; they must all be, or none."""
    kinds = {item.__class__ is dict for items in lists for item in items}
    if any(item.__class__ is list for items in lists for item in items):
        raise errors.Invalid("the server rejected our request due to an error in our request")
    if len(kinds) > 1:
        raise errors.Unclassified(f"list element types are not identical: {fields.go_value([*lists])}")
    return True in kinds


def _unique(items: Iterable[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for item in items:
        found.setdefault(_mark(item), item)
    return list(found.values())


def _without(items: list[Any], unwanted: list[Any]) -> list[Any]:
    marks = set(map(_mark, unwanted))
    return [item for item in items if _mark(item) not in marks]


def _list(value: Any, message: str) -> list[Any]:
    if not isinstance(value, list):
        raise errors.BadRequest(message)
    return cast("list[Any]", value)


def _check_is_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise errors.Unclassified(f"expected a []interface {{}}, but received a {fields.go_type(value)}")
    return cast("list[Any]", value)


def _field_of(key: str, prefix: str, message: str) -> str:
    directive, separator, name = key.partition("/")
    if directive != prefix or not separator:
        raise errors.BadRequest(message)
    return name


def _field(schema: Schema, key: str) -> Schema:
    """The field as its owner declares it (which says how it merges), not the type that it refers to."""
    return schema.properties.get(key) or schema.additional or ANY


def _items(field: Schema) -> Schema:
    return field.resolve().item() or ANY


def _strategy(field: Schema) -> str:
    return next((strategy for strategy in field.patch_strategy if strategy != "retainKeys"), "")


def _is_directive(key: str) -> bool:
    return key.startswith("$") and (key in (_DIRECTIVE, _RETAIN) or key.startswith((_DELETE_FROM, _ORDER)))


def _plain(value: Any) -> Any:
    """A part of the patch as a part of the result: without nulls and directives, and what they say to delete."""
    if isinstance(value, dict):
        members = cast(Object, value).items()
        return {key: _plain(field) for key, field in members if not (_is_directive(key) or _is_unwanted(field))}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value) if item is None or not _is_unwanted(item)]
    return value


def _is_unwanted(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and cast(Object, value).get(_DIRECTIVE) == "delete")


def _added(value: Any) -> Any:
    """As `_plain`, for what was not there before: a map or an item that carries any `$patch` is left out."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return _MISSING
        members = cast(Object, value).items()
        kept = ((key, _added(field)) for key, field in members if field is not None and not _is_directive(key))
        return {key: field for key, field in kept if field is not _MISSING}
    if isinstance(value, list):
        kept_items = map(_added, cast("list[Any]", value))
        return [item for item in kept_items if item is not _MISSING]
    return value
