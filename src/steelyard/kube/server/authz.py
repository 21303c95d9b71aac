"""May the caller do that: one check for every request, made by the transport before the API is called.

The words of a refusal are kube-apiserver's, since people search for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from steelyard.kube import errors
from steelyard.kube.server.call import AUTHENTICATED, SYSTEM_MASTERS, Call, User


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked for: a verb on a resource, or on a path if `plural` is empty."""

    user: User
    verb: str
    path: str = ""
    group: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Authorizer(Protocol):
    def allows(self, attributes: Attributes) -> bool: ...


class MastersOnly:
    """Everything for `system:masters`; discovery and health for other authenticated users; health for everybody."""

    def allows(self, attributes: Attributes) -> bool:
        groups = attributes.user.groups
        if SYSTEM_MASTERS in groups:
            return True
        if attributes.plural or attributes.verb not in ("get", "head"):
            return False
        path = attributes.path
        return path in _PUBLIC or (
            AUTHENTICATED in groups and (path in _DISCOVERY or path.startswith(_DISCOVERY_TREES))
        )


_PUBLIC: Final = frozenset(("/healthz", "/livez", "/readyz", "/version", "/version/"))
_DISCOVERY: Final = frozenset(("/api", "/apis", "/openapi"))
_DISCOVERY_TREES: Final = ("/api/", "/apis/", "/openapi/")


def authorize_call(authorizer: Authorizer, call: Call) -> None:
    """Raises Forbidden."""
    namespace = call.namespace
    if call.plural == "namespaces" and not call.group:
        # A namespace counts as living in itself, so that its own administrators can be given it.
        namespace = call.name
    attributes = Attributes(
        call.user,
        call.verb,
        group=call.group,
        plural=call.plural,
        subresource=call.subresource,
        namespace=namespace,
        name=call.name,
    )
    if not authorizer.allows(attributes):
        raise forbidden(attributes)


def authorize_path(authorizer: Authorizer, user: User, method: str, path: str) -> None:
    """Raises Forbidden."""
    attributes = Attributes(user, method.lower(), path=path)
    if not authorizer.allows(attributes):
        raise forbidden(attributes)


def forbidden(asked: Attributes) -> errors.Forbidden:
    user = asked.user.name
    if not asked.plural:
        return errors.Forbidden(f'forbidden: User "{user}" cannot {asked.verb} path "{asked.path}"')
    resource = f"{asked.plural}/{asked.subresource}" if asked.subresource else asked.plural
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    what = f"{asked.plural}.{asked.group}" if asked.group else asked.plural
    subject = f'{what} "{asked.name}"' if asked.name else what
    return errors.Forbidden(
        f'{subject} is forbidden: User "{user}" cannot {asked.verb} resource "{resource}"'
        f' in API group "{asked.group}" {where}',
        kind=asked.plural,
        group=asked.group,
        name=asked.name,
    )
