"""Questions about rights: `authorizer.group('apps').resource('deployments').namespace('a').check('get').allowed()`.

Who answers them is the business of whoever gives an expression its `authorizer`. Everything here is a value; the answer
is asked for by `check`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube import namerules
from steelyard.kube.cel.functions import declare
from steelyard.kube.cel.problems import EvaluationError

Account: TypeAlias = tuple[str, str]
"""Namespace and name."""
Decide: TypeAlias = "Callable[[Check], tuple[bool, str]]"
"""Whether it is allowed, and why."""


@frozen
class Rights:
    """The variable `authorizer` itself."""

    kind: ClassVar[str] = "kubernetes.authorization.Authorizer"
    decide: Decide
    requested: Check | None = None
    """What the request at hand is about: `authorizer.requestResource`."""
    account: Account | None = None

    def __getitem__(self, field: str) -> Any:
        return self.get(field)

    def get(self, field: str) -> Any:
        return self.requested if field == "requestResource" else None


@frozen
class Group:
    kind: ClassVar[str] = "kubernetes.authorization.GroupCheck"
    rights: Rights
    name: str


@frozen
class Check:
    kind: ClassVar[str] = "kubernetes.authorization.ResourceCheck"
    decide: Decide
    account: Account | None = None
    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


@frozen
class PathCheck:
    kind: ClassVar[str] = "kubernetes.authorization.PathCheck"
    check: Check


@frozen
class Decision:
    kind: ClassVar[str] = "kubernetes.authorization.Decision"
    is_allowed: bool
    reason: str


def _path(rights: Rights, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(Check(rights.decide, rights.account, path=path))


def _service_account(rights: Rights, namespace: str, name: str) -> Rights:
    if wrong := namerules.dns_subdomain(name):
        raise EvaluationError(f"Invalid service account name: {wrong[0]}")
    if wrong := namerules.dns_label(namespace):
        raise EvaluationError(f"Invalid service account namespace: {wrong[0]}")
    return Rights(rights.decide, rights.requested, (namespace, name))


def _resource(group: Group, resource: str) -> Check:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return Check(group.rights.decide, group.rights.account, group=group.name, resource=resource)


def _decided(check: Check, verb: str) -> Decision:
    return Decision(*check.decide(dataclasses.replace(check, verb=verb)))


def _within(field: str) -> Callable[[Check, str], Check]:
    return lambda check, value: dataclasses.replace(check, **{field: value})


def _unchanged(check: Check, _selector: str) -> Check:
    """Roles say nothing about selectors, so neither does an answer."""
    return check


OVERLOADS: Final = (
    declare("authorizer -> path(string) pathcheck", _path),
    declare("authorizer -> group(string) groupcheck", Group),
    declare("authorizer -> serviceAccount(string, string) authorizer", _service_account),
    declare("groupcheck -> resource(string) resourcecheck", _resource),
    declare("resourcecheck -> subresource(string) resourcecheck", _within("subresource")),
    declare("resourcecheck -> namespace(string) resourcecheck", _within("namespace")),
    declare("resourcecheck -> name(string) resourcecheck", _within("name")),
    declare("resourcecheck -> fieldSelector(string) resourcecheck", _unchanged),
    declare("resourcecheck -> labelSelector(string) resourcecheck", _unchanged),
    declare("resourcecheck -> check(string) decision", _decided),
    declare("pathcheck -> check(string) decision", lambda path, verb: _decided(path.check, verb)),
    declare("decision -> allowed() bool", lambda decision: decision.is_allowed),
    declare("decision -> reason() string", lambda decision: decision.reason),
    declare("decision -> errored() bool", lambda decision: False),
    declare("decision -> error() string", lambda decision: ""),
)
