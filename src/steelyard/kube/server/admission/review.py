"""AdmissionReview, the document that is sent to a webhook and comes back: v1, and v1beta1 for those who know no other.

`verify` is as strict as upstream: an answer that is for another request, of another kind or half a patch is no answer.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Sequence
from typing import Any, Final, cast

import orjson

from steelyard.frozen import frozen
from steelyard.kube import errors, fields, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.call import User
from steelyard.kube.server.catalogue.matching import Attributes
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.webhooks import gowords
from steelyard.kube.server.webhooks.calling import CallFailed

_VERSIONS: Final = ("v1", "v1beta1")
_INVALID: Final = "received invalid webhook response"
_UNDECODABLE: Final = "received undecodable patch in webhook response"
_JSON_PATCH: Final = "JSONPatch"


@frozen
class Verdict:
    allowed: bool
    patch: list[Any]
    """The operations of a JSON patch; none for an object that stays as it is."""
    result: Object
    warnings: tuple[str, ...]
    annotations: Object
    """For the audit log."""


def version_for(accepted: Sequence[str]) -> str:
    """The first version that the webhook names and the server knows."""
    for version in accepted:
        if version in _VERSIONS:
            return version
    raise CallFailed("could not create admission objects: webhook does not accept known AdmissionReview versions "
                     "(v1, v1beta1)")  # fmt: skip


def request(attributes: Attributes, target: Served, obj: Object | None, old: Object | None, version: str) -> Object:
    """The review to send; `obj` and `old` in the version of the target."""
    asked = {"uid": str(uuid.uuid4()), **content(attributes, target), "object": obj, "oldObject": old}
    return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": asked}


def content(attributes: Attributes, target: Served) -> Object:
    """The request without its objects, as conditions see it."""
    asked, subresource = attributes.served, attributes.subresource
    request: Object = {
        "kind": _kind(target, subresource),
        "resource": _resource(target),
        "requestKind": _kind(asked, subresource),
        "requestResource": _resource(asked),
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": _user(attributes.user),
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    if subresource:
        request["subResource"] = request["requestSubResource"] = subresource
    for field in ("name", "namespace"):
        if not request[field]:
            del request[field]
    return request


def _kind(served: Served, subresource: str) -> Object:
    found = served.subresources.get(subresource)
    if found is not None:
        return {"group": found.group, "version": found.version, "kind": found.kind}
    resource = served.resource
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _resource(served: Served) -> Object:
    resource = served.resource
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _user(user: User) -> Object:
    shown: Object = {"username": user.name}
    if user.uid:
        shown["uid"] = user.uid
    if user.groups:
        shown["groups"] = list(user.groups)
    if user.extra:
        shown["extra"] = {key: list(values) for key, values in user.extra.items()}
    return shown


def verify(sent: Object, answer: Any, *, mutating: bool) -> Verdict:
    """What the webhook decided. Raises CallFailed for an answer that is none."""
    review = objects.mapping(answer)
    response = review.get("response")
    if not isinstance(response, dict):
        raise CallFailed(f"{_INVALID}: webhook response was absent")
    given = cast(Object, response)
    if sent["apiVersion"] == "admission.k8s.io/v1":
        _verify_strictly(sent, review, given, mutating=mutating)
    warnings = tuple(map(str, objects.sequence(given.get("warnings"))))
    result = objects.mapping(given.get("status"))
    patch = _patch(given) if mutating and given.get("allowed") is True else []
    if patch and given.get("patchType", _JSON_PATCH) != _JSON_PATCH:
        raise CallFailed(f"unsupported patch type {fields.quote(str(given['patchType']))}")
    annotations = objects.mapping(given.get("auditAnnotations"))
    return Verdict(given.get("allowed") is True, patch, result, warnings, annotations)


def _verify_strictly(sent: Object, review: Object, given: Object, *, mutating: bool) -> None:
    uid, got = str(sent["request"]["uid"]), str(given.get("uid") or "")
    if got != uid:
        raise CallFailed(f"{_INVALID}: expected response.uid={fields.quote(uid)}, got {fields.quote(got)}")
    if (review.get("apiVersion"), review.get("kind")) != (sent["apiVersion"], sent["kind"]):
        wanted = "admission.k8s.io/v1, Kind=AdmissionReview"
        shown = f"{review.get('apiVersion') or '/'}, Kind={review.get('kind') or ''}"
        raise CallFailed(f"{_INVALID}: expected webhook response of {wanted}, got {shown}")
    patch, patch_type = given.get("patch"), given.get("patchType")
    if not mutating:
        if patch:
            raise CallFailed(f"{_INVALID}: validating webhook may not return response.patch")
        if patch_type is not None:
            raise CallFailed(f"{_INVALID}: validating webhook may not return response.patchType")
        return
    if patch and patch_type is None:
        raise CallFailed(f"{_INVALID}: webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise CallFailed(f"{_INVALID}: webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise CallFailed(f'{_INVALID}: webhook returned invalid response.patchType of ""')


def _patch(given: Object) -> list[Any]:
    encoded = given.get("patch")
    if not encoded:
        return []
    try:
        decoded: Any = orjson.loads(base64.b64decode(str(encoded), validate=True))
    except (binascii.Error, ValueError) as error:
        raise CallFailed(f"{_UNDECODABLE}: {gowords.json_error(error)}") from None
    if decoded is not None and not isinstance(decoded, list):
        raise CallFailed(f"{_UNDECODABLE}: {gowords.mismatch(decoded)} into Go value of type jsonpatch.Patch")
    return objects.sequence(decoded)


def denial(name: str, result: Object) -> errors.ApiError:
    """The error that a client gets when the webhook said no: the webhook's own status, with its name in the message."""
    start = f"admission webhook {fields.quote(name)} denied the request"
    said = result.get("message") or result.get("reason")
    message = f"{start}: {said}" if said else f"{start} without explanation"
    number = result.get("code")
    code = number if isinstance(number, int) and not isinstance(number, bool) and 400 <= number < 600 else 400
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    for field in ("reason", "details"):
        if result.get(field):
            status[field] = result[field]
    status["code"] = code
    error = errors.from_status(status)
    error.given = status
    return error
