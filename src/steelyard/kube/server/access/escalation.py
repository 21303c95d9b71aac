"""Nobody can grant what they do not hold: the check of every write to a role or a binding.

The right to `escalate` roles or to `bind` a role lifts it, as does membership of `system:masters`. What is refused, and
the words, are upstream's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from steelyard.kube import errors, fields, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.access.rbac import Rbac
from steelyard.kube.server.call import SYSTEM_MASTERS, Call
from steelyard.kube.server.rights import rules
from steelyard.kube.server.rights.authz import Attributes
from steelyard.kube.server.rights.policy import BINDINGS, GROUP, ROLES, RoleMissing

_COLLECTED: Final = frozenset(("ownerReferences", "finalizers", "managedFields", "resourceVersion"))
"""What a garbage collector changes; doing so grants nothing."""
_AGGREGATION: Final = "must have cluster-admin privileges to use the aggregationRule"


def check(rbac: Rbac, call: Call, obj: Object, old: Object | None) -> None:
    """Raises Forbidden, and NotFound for a binding to a role that does not exist."""
    if SYSTEM_MASTERS in call.user.groups or (old is not None and _grants_the_same(obj, old)):
        return
    if call.plural in ROLES:
        _check_role(rbac, call, obj, old)
    elif call.plural in BINDINGS:
        _check_binding(rbac, call, obj)


def _check_role(rbac: Rbac, call: Call, obj: Object, old: Object | None) -> None:
    if _may(rbac, call, "escalate", call.plural, call.name):
        return
    _confirm(rbac, call, obj, objects.sequence(obj.get("rules")))
    if _aggregates(obj) or (old is not None and _aggregates(old)):
        held, _ = rbac.policy.held(call.user, call.namespace)
        if rules.uncovered(held, rules.FULL_AUTHORITY):
            raise _refusal(call, obj, _AGGREGATION)


def _check_binding(rbac: Rbac, call: Call, obj: Object) -> None:
    reference = objects.mapping(obj.get("roleRef"))
    kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
    plural = {"Role": "roles", "ClusterRole": "clusterroles"}.get(kind)
    group = str(reference.get("apiGroup") or GROUP)
    if plural is not None and _may(rbac, call, "bind", plural, name, group):
        return
    try:
        granted = rbac.policy.role(kind, name, call.namespace)
    except RoleMissing as error:
        if plural is None:
            raise errors.Unclassified(str(error)) from None
        # Upstream names what was asked for, not what is missing.
        raise errors.not_found(f"{call.plural}.{GROUP}", name) from None
    _confirm(rbac, call, obj, [rule.source for rule in granted])


def _confirm(rbac: Rbac, call: Call, obj: Object, wanted: Iterable[Object]) -> None:
    held, unresolved = rbac.policy.held(call.user, call.namespace)
    missing = rules.uncovered(held, wanted)
    if not missing:
        return
    user = call.user
    message = (
        f"user {fields.quote(user.name)} (groups={rules.go_list(user.groups)}) is attempting to grant RBAC permissions "
        f"not currently held:\n{rules.described(missing)}"
    )
    raise _refusal(call, obj, f"{message}; resolution errors: [{unresolved}]" if unresolved else message)


def _may(rbac: Rbac, call: Call, verb: str, plural: str, name: str, group: str = GROUP) -> bool:
    asked = Attributes(call.user, verb, group=group, plural=plural, namespace=call.namespace, name=name)
    return rbac.decide(asked).allowed


def _refusal(call: Call, obj: Object, why: str) -> errors.Forbidden:
    return errors.forbidden(f"{call.plural}.{GROUP}", objects.name(obj), why)


def _aggregates(role: Object) -> bool:
    return bool(objects.at(role, "aggregationRule", "clusterRoleSelectors"))


def _grants_the_same(obj: Object, old: Object) -> bool:
    """Whether only what garbage collection needs differs."""
    return _without_collected(obj) == _without_collected(old)


def _without_collected(obj: Object) -> Object:
    metadata = {key: value for key, value in objects.metadata(obj).items() if key not in _COLLECTED and value}
    return {**obj, "metadata": metadata}
