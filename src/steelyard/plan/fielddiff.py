"""Two objects compared field by field: what is said of a field is its path, what it was, and what it will be.

    spec.template.spec.memoryGi   32 -> 64
    spec.taints[dedicated].effect   NoSchedule -> NoExecute

Items of a list are told apart by what names them, so that one more at the beginning is not a change of all. Whose name
and kind an object has is not compared: who asks has put the two side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan import masking

Path: TypeAlias = tuple[str, ...]

_IDENTITY: Final = frozenset({("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")})
_NAMING: Final = ("name", "key", "uid", "id", "type", "port", "secretKey", "path")
"""Fields that tell items of a list apart, the likeliest first."""
_PLAIN: Final = re.compile(r"[\w-]+|\[.*\]")


@frozen
class FieldChange:
    path: str
    before: Any = None
    """None where it was not set; also where it is secret."""
    after: Any = None
    is_secret: bool = False

    def to_json(self) -> Object:
        if self.is_secret:
            return {"path": self.path, "secret": True}
        return {"path": self.path, "before": self.before, "after": self.after}


def of(before: Object, after: Object) -> list[FieldChange]:
    """Either may be empty, for an object that comes or goes: then every field of the other is listed."""
    kind = after or before
    return [
        _change(kind, path, old, new) for path, old, new in _differences(before, after, ()) if path not in _IDENTITY
    ]


def _change(kind: Object, path: Path, old: Any, new: Any) -> FieldChange:
    if masking.is_secret(kind, path, old, new):
        return FieldChange(written(path), is_secret=True)
    return FieldChange(written(path), old, new)


def written(path: Sequence[str]) -> str:
    """`metadata.labels["steelyard.dev/environment"]`, `spec.taints[dedicated].effect`"""
    text = ""
    for step in path:
        if not _PLAIN.fullmatch(step):
            text += f'["{step}"]'
        else:
            text += step if not text or step.startswith("[") else f".{step}"
    return text


def _differences(old: Any, new: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    if objects.same(old, new):
        return
    if _is_mapping(old, new):
        one, other = objects.mapping(old), objects.mapping(new)
        for key in {**one, **other}:
            yield from _differences(one.get(key), other.get(key), (*path, key))
    elif (named := items_by_name(old, new)) is not None:
        one, other = named
        for key in {**one, **other}:
            yield from _differences(one.get(key), other.get(key), (*path, f"[{key}]"))
    elif _has_objects(old) or _has_objects(new):
        one, other = objects.sequence(old), objects.sequence(new)
        for number in range(max(len(one), len(other))):
            yield from _differences(objects.at(one, number), objects.at(other, number), (*path, f"[{number}]"))
    else:
        yield path, old, new


def _is_mapping(old: Any, new: Any) -> bool:
    """An empty one that comes or goes is a value."""
    both = (old, new)
    return all(each is None or isinstance(each, dict) for each in both) and any(each for each in both)


def _has_objects(value: Any) -> bool:
    return any(isinstance(each, dict) for each in objects.sequence(value))


def items_by_name(old: Any, new: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """The items of two lists by what names them; None where they are no lists of objects, or nothing names each."""
    if not all(each is None or isinstance(each, list) for each in (old, new)):
        return None
    one, other = objects.sequence(old), objects.sequence(new)
    if not one and not other:
        return None
    for key in _NAMING:
        sides = [_by(key, side) for side in (one, other)]
        if sides[0] is not None and sides[1] is not None:
            return sides[0], sides[1]
    return None


def _by(key: str, items: list[Any]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for item in items:
        name = cast(Object, item).get(key) if isinstance(item, dict) else None
        if not isinstance(name, str | int) or str(name) in found:
            return None
        found[str(name)] = item
    return found
