"""Questions about access, which are answered and never stored: who am I, may I, may somebody else, whose token is it.

`kubectl auth whoami` and `kubectl auth can-i` ask them. What may be done is the policy's decision; this module only
speaks the API.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from steelyard.kube import errors, fields, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server import decoding
from steelyard.kube.server.access.access import Access
from steelyard.kube.server.access.tokens import InvalidToken
from steelyard.kube.server.authz import Attributes
from steelyard.kube.server.call import Call, Reply, User
from steelyard.kube.server.registry import Served

_ONE_OF: Final = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def answer(served: Served, call: Call, access: Access, timestamp: str) -> Reply:
    body = decoding.read(served.resource, call)
    kind = served.resource.kind
    spec = objects.mapping(body.get("spec"))
    metadata: Object = {}
    match kind:
        case "SelfSubjectReview":
            metadata["creationTimestamp"] = timestamp
            status: Object = {"userInfo": _user_info(call.user)}
        case "TokenReview":
            status = _token(access, call, spec)
        case "SelfSubjectRulesReview":
            status = _rules(access, call.user, spec)
        case _:
            _refuse(served, _judge(kind, call, body, spec))
            user = call.user if kind == "SelfSubjectAccessReview" else _user(spec)
            if kind == "LocalSubjectAccessReview":
                metadata["namespace"] = call.namespace
            status = _decision(access, user, spec)
    reviewed: Object = {"kind": kind, "apiVersion": served.resource.api_version, "metadata": metadata}
    if kind == "SelfSubjectRulesReview":
        reviewed["spec"] = {}
    elif kind != "SelfSubjectReview":
        reviewed["spec"] = spec
    return Reply(201, {**reviewed, "status": status})


def _judge(kind: str, call: Call, body: Object, spec: Object) -> Iterable[Cause]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        yield fields.invalid("spec", path, _ONE_OF)
    if kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        yield fields.invalid("spec.user", "", "at least one of user or group must be specified")
    if kind != "LocalSubjectAccessReview":
        return
    namespace = str(objects.metadata(body).get("namespace") or "")
    if resource is not None and (objects.mapping(resource).get("namespace") or "") != namespace:
        given: Any = objects.mapping(resource).get("namespace") or ""
        yield fields.invalid("spec.resourceAttributes.namespace", given, "must match metadata.namespace")
    if path is not None:
        yield fields.invalid("spec.nonResourceAttributes", path, "disallowed on this kind of request")
    if namespace != call.namespace:
        raise errors.BadRequest(f"spec.resourceAttributes.namespace must match namespace: {call.namespace}")


def _refuse(served: Served, causes: Iterable[Cause]) -> None:
    if found := list(causes):
        raise errors.invalid(served.resource.group, served.resource.kind, "", found)


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _user(spec: Object) -> User:
    return User(str(spec.get("user") or ""), tuple(map(str, objects.sequence(spec.get("groups")))))


def _decision(access: Access, user: User, spec: Object) -> Object:
    resource = objects.mapping(spec.get("resourceAttributes"))
    wanted = resource or objects.mapping(spec.get("nonResourceAttributes"))

    def text(field: str) -> str:
        return str(wanted.get(field) or "")

    attributes = Attributes(
        user,
        text("verb"),
        path=text("path"),
        group=text("group"),
        plural=text("resource"),
        subresource=text("subresource"),
        namespace=text("namespace"),
        name=text("name"),
    )
    decision = access.rbac.decide(attributes)
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return status


def _rules(access: Access, user: User, spec: Object) -> Object:
    namespace = str(spec.get("namespace") or "")
    if not namespace:
        raise errors.BadRequest("no namespace on request")
    held, unresolved = access.rbac.policy.held(user, namespace)
    sources = [rule.source for rule in held]
    status: Object = {
        "resourceRules": [
            {field: rule[field] for field in ("verbs", "apiGroups", "resources", "resourceNames") if rule.get(field)}
            for rule in sources
            if rule.get("resources")
        ],
        "nonResourceRules": [
            {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
            for rule in sources
            if rule.get("nonResourceURLs")
        ],
        "incomplete": False,
    }
    if unresolved:
        status["evaluationError"] = unresolved
    return status


def _token(access: Access, call: Call, spec: Object) -> Object:
    token = str(spec.get("token") or "")
    if not token:
        raise errors.BadRequest("token is required for TokenReview in authentication")
    try:
        user, audiences = access.review(token, map(str, objects.sequence(spec.get("audiences"))))
    except InvalidToken as error:
        return {"user": {}, "error": f"[invalid bearer token, {error}]"}
    return {"authenticated": True, "user": _user_info(user), "audiences": list(audiences)}
