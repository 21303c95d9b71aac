"""Versions of a custom resource that only a program of its author can convert into each other.

An object is stored in one version and shown in any. `record` and `records` give stored states in the version that is
asked for, `convert` turns objects in either direction; both leave alone what has the right version already. The
webhook may change everything but the identity of an object; of its metadata only labels and annotations count.
Whatever goes wrong is an InternalError: the server cannot show what it cannot convert.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final, cast

import orjson

from steelyard.frozen import frozen
from steelyard.kube import errors, fields, objectmeta, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.webhooks.calling import Caller, CallFailed
from steelyard.kube.server.webhooks.clientconfig import ClientConfig
from steelyard.kube.store.record import Record

_SECONDS: Final = 30.0
_VERSIONS: Final = ("v1", "v1beta1")
_OPEN_METADATA: Final = ("labels", "annotations")


@frozen
class Conversion:
    client_config: ClientConfig
    review_versions: tuple[str, ...]


class _Refused(Exception):
    """What is wrong with the webhook's answer, and in which part of it."""

    def __init__(self, text: str, part: str = "object") -> None:
        super().__init__(text)
        self.part = part


async def records(caller: Caller, conversion: Conversion, stored: Sequence[Record], wanted: str) -> list[Record]:
    """The states in the wanted apiVersion, all converted with one call; keys and revisions stay."""
    foreign = [index for index, record in enumerate(stored) if record.object.get("apiVersion") != wanted]
    shown = list(stored)
    if foreign:
        given = [stored[index].object for index in foreign]
        converted = await convert(caller, conversion, given, wanted)
        for index, obj in zip(foreign, converted, strict=True):
            record = stored[index]
            shown[index] = Record(record.key, record.revision, orjson.dumps(obj), obj)
    return shown


async def convert(caller: Caller, conversion: Conversion, given: Sequence[Object], wanted: str) -> list[Object]:
    """The objects, which must all be of another version, in the wanted one."""
    kind = _kind(given[0])
    version = next((each for each in conversion.review_versions if each in _VERSIONS), "")
    if not version:
        raise errors.Unclassified("no supported conversion review versions")
    review: Object = {
        "kind": "ConversionReview",
        "apiVersion": f"apiextensions.k8s.io/{version}",
        "request": {"uid": str(uuid.uuid4()), "desiredAPIVersion": wanted, "objects": list(given)},
    }
    try:
        answer = await caller.post(conversion.client_config, review, _SECONDS)
        converted = _converted(review, answer)
    except (CallFailed, _Refused) as error:
        raise errors.Unclassified(f"conversion webhook for {kind} failed: {error}") from None
    if len(converted) != len(given):
        raise errors.Unclassified(
            f"conversion webhook for {kind} returned {len(converted)} objects, expected {len(given)}"
        )
    out: list[Object] = []
    for before, after in zip(given, converted, strict=True):
        try:
            out.append(_checked(before, after, wanted))
        except _Refused as error:
            raise errors.Unclassified(f"conversion webhook for {kind} returned invalid {error.part}: {error}") from None
    return out


def _kind(obj: Object) -> str:
    return f"{obj.get('apiVersion')}, Kind={obj.get('kind')}"


def _converted(sent: Object, answer: Any) -> list[Any]:
    review = objects.mapping(answer)
    is_strict = sent["apiVersion"] == "apiextensions.k8s.io/v1"
    if is_strict and (review.get("apiVersion"), review.get("kind")) != (sent["apiVersion"], sent["kind"]):
        shown = f"{review.get('apiVersion') or '/'}, Kind={review.get('kind') or ''}"
        raise _Refused(f"expected webhook response of {_kind(sent)}, got {shown}")
    if not isinstance(review.get("response"), dict):
        raise _Refused("no response provided")
    response = objects.mapping(review["response"])
    uid, got = str(sent["request"]["uid"]), str(response.get("uid") or "")
    if is_strict and got != uid:
        raise _Refused(f"expected response.uid={fields.quote(uid)}, got {fields.quote(got)}")
    result = objects.mapping(response.get("result"))
    if result.get("status") != "Success":
        message = result.get("message")
        raise _Refused(str(message or f"response.result.status was '{result.get('status') or ''}', not 'Success'"))
    return objects.sequence(response.get("convertedObjects"))


def _checked(before: Object, after: Any, wanted: str) -> Object:
    if not isinstance(after, dict):
        raise _Refused("it is not an object")
    obj = cast(Object, after)
    if obj.get("apiVersion") != wanted:
        raise _Refused(
            f"invalid groupVersion (expected {wanted}, received {obj.get('apiVersion') or '/'})", "object at index 0"
        )
    if obj.get("kind") != before.get("kind"):
        raise _Refused(
            f"invalid kind (expected {before.get('kind')}, received {obj.get('kind') or ''})", "object at index 0"
        )
    theirs, ours = objects.mapping(obj.get("metadata")), objects.metadata(before)
    for field, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (ours.get(field) or "") != (theirs.get(field) or ""):
            raise _Refused(f"must have the same {shown}: {ours.get(field) or ''} != {theirs.get(field) or ''}")
    if "metadata" not in obj:
        raise _Refused("missing metadata in converted object", "metadata")
    metadata = {**ours}
    for field in _OPEN_METADATA:
        metadata.pop(field, None)
        value = theirs.get(field)
        if value is None:
            continue
        if not isinstance(value, dict):
            text = f"invalid metadata.{field} of type {_go_type(value)} in converted object"
            raise _Refused(text, "metadata")
        for key, item in cast(Object, value).items():
            if not isinstance(item, str):
                text = f"metadata.{field}[{key}] must be a string, but is {_go_type(item)} in converted object"
                raise _Refused(text, "metadata")
        if value != ours.get(field) and (wrong := _wrong_keys(field, cast(Object, value))):
            raise _Refused(wrong, "metadata")
        metadata[field] = value
    rest = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    return {"apiVersion": wanted, "kind": obj["kind"], "metadata": metadata, **rest}


def _wrong_keys(field: str, given: Object) -> str:
    judge = objectmeta.validate_labels if field == "labels" else objectmeta.validate_annotations
    place = "metadata.labels" if field == "labels" else "metadata.annotation"
    texts = [f"{cause.field}: {cause.message}" for cause in judge(given, place)]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


def _go_type(value: Any) -> str:
    """As Go names what it has decoded a value to."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case list():
            return "[]interface {}"
        case dict():
            return "map[string]interface {}"
        case None:
            return "<nil>"
        case _:
            return "string"
