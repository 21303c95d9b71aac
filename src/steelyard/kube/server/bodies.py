"""Request bodies: JSON, YAML and protobuf in, plain values out, and a 4xx for everything else.

YAML is read as Kubernetes reads it, by way of JSON: timestamps stay strings, keys become strings. Aliases are expanded
against a budget, so that a few lines cannot stand for gigabytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

import orjson
import yaml

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.server.call import PatchType, Verb

MAX_BYTES: Final = 3 * 1024 * 1024
_PATCH_TYPES: Final[dict[str, PatchType]] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
_OBJECT_TYPES: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_MAX_YAML_NODES: Final = 200_000
MAX_DEPTH: Final = 128
"""Objects and lists inside one another: more than any kind has, and far from where Python or the encoder give up."""
_ENCODER_DEPTH: Final = 254


def decode(verb: Verb, content_type: str, body: bytes) -> tuple[Any, PatchType]:
    """The decoded body, and for a patch what kind of patch it is. Raises BadRequest and UnsupportedMediaType."""
    media_type = content_type.partition(";")[0].strip().lower()
    if verb == "patch":
        patch_type = _PATCH_TYPES.get(media_type)
        if patch_type is None:
            raise _unsupported(tuple(_PATCH_TYPES))
        return (_yaml(body) if patch_type == "apply" else _json(body)), patch_type
    if not body and verb in ("delete", "deletecollection"):
        return None, ""
    if media_type in ("", "application/json"):
        value = _json(body)
    elif media_type == "application/yaml":
        value = _yaml(body)
    elif media_type == "application/vnd.kubernetes.protobuf":
        value = _protobuf(body)
    else:
        raise _unsupported(_OBJECT_TYPES)
    if not isinstance(value, dict):
        raise errors.BadRequest("the body of the request must be an object with apiVersion and kind")
    return cast(Object, value), ""


def too_large() -> errors.TooLarge:
    return errors.TooLarge(f"Request entity too large: limit is {MAX_BYTES}")


def _json(body: bytes) -> Any:
    if not body:
        raise errors.BadRequest("the body of the request is empty")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.BadRequest(f"the body of the request is not valid JSON: {error}") from None
    _check_depth(body, value)
    return value


def _yaml(body: bytes) -> Any:
    if body[:1] == b"{":
        # Go clients label JSON as YAML, and orjson is a hundred times faster.
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
        else:
            _check_depth(body, value)
            return value
    try:
        text = body.decode("utf-8")
        _check_yaml_depth(text)
        document: Any = yaml.load(text, Loader=_Loader)  # noqa: S506 - derived from the safe loader
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        reason = str(error).replace("\n", " ")
        raise errors.BadRequest(f"the body of the request is not valid YAML: {reason}") from None
    return _Expansion().expand(document, 0)


def _protobuf(body: bytes) -> Any:
    from steelyard.kube.builtin import protobuf

    try:
        value = protobuf.decode(body)
    except RecursionError:
        raise too_deep() from None
    _encode_within_depth(value)
    return value


def _check_yaml_depth(text: str) -> None:
    """Before it is loaded: the loader calls itself for each level in C, and would take the process with it."""
    if sum(map(text.count, "{[:-?")) <= MAX_DEPTH:
        return
    depth = 0
    events = cast("Iterable[yaml.Event]", cast(Any, yaml).parse(text, Loader=_Loader))
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise too_deep()
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_depth(body: bytes, value: Any) -> None:
    """Most bodies have too few brackets to be deep."""
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
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


def too_deep() -> errors.BadRequest:
    return errors.BadRequest(f"the body of the request is nested too deeply: limit is {MAX_DEPTH} levels")


def _unsupported(types: tuple[str, ...]) -> errors.UnsupportedMediaType:
    listed = ", ".join(types)
    return errors.UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )


if TYPE_CHECKING:
    _SafeLoader = yaml.SafeLoader
else:
    # The one on libyaml, where PyYAML was built with it, is ten times faster.
    _SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):
    """Without dates: to Kubernetes they are strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Expansion:
    """Turns what YAML can express into what JSON can, sharing nothing between two places."""

    def __init__(self) -> None:
        self._budget = _MAX_YAML_NODES

    def expand(self, value: Any, depth: int) -> Any:
        self._budget -= 1
        if self._budget < 0 or depth > MAX_DEPTH:
            raise errors.BadRequest(
                "the body of the request is not valid YAML: it is too large or too deep once expanded"
            )
        if isinstance(value, dict):
            mapping = cast("dict[Any, Any]", value)
            return {_key(key): self.expand(each, depth + 1) for key, each in mapping.items()}
        if isinstance(value, list):
            return [self.expand(each, depth + 1) for each in cast("list[Any]", value)]
        if isinstance(value, float) and not math.isfinite(value):
            raise errors.BadRequest("the body of the request is not valid YAML: infinity and NaN have no JSON form")
        if value is None or isinstance(value, str | bool | int | float):
            return value
        raise errors.BadRequest(f"the body of the request is not valid YAML: {type(value).__name__} has no JSON form")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise errors.BadRequest(
        "the body of the request is not valid YAML: a key is neither a string, a number nor a boolean"
    )
