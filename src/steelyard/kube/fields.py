"""Causes as kube-apiserver words them: one constructor per way a field can be wrong.

Users search for these texts and tools parse them, so values are printed as Go prints them (`quote`, `show`). The path
is left out of the message; `errors.invalid` puts it in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast

import orjson

from steelyard.frozen import frozen
from steelyard.kube.errors import Cause

NO_PATH: Final = "<nil>"
"""The field of a complaint about the object as a whole, as upstream prints it."""

_HTML: Final = re.compile("[<>&\u2028\u2029]")
_ESCAPES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def quote(text: str) -> str:
    """A Go string literal (`%q`).

    >>> quote('a "b"')
    '"a \\\\"b\\\\""'
    """
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_ESCAPES.get(char) or _escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: int | float) -> str:
    """A number as Go's `%v` has it: no `.0`, an exponent only for the very large and very small."""
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    return f"{mantissa.removesuffix('.0')}e{exponent[0]}{exponent[1:].lstrip('0').zfill(2)}"


@frozen
class Ordered:
    """A value whose keys are printed as they stand: Go prints a structure in the order of its declaration."""

    value: Any


def _go_json(value: Any) -> str:
    """JSON as Go writes it, which keeps text from being taken for HTML."""
    text = orjson.dumps(value).decode()
    return _HTML.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if _HTML.search(text) else text


def go_value(value: Any) -> str:
    """A value as Go's `%v` prints it.

    >>> go_value({"b": [1, None], "a": True})
    'map[a:true b:[1 <nil>]]'
    """
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return f"map[{' '.join(f'{key}:{go_value(members[key])}' for key in sorted(members))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_value, cast('list[Any]', value)))}]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return number(value) if isinstance(value, int | float) else str(value)


_GO_TYPES: Final[dict[Any, str]] = {
    dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", int: "int64",
    float: "float64",
}  # fmt: skip


def go_type(value: Any) -> str:
    """What Go decodes a JSON value into."""
    return _GO_TYPES.get(cast(Any, type)(value), "<nil>")


def show(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Ordered):
        return _go_json(value.value)
    return _go_json(_sorted(value))


def _sorted(value: Any) -> Any:
    """With the keys of maps in the order in which Go writes them."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in sorted(cast("dict[str, Any]", value).items())}
    if isinstance(value, list):
        return [_sorted(item) for item in cast("list[Any]", value)]
    return value


def child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def required(path: str, detail: str = "") -> Cause:
    return Cause(path, "FieldValueRequired", _with(detail, "Required value"))


def invalid(path: str, value: Any, detail: str = "") -> Cause:
    return Cause(path, "FieldValueInvalid", _with(detail, f"Invalid value: {show(value)}"))


def type_invalid(path: str, value: Any, detail: str) -> Cause:
    return Cause(path, "FieldValueTypeInvalid", _with(detail, f"Invalid value: {show(value)}"))


def not_supported(path: str, value: Any, supported: Iterable[str]) -> Cause:
    listed = ", ".join(map(quote, supported))
    detail = f"supported values: {listed}" if listed else ""
    return Cause(path, "FieldValueNotSupported", _with(detail, f"Unsupported value: {show(value)}"))


def duplicate(path: str, value: Any) -> Cause:
    return Cause(path, "FieldValueDuplicate", f"Duplicate value: {show(value)}")


def forbidden(path: str, detail: str = "") -> Cause:
    return Cause(path, "FieldValueForbidden", _with(detail, "Forbidden"))


def not_found(path: str, value: Any) -> Cause:
    return Cause(path, "FieldValueNotFound", f"Not found: {show(value)}")


def too_long(path: str, limit: int) -> Cause:
    unit = "byte" if limit == 1 else "bytes"
    return Cause(path, "FieldValueTooLong", f"Too long: may not be more than {limit} {unit}")


def too_many(path: str, actual: int, limit: int) -> Cause:
    unit = "item" if limit == 1 else "items"
    return Cause(path, "FieldValueTooMany", f"Too many: {actual}: must have at most {limit} {unit}")


def _with(detail: str, body: str) -> str:
    return f"{body}: {detail}" if detail else body
