"""Request bodies: JSON, YAML and protobuf in, plain values out, and a 4xx for everything else.

A verb that wants the body asks for it here when it is due: what upstream looks at before (the resource, the content
type, the options, for a patch the object) is then settled, and the answer to a broken body names what was expected.
A caller in the same process has put a value into `call.body` itself, which is then taken as it is.

What takes long to read is read ahead (`prepare`), beside the event loop: a long JSON text in the lane, long YAML and
protobuf by a worker. The verb then finds the value, or what was wrong with it, when it asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import orjson

from steelyard.kube import errors
from steelyard.kube.server.bodies import syntax, typechecks, workers
from steelyard.kube.server.bodies.syntax import Unreadable
from steelyard.kube.server.call import Call, PatchType, Payload
from steelyard.kube.server.fairness import budgets, lane

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
_NOT_OF_YAML: Final = re.compile(rb"\xc2[\x80-\x84\x86-\x9f]|\xef\xbf[\xbe\xbf]")
"""Characters beyond ASCII that a text of JSON may have and one of YAML may not; of ASCII it is DEL alone."""
_SUMMARY_BYTES: Final = 30
_DELETING: Final = frozenset(("delete", "deletecollection"))
_INSTRUCTIONS: Final = frozenset(("scale", "token"))
_QUESTIONS: Final = frozenset(("authentication.k8s.io", "authorization.k8s.io"))


async def prepare(call: Call, payload: Payload) -> None:
    """Reads ahead what takes long; a body that nobody would read as it is named is left alone."""
    try:
        form = _form_ahead(call, payload)
        if form == "yaml":
            await _prepare_yaml(call, payload)
        elif len(payload.data) > budgets.LIGHT_BYTES:
            data = payload.data
            if form == "protobuf":
                data = await workers.SHARED.read_protobuf(data, call.flow)
            _weigh(call, data)
            payload.ahead = (await _staged(call, _json, data),)
    except errors.UnsupportedMediaType:
        pass
    except (Unreadable, errors.ApiError) as error:
        payload.problem = error


def is_short_yaml(data: bytes) -> bool:
    """A text that takes no time to read, even as YAML: it has nothing that stands for something else."""
    return len(data) <= budgets.LIGHT_YAML_BYTES and b"*" not in data


def _form_ahead(call: Call, payload: Payload) -> Form:
    if call.verb != "patch":
        return _form(payload.content_type)
    return "yaml" if _PATCH_TYPES.get(payload.content_type.partition(";")[0]) == "apply" else "json"


async def _prepare_yaml(call: Call, payload: Payload) -> None:
    data = payload.data
    if is_short_yaml(data):
        return
    found: tuple[Any, bool] | None = None
    if _is_json(data):
        _weigh(call, data)
        found = await _staged(call, _plain_json, data)
    if found is None or found[1]:
        text, payload.repeated = await workers.SHARED.read_yaml(data, call.flow)
        if found is None:
            _weigh(call, text)
            found = await _staged(call, _json, text), False
    payload.ahead = (found[0],)


def _weigh(call: Call, text: bytes) -> None:
    """Raises TooLarge for a question or an instruction of the size of an object."""
    call.is_light = budgets.is_light(text)
    is_object = call.verb not in _DELETING and call.subresource not in _INSTRUCTIONS and call.group not in _QUESTIONS
    if not call.is_light and not is_object:
        raise budgets.too_many_values(budgets.LIGHT_VALUES)


async def _staged(call: Call, read: Callable[[bytes], Any], data: bytes) -> Any:
    return read(data) if call.is_light else await lane.SHARED.run(call.flow, read, data)


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
    if payload.problem is not None:
        raise payload.problem
    if payload.ahead:
        return payload.ahead[0]
    match payload.form:
        case "yaml":
            return _yaml(payload)
        case "protobuf":
            return _protobuf(payload.data)
        case _:
            return _json(payload.data)


def _json(data: bytes) -> Any:
    budgets.check_values(data)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            syntax.check(data)
            return syntax.lenient(data)
        except syntax.TooDeep:
            raise budgets.too_deep() from None
        except syntax.SyntaxProblem as problem:
            raise Unreadable(str(problem)) from None
    _check_depth(data, value)
    return value


def _is_json(data: bytes) -> bool:
    """Go clients label JSON as YAML. One that could only be JSON is left to the reader of YAML, which refuses it."""
    return data[:1] == b"{" and b"\x7f" not in data and (data.isascii() or not _NOT_OF_YAML.search(data))


def _yaml(payload: Payload) -> Any:
    data = payload.data
    found = _plain_json(data) if _is_json(data) else None
    if found is not None and not found[1]:
        return found[0]
    value, payload.repeated = _load_yaml(data)
    return found[0] if found is not None else value


def _plain_json(data: bytes) -> tuple[Any, bool] | None:
    """The value of a YAML text that is JSON, which is read a hundred times faster, and whether it might give a key
    twice; None if it is no JSON."""
    budgets.check_values(data)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    _check_depth(data, value)
    return value, may_repeat(data, orjson.dumps(value))


def _load_yaml(data: bytes) -> tuple[Any, tuple[str, ...]]:
    from steelyard.kube.server.bodies import yamlbodies

    return yamlbodies.load(data)


def _protobuf(data: bytes) -> Any:
    from steelyard.kube.builtin import protobuf

    try:
        value = protobuf.decode(data)
    except RecursionError:
        raise budgets.too_deep() from None
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
    if data.count(b"{") + data.count(b"[") > budgets.MAX_DEPTH:
        _encode_within_depth(value)


def _encode_within_depth(value: Any) -> None:
    """Lets the encoder, which gives up at a depth of its own, look at the value from as far up as the limits differ.

    Walking through the value in Python would take longer than decoding it.
    """
    surrounded = value
    for _ in range(_ENCODER_DEPTH - budgets.MAX_DEPTH):
        surrounded = [surrounded]
    try:
        orjson.dumps(surrounded)
    except TypeError as error:
        if "ecursion" in str(error):
            raise budgets.too_deep() from None


def _unsupported(types: Sequence[str]) -> errors.UnsupportedMediaType:
    listed = ", ".join(types)
    return errors.UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )
