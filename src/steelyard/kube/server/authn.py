"""Who is calling: a client certificate, a bearer token, or nobody.

A certificate was verified by TLS already, so its subject is believed: the common name is the user, the organisations
are the groups. Tokens are known by their SHA-256 only, so that neither memory dumps nor the data directory give one
away. Credentials that are presented and wrong are refused; only their absence makes a caller anonymous.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Protocol

from steelyard.kube import errors, pki
from steelyard.kube.server.call import AUTHENTICATED, UNAUTHENTICATED, User

ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))
_BEARER: Final = "bearer "


class Authenticator(Protocol):
    def certificate(self, der: bytes) -> User:
        """The user of a client certificate that TLS has verified. Raises Unauthorized. Asked once per connection."""
        ...

    def token(self, token: str) -> User:
        """The user of a bearer token. Raises Unauthorized."""
        ...


class TokensAndCertificates:
    """Certificates of the serving authority, and a table of tokens: `{hash_token("…"): User("admin", …)}`."""

    def __init__(self, tokens: Mapping[str, User] | None = None) -> None:
        self._users = {digest: authenticated(user) for digest, user in (tokens or {}).items()}

    def certificate(self, der: bytes) -> User:
        name, organisations = pki.subject_of(der)
        if not name:
            raise unauthorized()
        return authenticated(User(name, organisations))

    def token(self, token: str) -> User:
        user = self._users.get(hash_token(token))
        if user is None:
            raise unauthorized()
        return user


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def bearer_token(authorization: str) -> str:
    """The token of an Authorization header, empty if it holds none: `Bearer abc` is `abc`."""
    return authorization[len(_BEARER) :].strip() if authorization[: len(_BEARER)].lower() == _BEARER else ""


def authenticated(user: User) -> User:
    if AUTHENTICATED in user.groups:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)


def unauthorized() -> errors.Unauthorized:
    """Says nothing about why, as upstream: a reason would help those who try."""
    return errors.Unauthorized("Unauthorized")
