"""Questions about access, which are answered and never stored: who am I, may I, may somebody else.

`kubectl auth whoami` and `kubectl auth can-i` ask them. What may be done is the authorizer's decision; this module only
speaks the API.
"""

from __future__ import annotations

from typing import cast

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.authz import Attributes, Authorizer
from steelyard.kube.server.call import Call, Reply, User
from steelyard.kube.server.registry import Served


def answer(served: Served, call: Call, authorizer: Authorizer, timestamp: str) -> Reply:
    given: object = call.body
    if not isinstance(given, dict):
        raise errors.BadRequest(f"the object provided is unrecognized (must be of type {served.resource.kind})")
    body = objects.mapping(cast(Object, given))
    kind = served.resource.kind
    if body.get("kind") not in (None, "", kind):
        raise errors.BadRequest(f"{body.get('kind')} cannot be handled as a {kind}")
    spec = objects.mapping(body.get("spec"))
    match kind:
        case "SelfSubjectReview":
            status: Object = {"userInfo": _user_info(call.user)}
        case "SelfSubjectAccessReview":
            status = _decision(authorizer, call.user, spec)
        case "SubjectAccessReview" | "LocalSubjectAccessReview":
            status = _decision(authorizer, _user(spec), spec)
        case "SelfSubjectRulesReview":
            status = _rules(authorizer, call.user)
        case _:
            raise errors.MethodNotAllowed(f"{kind} is not supported by this server", kind=kind)
    metadata: Object = {"creationTimestamp": timestamp if kind == "SelfSubjectReview" else None}
    reviewed: Object = {"kind": kind, "apiVersion": served.resource.api_version, "metadata": metadata}
    if spec:
        reviewed["spec"] = spec
    return Reply(201, {**reviewed, "status": status})


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _user(spec: Object) -> User:
    return User(str(spec.get("user") or ""), tuple(map(str, objects.sequence(spec.get("groups")))))


def _decision(authorizer: Authorizer, user: User, spec: Object) -> Object:
    resource = objects.mapping(spec.get("resourceAttributes"))
    path = objects.mapping(spec.get("nonResourceAttributes"))
    if bool(resource) == bool(path):
        message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise errors.BadRequest(f"spec.resourceAttributes: Invalid value: {message}")
    wanted = resource or path

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
    allowed = authorizer.allows(attributes)
    return {"allowed": allowed} if allowed else {"allowed": False, "reason": "no rule grants it"}


def _rules(authorizer: Authorizer, user: User) -> Object:
    """Complete for those who may do everything; for others the rules cannot be told by asking."""
    if not authorizer.allows(Attributes(user, "*", group="*", plural="*")):
        return {"resourceRules": [], "nonResourceRules": [], "incomplete": True}
    return {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }
