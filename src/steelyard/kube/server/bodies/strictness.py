"""What `fieldValidation` complains of: fields that a kind does not have, and fields that are given twice.

Pruning finds unknown fields on the way and a count of colons says whether a field might be given twice
(`bodies.may_repeat`), so that a body without either costs nothing here. Only then is it read again, slowly: upstream
tells of both in the order of the body for built-in kinds, which it reads into Go types, and of all repetitions first
for custom resources. Inside of fields that read themselves (quantities, embedded JSON) nothing is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

import orjson

from steelyard.kube import fields
from steelyard.kube.builtin import types
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies import bodies, syntax
from steelyard.kube.server.call import Payload

_MAX: Final = 100
_YAML: Final = "yaml: unmarshal errors:\n  "
_OPERATION: Final = ("op", "path", "from", "value")


class Pairs(list[tuple[str, Any]]):
    """The fields of an object as they were written, those given twice included."""


def is_repetitive(payload: Payload | None, encoded: bytes) -> bool:
    """Whether a body might give a field twice; `encoded` is its value as JSON."""
    if payload is None or payload.form == "protobuf":
        return False
    return bool(payload.repeated) if payload.form == "yaml" else bodies.may_repeat(payload.data, encoded)


def of_builtin(name: str, value: Any, payload: Payload | None = None) -> list[str]:
    """The complaints about an object of a built-in type. Without a payload the value cannot have repetitions."""
    if payload is None or payload.form == "protobuf":
        return _listed(_typed(name, value, ""))
    if payload.form == "json":
        return _listed(_typed(name, pairs(payload.data), ""))
    in_order = orjson.loads(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    return [*of_yaml(payload), *_listed(_typed(name, in_order, ""))]


def of_custom(unknown: Sequence[str], payload: Payload | None = None) -> list[str]:
    """The same for a custom resource, of which pruning has found the unknown fields."""
    repeated = of_yaml(payload) if payload is not None and payload.form == "yaml" else of_untyped(payload)
    metadata = sorted(path for path in unknown if path.startswith("metadata."))
    others = sorted(path for path in unknown if not path.startswith("metadata."))
    return [*repeated, *(f'unknown field "{path}"' for path in (*metadata, *others))]


def of_untyped(payload: Payload | None) -> list[str]:
    """The repetitions in any JSON text."""
    if payload is None or payload.form != "json":
        return []
    return _listed(_repeated(pairs(payload.data), ""))


def of_json_patch(payload: Payload | None, value: Any) -> list[str]:
    """The complaints about a JSON patch: its operations have four fields."""
    written = pairs(payload.data) if payload is not None else value
    found: list[str] = []
    for index, operation in enumerate(cast("list[Any]", written)):
        if isinstance(operation, dict | Pairs):
            found += _listed(_of_operation(_items(operation), f"[{index}]"))
    return [f"json patch {complaint}" for complaint in found]


def of_yaml(payload: Payload) -> list[str]:
    """All repetitions as one complaint, as go-yaml has it."""
    return [_YAML + "\n  ".join(payload.repeated)] if payload.repeated else []


def warnings(complaints: Iterable[str]) -> tuple[str, ...]:
    return tuple(line for complaint in complaints for line in complaint.removeprefix(_YAML).split("\n  "))


def pairs(data: bytes) -> Any:
    return syntax.reread(data, pairs=Pairs)


def _listed(complaints: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(complaints))[:_MAX]


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return cast(Object, value).items() if isinstance(value, dict) else cast(Pairs, value)


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _duplicate(path: str) -> str:
    return f"duplicate field {fields.quote(path)}"


def _repeated(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict | Pairs):
        seen: set[str] = set()
        for name, item in _items(value):
            inner = _child(path, name)
            if name in seen:
                yield _duplicate(inner)
            seen.add(name)
            yield from _repeated(item, inner)
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _repeated(item, f"{path}[{index}]")


def _of_operation(operation: Iterable[tuple[str, Any]], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for name, item in operation:
        inner = _child(path, name)
        if name not in _OPERATION:
            yield f"unknown field {fields.quote(inner)}"
            continue
        if name in seen:
            yield _duplicate(inner)
        seen.add(name)
        yield from _repeated(item, inner)


def _typed(name: str, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict | Pairs):
        return
    known = types.get(name).all_fields()
    seen: set[str] = set()
    for key, item in _items(value):
        inner = _child(path, key)
        field = known.get(key)
        if field is None:
            yield f"unknown field {fields.quote(inner)}"
            continue
        if key in seen:
            yield _duplicate(inner)
        seen.add(key)
        yield from _of_field(field, item, inner)


def _of_field(field: types.Field, value: Any, path: str) -> Iterator[str]:
    if field.repeated and isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _single(field, item, f"{path}[{index}]")
    elif field.mapped and isinstance(value, dict | Pairs):
        seen: set[str] = set()
        for key, item in _items(value):
            inner = _child(path, key)
            if key in seen:
                yield _duplicate(inner)
            seen.add(key)
            yield from _single(field, item, inner)
    else:
        yield from _single(field, value, path)


def _single(field: types.Field, value: Any, path: str) -> Iterator[str]:
    if field.is_struct:
        yield from _typed(field.base, value, path)
