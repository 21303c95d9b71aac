"""May the caller do that: one check for every request, whichever transport it comes by.

The words of a refusal are kube-apiserver's, since people search for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from steelyard.kube import errors, namerules, selectors
from steelyard.kube.server.call import Call, User

_NO_MARKUP: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Attributes(NamedTuple):
    """What is asked for: a verb on a resource, or on a path if `plural` is empty."""

    user: User
    verb: str
    path: str = ""
    group: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Decision(NamedTuple):
    allowed: bool
    reason: str = ""
    """Which binding allows it, or what went wrong on the way to a refusal."""


ALLOWED: Final = Decision(True)


class Authorizer(Protocol):
    def decide(self, asked: Attributes) -> Decision: ...


def authorize_call(authorizer: Authorizer, call: Call) -> None:
    """Raises Forbidden."""
    namespace = call.namespace
    if call.plural == "namespaces" and not call.group:
        # A namespace counts as living in itself, so that its own administrators can be given it.
        namespace = call.name
    name = call.name
    if not name and "fieldSelector" in call.options and call.verb in _SELECTING:
        name = _selected_name(call.options["fieldSelector"])
    attributes = Attributes(
        call.user,
        call.verb,
        group=call.group,
        plural=call.plural,
        subresource=call.subresource,
        namespace=namespace,
        name=name,
    )
    require(authorizer, attributes)


def authorize_path(authorizer: Authorizer, user: User, method: str, path: str) -> None:
    """Raises Forbidden."""
    require(authorizer, Attributes(user, method.lower(), path=path))


def require(authorizer: Authorizer, asked: Attributes) -> None:
    """Raises Forbidden."""
    decision = authorizer.decide(asked)
    if not decision.allowed:
        raise forbidden(asked, decision.reason)


_SELECTING: Final = frozenset(("list", "watch"))


def _selected_name(selector: str) -> str:
    """A selection of one name counts as asking for that object, so that rules for single objects allow it."""
    try:
        name = selectors.parse_fields(selector).exact("metadata.name")
    except errors.BadRequest:
        return ""
    return name if name and not namerules.path_segment(name) else ""


def forbidden(asked: Attributes, reason: str = "") -> errors.Forbidden:
    user = asked.user.name.translate(_NO_MARKUP)
    because = f": {reason}" if reason else ""
    if not asked.plural:
        return errors.Forbidden(f'forbidden: User "{user}" cannot {asked.verb} path "{asked.path}"{because}')
    resource = f"{asked.plural}/{asked.subresource}" if asked.subresource else asked.plural
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    what = f"{asked.plural}.{asked.group}" if asked.group else asked.plural
    subject = f'{what} "{asked.name}"' if asked.name else what
    return errors.Forbidden(
        f'{subject} is forbidden: User "{user}" cannot {asked.verb} resource "{resource}"'
        f' in API group "{asked.group}" {where}{because}',
        kind=asked.plural,
        group=asked.group,
        name=asked.name,
    )
