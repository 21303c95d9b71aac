"""Who is calling: a client certificate, a bearer token, or nobody.

A certificate was verified by TLS already, so its subject is believed: the common name is the user, the organisations
are the groups. It goes before a token, and a token before a certificate that is not believed. Tokens are known by
their SHA-256 only, so that neither memory dumps nor the data directory give one away. Credentials that are presented
and wrong are refused; only their absence makes a caller anonymous.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Protocol

from steelyard.kube import errors, pki
from steelyard.kube.server.call import AUTHENTICATED, UNAUTHENTICATED, User

ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))
CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
EXTRA_SPACE: Final = "the provided Authorization header contains extra space before the bearer token, and is ignored"


class Authenticator(Protocol):
    def certificate(self, der: bytes) -> tuple[User | None, float]:
        """The user of a client certificate that TLS has verified, and until when (Unix time) that counts.

        None for one that names nobody. Raises Unauthorized. Asked once per connection.
        """
        ...

    def token(self, token: str) -> User:
        """The user of a bearer token. Raises Unauthorized."""
        ...


class TokensAndCertificates:
    """Certificates of the serving authority, and a table of tokens: `{hash_token("…"): User("admin", …)}`."""

    def __init__(self, tokens: Mapping[str, User] | None = None) -> None:
        self._users = {digest: authenticated(user) for digest, user in (tokens or {}).items()}

    def certificate(self, der: bytes) -> tuple[User | None, float]:
        subject = pki.subject_of(der)
        if not subject.common_name:
            return None, subject.expires
        if len(subject.uids) > 1 or "" in subject.uids:
            raise unauthorized()
        credential = f"X509SHA256={hashlib.sha256(der).hexdigest()}"
        user = User(subject.common_name, subject.organisations, "".join(subject.uids), {CREDENTIAL_ID: (credential,)})
        return authenticated(user), subject.expires

    def token(self, token: str) -> User:
        user = self._users.get(hash_token(token))
        if user is None:
            raise unauthorized()
        return user


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def bearer_token(authorization: str) -> str | None:
    """The token of an Authorization header, None if it holds none: `Bearer abc` is `abc`. Upstream stops at a space."""
    parts = authorization.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else None


def authenticated(user: User) -> User:
    if AUTHENTICATED in user.groups:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)


def unauthorized() -> errors.Unauthorized:
    """Says nothing about why, as upstream: a reason would help those who try."""
    return errors.Unauthorized("Unauthorized")
