"""Request bodies: JSON, YAML and protobuf in, plain values out, and a 4xx for everything else.

A verb that wants the body asks for it here when it is due: what upstream looks at before (the resource, the content
type, the options, for a patch the object) is then settled, and the answer to a broken body names what was expected.
A caller in the same process has put a value into `call.body` itself, which is then taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

import orjson

from steelyard.kube import errors
from steelyard.kube.server import syntax, typechecks
from steelyard.kube.server.call import Call, PatchType, Payload

MAX_BYTES: Final = 3 * 1024 * 1024
MAX_DEPTH: Final = 128
"""Objects and lists inside one another: more than any kind has, and far from where Python or the encoder give up."""
_ENCODER_DEPTH: Final = 254
_PATCH_TYPES: Final[dict[str, PatchType]] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
Form = Literal["json", "yaml", "protobuf"]
_FORMS: Final[dict[str, Form]] = {
    "application/json": "json",
    "application/yaml": "yaml",
    "application/vnd.kubernetes.protobuf": "protobuf",
}
_PARAMETERS: Final = re.compile(r'(\s*;\s*[^\s;="]+=([^\s;="]+|"[^"]*"))*\s*;?\s*', re.ASCII)
_SUMMARY_BYTES: Final = 30


class Unreadable(Exception):
    """A body that is no JSON or YAML; the text says why, in upstream's words."""


def read_object(call: Call, kind: str) -> None:
    """Decodes the body of a create or update into `call.body`. Raises UnsupportedMediaType, and a BadRequest that says
    of which kind an object was expected."""
    payload = call.payload
    if payload is None:
        return
    payload.form = _form(payload.content_type)
    try:
        call.body = _value(payload)
    except Unreadable as error:
        reason = f"couldn't get version/kind; json parse error: {error}" if payload.form == "json" else str(error)
        raise unrecognized(kind, reason, payload) from None


def unrecognized(kind: str, reason: str, payload: Payload | None) -> errors.BadRequest:
    """The answer to a body of which not even the kind can be told; it quotes how the body begins."""
    quoted = f" ({_summary(payload.data)})" if payload is not None else ""
    return errors.BadRequest(f"the object provided is unrecognized (must be of type {kind}): {reason}{quoted}")


def _summary(data: bytes) -> str:
    if not data:
        return "<empty>"
    more = " ..." if len(data) > _SUMMARY_BYTES else ""
    start = data[:_SUMMARY_BYTES]
    return (start.decode("utf-8", "replace") if start[:1] == b"{" else start.hex()) + more


def read_delete_options(call: Call) -> None:
    """The same for DeleteOptions, which may be absent."""
    payload = call.payload
    if payload is None:
        return
    payload.form = _form(payload.content_type)
    try:
        call.body = _value(payload)
    except Unreadable as error:
        reason = f"couldn't get version/kind; json parse error: {error}" if payload.form == "json" else str(error)
        raise errors.BadRequest(reason) from None


def settle_patch_type(call: Call, *, mergeable: bool) -> None:
    """Which kind of patch the content type names. Raises UnsupportedMediaType.

    `mergeable` says that the kind has strategic merge patches: built-in ones do. Upstream's router refuses patches of
    built-in kinds before the handler sees them, in words of its own.
    """
    if call.payload is not None:
        media_type = call.payload.content_type.partition(";")[0]
        found = _PATCH_TYPES.get(media_type)
        if found is None and mergeable and media_type.strip() not in _PATCH_TYPES:
            raise errors.UnroutableMediaType("415: Unsupported Media Type")
        call.patch_type = found or ""
    is_unknown = not call.patch_type or (call.patch_type == "strategic" and not mergeable)
    if is_unknown:
        accepted = [name for name, type_ in _PATCH_TYPES.items() if mergeable or type_ != "strategic"]
        raise _unsupported(accepted)


def read_patch(call: Call) -> None:
    """Decodes a patch into `call.body`. Raises Unreadable."""
    payload = call.payload
    if payload is not None:
        payload.form = "yaml" if call.patch_type == "apply" else "json"
        call.body = _value(payload)


