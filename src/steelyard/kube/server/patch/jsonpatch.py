"""JSON patch (RFC 6902) as kube-apiserver applies it, with the peculiarities of the library it uses.

`apply` never changes its arguments: a container is copied the first time an operation changes it, and everything else
is shared with the result. A patch that is not well-formed is a `BadRequest`; one that does not fit the document is
`Invalid`, with a cause that names the path and what was wrong there.

Peculiarities that clients rely on: `replace` of a missing object key adds it, a missing `value` is null, `copy` of a
missing key copies null, a negative index counts from the end, `test` against null passes for a missing key.
"""

from __future__ import annotations

from typing import Any, Final, cast

import orjson

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies import typechecks

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 << 20
"""How much JSON the `copy` operations of one patch may add, lest a few of them double a document without end."""
_REJECTED: Final = "the server rejected our request due to an error in our request"
_STRING_FIELDS: Final = ("op", "path", "from")
_FIELDS: Final = frozenset({*_STRING_FIELDS, "value"})


def apply(doc: Object, operations: list[Object]) -> Any:
    """The patched document, which is an object unless the patch replaced the whole of it."""
    if len(operations) > MAX_OPERATIONS:
        raise errors.TooLarge(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}"
        )
    target = _Target(doc)
    for operation in operations:
        target.run(operation)
    return target.root


def operations(patch: Any, *, is_strict: bool = True) -> list[Object]:
    """The operations of a decoded patch. Raises BadRequest in Go's words, which depend on the type that it decodes
    into: a strict decoder knows the fields of an operation."""
    if patch is None:
        return []
    if not isinstance(patch, list):
        name = "[]handlers.jsonPatchOp" if is_strict else "jsonpatch.Patch"
        raise _undecodable(f"{typechecks.describe(patch)} into Go value of type {name}", is_strict=is_strict)
    found: list[Object] = []
    for operation in cast("list[Any]", patch):
        if operation is None:
            found.append({})
            continue
        if not isinstance(operation, dict):
            name = "handlers.jsonPatchOp" if is_strict else "jsonpatch.Operation"
            raise _undecodable(f"{typechecks.describe(operation)} into Go value of type {name}", is_strict=is_strict)
        fields = cast(Object, operation)
        if is_strict:
            _check_fields(fields)
        found.append(fields)
    return found


def _check_fields(operation: Object) -> None:
    for name, value in operation.items():
        if name in _STRING_FIELDS and value is not None and not isinstance(value, str):
            what = f"{typechecks.describe(value)} into Go struct field jsonPatchOp.{name} of type string"
            raise _undecodable(what, is_strict=True)


def _undecodable(what: str, *, is_strict: bool) -> errors.BadRequest:
    prefix = "error decoding patch: " if is_strict else ""
    return errors.BadRequest(f"{prefix}json: cannot unmarshal {what}")


def has_other_fields(operations: list[Object]) -> bool:
    return any(not _FIELDS.issuperset(operation) for operation in operations)


def _rejected(path: str, message: str) -> errors.Invalid:
    """What and where is in a note for whoever debugs: the answer does not tell, as upstream's."""
    error = errors.Invalid(_REJECTED)
    error.add_note(f"{path}: {message}")
    return error


class _Target:
    """The document being patched, and which of its containers are already ours to change."""

    __slots__ = ("_copied", "_owned", "root")

    def __init__(self, doc: Object) -> None:
        self.root: Any = doc
        self._owned: dict[int, Any] = {}
        self._copied = 0

    def run(self, operation: Object) -> None:
        kind = operation.get("op")
        path = operation.get("path")
        if not isinstance(kind, str) or kind not in ("add", "remove", "replace", "move", "test", "copy"):
            raise _rejected(str(path or ""), f"Unexpected kind: {kind or 'unknown'}")
        if not isinstance(path, str):
            raise _rejected("", f"{kind} operation failed to decode path: missing value")
        match kind:
            case "add":
                self._add(kind, path, operation.get("value"))
            case "remove":
                self._remove(kind, path)
            case "replace":
                self._replace(path, operation.get("value"))
            case "test":
                self._test(path, operation.get("value"))
            case "move":
                self._add(kind, path, self._remove(kind, _source(operation, kind)))
            case _:
                container, key = self._parent(kind, _source(operation, kind), own=False)
                self._add(kind, path, self._copy(path, _value(container, key, path)))

    def _copy(self, path: str, value: Any) -> Any:
        """A deep copy, since a later operation may change either of the two in place."""
        encoded = orjson.dumps(value)
        self._copied += len(encoded)
        if self._copied > MAX_COPIED_BYTES:
            raise _rejected(
                path,
                f"Unable to complete the copy, the accumulated size increase of copy is {self._copied}, "
                f"exceeding the limit {MAX_COPIED_BYTES}",
            )
        return orjson.loads(encoded)

    def _parent(self, kind: str, path: str, *, own: bool) -> tuple[Any, str]:
        """The container that holds the last step of the path, and that step."""
        steps = path.split("/")
        if len(steps) < 2:
            raise _missing(kind, path)
        if own:
            self.root = self._own(self.root)
        container: Any = self.root
        for raw in steps[1:-1]:
            step = _unescape(raw)
            if isinstance(container, dict):
                fields = cast(Object, container)
                value = fields.get(step)
                slot: Any = step
            else:
                slot = _position(len(container), step)
                if slot is None:
                    raise _missing(kind, path)
                value = container[slot]
            if type(value) not in (dict, list):
                raise _missing(kind, path)
            if own:
                value = container[slot] = self._own(value)
            container = value
        return container, _unescape(steps[-1])

    def _own(self, container: Any) -> Any:
        if id(container) in self._owned:
            return container
        copied = container.copy()
        self._owned[id(copied)] = copied
        return copied

    def _add(self, kind: str, path: str, value: Any) -> None:
        container, key = self._parent(kind, path, own=True)
        if isinstance(container, dict):
            container[key] = value
            return
        items = cast("list[Any]", container)
        if key == "-":
            items.append(value)
            return
        position = _position(len(items) + 1, key)
        if position is None:
            raise _bad_index(key, path)
        items.insert(position, value)

    def _remove(self, kind: str, path: str) -> Any:
        container, key = self._parent(kind, path, own=True)
        if isinstance(container, dict):
            if key not in container:
                raise _rejected(path, f"Unable to remove nonexistent key: {key}: missing value")
            return cast(Object, container).pop(key)
        return container.pop(_index(container, key, path))

    def _replace(self, path: str, value: Any) -> None:
        if path == "":
            if not isinstance(value, dict | list):
                raise _rejected(path, "replace operation value must be object or array")
            self.root = value
            return
        container, key = self._parent("replace", path, own=True)
        if isinstance(container, dict):
            container[key] = value
        else:
            container[_index(container, key, path)] = value

    def _test(self, path: str, value: Any) -> None:
        if path == "":
            found = self.root
        else:
            container, key = self._parent("test", path, own=False)
            found = _value(container, key, path)
        if not _same(found, value):
            raise _rejected(path, f"testing value {path} failed: test failed")


def _source(operation: Object, kind: str) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise _rejected("", f"{kind} operation failed to decode from: operation, missing from field: missing value")
    return source


def _missing(kind: str, path: str) -> errors.Invalid:
    return _rejected(path, f'{kind} operation does not apply: doc is missing path: "{path}": missing value')


def _bad_index(key: str, path: str) -> errors.Invalid:
    return _rejected(path, f"Unable to access invalid index: {key}: invalid index referenced")


def _value(container: Any, key: str, path: str) -> Any:
    if isinstance(container, dict):
        return cast(Object, container).get(key)
    return container[_index(container, key, path)]


def _index(items: list[Any], key: str, path: str) -> int:
    position = _position(len(items), key)
    if position is None:
        raise _bad_index(key, path)
    return position


def _position(length: int, key: str) -> int | None:
    """The index a step means in a list of this length; None where it means none. Negative ones count from the end."""
    digits = key[1:] if key[:1] in ("+", "-") else key
    if len(digits) > 18 or not (digits.isascii() and digits.isdecimal()):
        return None
    index = int(key)
    if index < 0:
        index += length
    return index if 0 <= index < length else None


def _unescape(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~") if "~" in step else step


def _same(left: Any, right: Any) -> bool:
    """Equality of JSON values, where 1, 1.0 and true are three different things."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in cast(Object, left))
    if isinstance(left, list):
        return len(cast("list[Any]", left)) == len(right) and all(map(_same, cast("list[Any]", left), right))
    return left == right


def told(error: errors.ApiError) -> str:
    """Why a patch does not apply, for those who are told: webhooks' authors are."""
    notes: list[str] = getattr(error, "__notes__", [])
    return notes[0].partition(": ")[2] if notes else error.message
