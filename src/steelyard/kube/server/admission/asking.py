"""`authorizer` in match conditions: what the caller of a request, or a service account, may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.kube.server.call import User
from steelyard.kube.server.catalogue.matching import Attributes
from steelyard.kube.server.rights.authz import Attributes as Asked
from steelyard.kube.server.rights.authz import Authorizer

if TYPE_CHECKING:
    from steelyard.kube.cel.libraries.authorization import Check, Rights


def rights(authorizer: Authorizer, attributes: Attributes) -> Rights:
    from steelyard.kube.cel.libraries.authorization import Check, Rights

    def decide(check: Check) -> tuple[bool, str]:
        return authorizer.decide(_asked(check, attributes.user))

    resource = attributes.served.resource
    requested = Check(
        decide,
        group=resource.group,
        resource=resource.plural,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
    )
    return Rights(decide, requested)


def _asked(check: Check, caller: User) -> Asked:
    user = caller
    if check.account is not None:
        namespace, name = check.account
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        user = User(f"system:serviceaccount:{namespace}:{name}", groups)
    return Asked(
        user,
        check.verb,
        path=check.path,
        group=check.group,
        plural=check.resource,
        subresource=check.subresource,
        namespace=check.namespace,
        name=check.name,
    )
