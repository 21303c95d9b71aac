"""Acting as somebody else: `kubectl --as`. Each user, group, UID and extra that is taken on needs a right to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from steelyard.kube import errors, fields, namerules
from steelyard.kube.server.access.accounts import account_groups
from steelyard.kube.server.call import AUTHENTICATED, UNAUTHENTICATED, User
from steelyard.kube.server.rights import authn, authz
from steelyard.kube.server.rights.authz import Attributes, Authorizer

PREFIX: Final = b"impersonate-"
_EXTRA: Final = b"impersonate-extra-"
_ACCOUNT: Final = "system:serviceaccount:"
_AUTHENTICATION: Final = "authentication.k8s.io"


def acting_user(authorizer: Authorizer, user: User, headers: Sequence[tuple[bytes, bytes]], uri: str) -> User:
    """The user that a request is made as. Raises Forbidden, and PlainInternalError where no user is named."""
    name, uid = "", ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    for header, value in headers:
        if not header.startswith(PREFIX):
            continue
        text = value.decode("utf-8", "replace").strip()
        if header == b"impersonate-user":
            name = name or text
        elif header == b"impersonate-group":
            groups.append(text)
        elif header == b"impersonate-uid":
            uid = uid or text
        elif header.startswith(_EXTRA):
            extra.setdefault(unquote(header[len(_EXTRA) :].decode("latin-1").lower()), []).append(text)
    if not name:
        if groups or extra or uid:
            asked_for = _described(groups, uid, extra)
            raise errors.PlainInternalError(
                f"Internal Server Error: {fields.quote(uri)}: requested {asked_for} without impersonating a user\n"
            )
        return user
    for asked in _asked(user, name, groups, uid, extra):
        authz.require(authorizer, asked)
    return User(name, _all_groups(name, groups), uid, {key: tuple(values) for key, values in extra.items()})


def _described(groups: list[str], uid: str, extra: dict[str, list[str]]) -> str:
    """As Go prints the references that upstream makes of them: kind, name, version and field, spaces between."""
    version = f"{_AUTHENTICATION}/v1"
    listed = [f"{{Group  {group}    }}" for group in groups]
    listed += [f"{{UserExtra  {value}  {version}  {key}}}" for key, values in extra.items() for value in values]
    if uid:
        listed.append(f"{{UID  {uid}  {version}  }}")
    return f"[{' '.join(listed)}]"


def _asked(user: User, name: str, groups: list[str], uid: str, extra: dict[str, list[str]]) -> list[Attributes]:
    account = split_account(name)
    if account is not None:
        asked = [_attributes(user, "serviceaccounts", account[1], namespace=account[0])]
    else:
        asked = [_attributes(user, "users", name)]
    asked += [_attributes(user, "groups", group) for group in groups]
    for key, values in extra.items():
        asked += [
            Attributes(user, "impersonate", group=_AUTHENTICATION, plural="userextras", subresource=key, name=value)
            for value in values
        ]
    if uid:
        asked.append(Attributes(user, "impersonate", group=_AUTHENTICATION, plural="uids", name=uid))
    return asked


def _attributes(user: User, plural: str, name: str, *, namespace: str = "") -> Attributes:
    return Attributes(user, "impersonate", plural=plural, name=name, namespace=namespace)


def _all_groups(name: str, given: list[str]) -> tuple[str, ...]:
    groups = list(given)
    account = split_account(name)
    if account is not None and not groups:
        groups += account_groups(account[0])
    if name == authn.ANONYMOUS.name:
        return tuple(groups) if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    is_settled = AUTHENTICATED in groups or UNAUTHENTICATED in groups
    return tuple(groups) if is_settled else (*groups, AUTHENTICATED)


def split_account(name: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name; None for any other."""
    namespace, colon, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or not colon or namerules.dns_label(namespace) or namerules.dns_subdomain(account):
        return None
    return namespace, account
