"""The options of a list or watch, decoded and checked before anything else: ListOptions as upstream reads them."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.errors import Cause
from steelyard.kube.server.bodies import options as parameters

_ENCODING: Final = "meta.k8s.io/v1"
_LATEST: Final = -1
"""In a token: go on at whatever revision is current, with a list that may be inconsistent."""
_MOST: Final = 1 << 62
"""A limit that none is: one more than it can still be counted to."""
_MATCH: Final = "resourceVersionMatch"
_MATCHES: Final = ("Exact", "NotOlderThan", "")
_BASE64: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@frozen
class ListOptions:
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continue_: str = ""
    timeout: int = 0
    bookmarks: bool = False
    send_initial: bool | None = None

    @property
    def revision(self) -> int:
        """0 where none is asked for. Raises BadRequest."""
        return parameters.revision(self.resource_version)


DEFAULT: Final = ListOptions()


def of_list(options: Mapping[str, str]) -> ListOptions:
    """Raises BadRequest and Invalid."""
    if not options:
        return DEFAULT
    given = _decoded(options)
    causes: list[Cause] = []
    if given.match:
        if not given.resource_version:
            causes.append(_forbidden(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided"))
        if given.continue_:
            causes.append(_forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
        if given.match not in _MATCHES:
            causes.append(_unsupported(given.match, _MATCHES))
        if given.match == "Exact" and given.resource_version == "0":
            causes.append(_forbidden(_MATCH, f'{_MATCH} "exact" is forbidden for resourceVersion "0"'))
    if given.send_initial is not None:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    _refuse(causes)
    # Who takes any revision is answered from memory, whole: informers count on it.
    return replace(given, limit=0) if given.resource_version == "0" else given


def of_watch(options: Mapping[str, str]) -> ListOptions:
    """Raises BadRequest and Invalid."""
    given = _decoded(options)
    causes: list[Cause] = []
    starts_with_all = given.send_initial is None and not given.match and given.resource_version in {"", "0"}
    if given.send_initial is not None and given.match != "NotOlderThan":
        causes.append(_forbidden(_MATCH, f"sendInitialEvents requires setting {_MATCH} to NotOlderThan"))
    if given.match:
        if given.send_initial is None:
            causes.append(_forbidden(_MATCH, f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided"))
        if given.match != "NotOlderThan":
            causes.append(_unsupported(given.match, ("NotOlderThan",)))
    if given.continue_ and (given.match or starts_with_all):
        causes.append(_forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
    _refuse(causes)
    return given


def _decoded(options: Mapping[str, str]) -> ListOptions:
    if not options:
        return DEFAULT
    timeout, limit = parameters.integer(options, "timeoutSeconds"), parameters.integer(options, "limit")
    return ListOptions(
        options.get("resourceVersion", ""),
        options.get(_MATCH, ""),
        min(limit, _MOST),
        options.get("continue", ""),
        timeout,
        parameters.flag(options, "allowWatchBookmarks"),
        parameters.flag(options, "sendInitialEvents") if "sendInitialEvents" in options else None,
    )


def _forbidden(field: str, why: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def _unsupported(value: str, supported: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{each}"' for each in supported)
    return Cause(_MATCH, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}')


def _refuse(causes: list[Cause]) -> None:
    if causes:
        raise errors.invalid("meta.k8s.io", "ListOptions", "", causes)


@frozen
class Continuation:
    """Where a list goes on."""

    revision: int | None
    """That all pages of the list show; None to go on with the current state."""
    start: str
    """The first key that is still to come, without the collection's prefix."""
    left: int = 0
    """Objects from there on, as counted when the first page was made; 0 if nobody has counted."""

    def token(self) -> str:
        fields: dict[str, Any] = {
            "v": _ENCODING,
            "rv": _LATEST if self.revision is None else self.revision,
            "start": self.start,
        }
        if self.left:
            fields["left"] = self.left
        return base64.urlsafe_b64encode(orjson.dumps(fields)).decode().rstrip("=")


def continuation(token: str) -> Continuation:
    """Raises BadRequest, with what upstream's decoder says of it."""
    fields = _token_fields(token)
    version, revision, start, left = (fields.get(name) for name in ("v", "rv", "start", "left"))
    if version != _ENCODING:
        shown = version if isinstance(version, str) else ""
        raise _not_valid(f"continue key is not valid: server does not recognize this encoded version {shown}")
    if not isinstance(revision, int) or not revision:
        raise _not_valid(f"continue key is not valid: incorrect encoded start resourceVersion (version {_ENCODING})")
    if not isinstance(start, str) or not start:
        raise _not_valid(f"continue key is not valid: encoded start key empty (version {_ENCODING})")
    rooted = start if start.startswith("/") else f"/{start}"
    if posixpath.normpath(rooted) != rooted:
        raise _not_valid(f"continue key is not valid: {start}")
    counted = left if isinstance(left, int) and left > 0 else 0
    return Continuation(None if revision == _LATEST else revision, start.removeprefix("/"), counted)


def _token_fields(token: str) -> Mapping[str, Any]:
    encoded = token.encode()
    illegal = next((place for place, byte in enumerate(encoded) if byte not in _BASE64), None)
    if illegal is None and len(encoded) % 4 == 1:
        illegal = len(encoded) - 1
    if illegal is not None:
        raise _not_valid(f"continue key is not valid: illegal base64 data at input byte {illegal}")
    data = base64.urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))
    try:
        decoded = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _not_valid(f"continue key is not valid: {_json_problem(data, error.pos)}") from None
    if decoded is not None and not isinstance(decoded, dict):
        kind = "string" if isinstance(decoded, str) else "array" if isinstance(decoded, list) else "number"
        kind = "bool" if isinstance(decoded, bool) else kind
        problem = f"json: cannot unmarshal {kind} into Go value of type storage.continueToken"
        raise _not_valid(f"continue key is not valid: {problem}")
    return objects.mapping(decoded)


def _json_problem(data: bytes, place: int) -> str:
    """In the words of Go's decoder, for text that ends too early or does not begin as a value does."""
    if place >= len(data):
        return "unexpected end of JSON input"
    character = chr(data[place])
    shown = character if character.isprintable() and character.isascii() else f"\\u{data[place]:04x}"
    return f"invalid character '{shown}' looking for beginning of value"


def _not_valid(problem: str) -> errors.BadRequest:
    return errors.BadRequest(f"invalid continue token: {problem}")
