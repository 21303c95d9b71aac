"""Questions about access, which are answered and never stored: who am I, may I, may somebody else, whose token is it.

`kubectl auth whoami` and `kubectl auth can-i` ask them. What may be done is the policy's decision; this module only
speaks the API.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from steelyard.kube import errors, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.access.access import Access
from steelyard.kube.server.bodies import bodies
from steelyard.kube.server.bodies import options as parameters
from steelyard.kube.server.call import Call, Reply, User
from steelyard.kube.server.candidates import candidates, completing
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.rights import questions
from steelyard.kube.server.rights.accounttokens import InvalidToken
from steelyard.kube.server.rights.authz import Attributes

_NOT_KNOWN: Final = "invalid bearer token"
_OTHER_NAMESPACE: Final = "the namespace of the provided object does not match the namespace sent on the request"


def answer(served: Served, call: Call, access: Access, timestamp: str) -> Reply:
    wanted = parameters.write_options(call.options)
    bodies.read_object(call, served.resource.kind)
    candidate = candidates.decode(served, call.body, wanted, call.payload)
    with candidates.warned(candidate):
        _settle_namespace(served, call, candidate.obj)
        completing.prepare_new(served, candidate, wanted, timestamp)
        return Reply(201, _answered(served, call, access, candidate.obj, timestamp), warnings=candidate.warnings)


def _answered(served: Served, call: Call, access: Access, reviewed: Object, timestamp: str) -> Object:
    kind = served.resource.kind
    spec = objects.mapping(reviewed.get("spec"))
    match kind:
        case "SelfSubjectReview":
            reviewed["metadata"] = {"creationTimestamp": timestamp}
            status: Object = {"userInfo": _user_info(call.user)}
        case "TokenReview":
            status = _token(access, spec)
        case "SelfSubjectRulesReview":
            status = _rules(access, call.user, spec)
            reviewed["metadata"], reviewed["spec"] = {}, {}
        case _:
            _refuse(served, questions.judge(kind, reviewed))
            status = _decision(access, call.user if kind == "SelfSubjectAccessReview" else _user(spec), spec)
            reviewed["spec"] = spec
    reviewed["status"] = status
    return reviewed


def _settle_namespace(served: Served, call: Call, obj: Object) -> None:
    """A question lives where its path says, and one about the whole server nowhere."""
    metadata = objects.metadata(obj)
    given = metadata.pop("namespace", None) or call.namespace
    if served.resource.namespaced:
        if given != call.namespace:
            raise errors.BadRequest(_OTHER_NAMESPACE)
        metadata["namespace"] = given


def _refuse(served: Served, causes: Iterable[Cause]) -> None:
    if found := list(causes):
        # Upstream names the group alone.
        raise errors.invalid(served.resource.group, "", "", found)


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


def _token(access: Access, spec: Object) -> Object:
    token = str(spec.get("token") or "")
    if not token:
        raise errors.BadRequest("token is required for TokenReview in authentication")
    try:
        user, audiences = access.review(token, map(str, objects.sequence(spec.get("audiences"))))
    except InvalidToken as error:
        return {"user": {}, "error": f"[{_NOT_KNOWN}, {error}]" if str(error) else _NOT_KNOWN}
    return {"authenticated": True, "user": _user_info(user), "audiences": list(audiences)}