def read_applied(call: Call) -> None:
    """Decodes an object to be applied into `call.body`. Raises BadRequest."""
    try:
        read_patch(call)
    except Unreadable as error:
        raise errors.BadRequest(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if call.body is None:
        call.body = {}
    if not isinstance(call.body, dict):
        raise errors.BadRequest(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{typechecks.describe(call.body)} into Go value of type map[string]interface {{}}"
        )


def too_large() -> errors.TooLarge:
    return errors.TooLarge(f"Request entity too large: limit is {MAX_BYTES}")


def too_deep() -> errors.BadRequest:
    return errors.BadRequest(f"the body of the request is nested too deeply: limit is {MAX_DEPTH} levels")


def _form(content_type: str) -> Form:
    form = _FORMS.get(content_type or "application/json")
    if form is not None:
        return form
    media_type, separator, parameters = content_type.partition(";")
    form = _FORMS.get(media_type.strip().lower())
    if form is None or not _PARAMETERS.fullmatch(separator + parameters):
        raise _unsupported(list(_FORMS))
    return form


def _value(payload: Payload) -> Any:
    match payload.form:
        case "yaml":
            return _yaml(payload)
        case "protobuf":
            return _protobuf(payload.data)
        case _:
            return _json(payload.data)


def _json(data: bytes) -> Any:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            depth = syntax.depth(data)
        except syntax.SyntaxProblem as problem:
            raise Unreadable(str(problem)) from None
        if depth > MAX_DEPTH:
            raise too_deep() from None
        return syntax.lenient(data)
    _check_depth(data, value)
    return value


def _yaml(payload: Payload) -> Any:
    data = payload.data
    if data[:1] == b"{":
        # Go clients label JSON as YAML, and orjson is a hundred times faster.
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            pass
        else:
            _check_depth(data, value)
            if may_repeat(data, orjson.dumps(value)):
                payload.repeated = _load_yaml(data)[1]
            return value
    value, payload.repeated = _load_yaml(data)
    return value


def _load_yaml(data: bytes) -> tuple[Any, tuple[str, ...]]:
    from steelyard.kube.server import yamlbodies

    return yamlbodies.load(data, MAX_DEPTH)


def _protobuf(data: bytes) -> Any:
    from steelyard.kube.builtin import protobuf

    try:
        value = protobuf.decode(data)
    except RecursionError:
        raise too_deep() from None
    _encode_within_depth(value)
    return value


def may_repeat(data: bytes, encoded: bytes) -> bool:
    """Whether a JSON text might give a field twice: its value, encoded again, has then fewer colons.

    Colons inside of strings stay; only one written as an escape would be new. Most bodies are written as the encoder
    writes them, and need no counting.
    """
    if data.startswith(encoded):
        return False
    return data.count(b":") != encoded.count(b":") or b"\\u003" in data


def _check_depth(data: bytes, value: Any) -> None:
    """Most bodies have too few brackets to be deep."""
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH:
        _encode_within_depth(value)


def _encode_within_depth(value: Any) -> None:
    """Lets the encoder, which gives up at a depth of its own, look at the value from as far up as the limits differ.

    Walking through the value in Python would take longer than decoding it.
    """
    _INNERMOST[0] = value
    try:
        orjson.dumps(_SURROUNDED)
    except TypeError as error:
        if "ecursion" in str(error):
            raise too_deep() from None
    finally:
        _INNERMOST[0] = None


def _surroundings(levels: int) -> tuple[list[Any], list[Any]]:
    """Lists inside one another: the outermost and the innermost."""
    innermost: list[Any] = [None]
    outermost: list[Any] = innermost
    for _ in range(levels - 1):
        outermost = [outermost]
    return outermost, innermost


_SURROUNDED, _INNERMOST = _surroundings(_ENCODER_DEPTH - MAX_DEPTH)


def _unsupported(types: Sequence[str]) -> errors.UnsupportedMediaType:
    listed = ", ".join(types)
    return errors.UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )
