"""Tokens of service accounts: signed JSON Web Tokens, and the keys that others verify them with.

A token is valid while its account, and the object it is bound to, exist with the UIDs that it names. The signature of a
token is verified once and remembered; time, account and bound object are looked at with every request.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

if TYPE_CHECKING:
    from steelyard.kube.server.rights.signing import SigningKey

DEFAULT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
CONFIGURATION_PATH: Final = "/.well-known/openid-configuration"
KEYS_PATH: Final = "/openid/v1/jwks"
PATHS: Final = (CONFIGURATION_PATH, KEYS_PATH)
_BADLY_SIGNED: Final = "go-jose/go-jose: error in cryptographic primitive"
_LEEWAY: Final = 60
_REMEMBERED: Final = 2048
_COORDINATE_BYTES: Final = 32


class InvalidToken(Exception):
    """Why a token is not accepted."""


@frozen
class Contents:
    audiences: tuple[str, ...]
    issued: int
    not_before: int
    expires: int
    id: str
    namespace: str
    account: str
    account_uid: str
    bound: tuple[tuple[str, str, str], ...] = ()
    """Kind in lower case, name and UID of the objects that the token is bound to, or that it tells of."""


class Signer:
    """`key` gives the private key, PEM, when it is first needed: most servers never sign anything."""

    __slots__ = ("_key", "_loaded", "_verified", "issuer")

    def __init__(self, key: Callable[[], bytes], issuer: str = DEFAULT_ISSUER) -> None:
        self.issuer = issuer
        self._key = key
        self._loaded: SigningKey | None = None
        self._verified: dict[bytes, Contents] = {}

    def sign(
        self,
        account: Object,
        audiences: Sequence[str],
        seconds: int,
        now: datetime,
        bound: Sequence[tuple[str, Object]],
    ) -> str:
        key = self._signing_key()
        issued = int(now.timestamp())
        kubernetes: Object = {
            "namespace": objects.namespace(account),
            "serviceaccount": {"name": objects.name(account), "uid": objects.uid(account)},
        }
        for kind, obj in bound:
            reference = {"name": objects.name(obj), "uid": objects.uid(obj)}
            kubernetes[kind] = {field: value for field, value in reference.items() if value}
        contents: Object = {
            "aud": list(audiences),
            "exp": issued + seconds,
            "iat": issued,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": kubernetes,
            "nbf": issued,
            "sub": f"system:serviceaccount:{objects.namespace(account)}:{objects.name(account)}",
        }
        head = _encode(orjson.dumps({"alg": key.algorithm, "kid": key.id}))
        signed = f"{head}.{_encode(orjson.dumps(contents))}"
        return f"{signed}.{_encode(key.sign(signed.encode()))}"

    def looks_like_ours(self, token: str) -> bool:
        """Whether the token says that this server issued it, true or not."""
        try:
            return token.count(".") == 2 and _decode_json(token.split(".")[1]).get("iss") == self.issuer
        except InvalidToken:
            return False

    def verify(self, token: str, now: datetime) -> Contents:
        """The contents of a token that is well signed and valid at this time. Raises InvalidToken."""
        digest = hashlib.sha256(token.encode()).digest()
        contents = self._verified.get(digest)
        if contents is None:
            contents = self._verify_signature(token)
            if len(self._verified) >= _REMEMBERED:
                self._verified.clear()
            self._verified[digest] = contents
        seconds = now.timestamp()
        if seconds > contents.expires + _LEEWAY:
            raise InvalidToken("service account token has expired")
        if seconds < contents.not_before - _LEEWAY:
            raise InvalidToken("service account token is not valid yet")
        if seconds < contents.issued - _LEEWAY:
            raise InvalidToken("service account token is issued in the future")
        return contents

    def _verify_signature(self, token: str) -> Contents:
        signed, _, signature_text = token.rpartition(".")
        head, _, body = signed.partition(".")
        key = self._signing_key()
        is_of_the_kind = _decode_json(head).get("alg") == key.algorithm
        if not is_of_the_kind or not key.has_signed(signed.encode(), _decode(signature_text)):
            raise InvalidToken(_BADLY_SIGNED)
        return self._contents(_decode_json(body))

    def _contents(self, body: Object) -> Contents:
        kubernetes = objects.mapping(body.get("kubernetes.io"))
        account = objects.mapping(kubernetes.get("serviceaccount"))
        namespace, name = str(kubernetes.get("namespace") or ""), str(account.get("name") or "")
        if body.get("iss") != self.issuer or body.get("sub") != f"system:serviceaccount:{namespace}:{name}":
            raise InvalidToken("the token was not issued for a service account of this server")
        bound = tuple(
            (kind, str(reference.get("name") or ""), str(reference.get("uid") or ""))
            for kind, reference in ((kind, objects.mapping(kubernetes.get(kind))) for kind in ("pod", "secret", "node"))
            if reference
        )
        return Contents(
            tuple(map(str, objects.sequence(body.get("aud")))),
            int(body["iat"]),
            int(body["nbf"]),
            int(body["exp"]),
            str(body.get("jti") or ""),
            namespace,
            name,
            str(account.get("uid") or ""),
            bound,
        )

    def configuration(self, address: str) -> bytes:
        """The OpenID discovery document; `address` is where the server is reached."""
        return orjson.dumps(
            {
                "issuer": self.issuer,
                "jwks_uri": f"{address or self.issuer}{KEYS_PATH}",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [self._signing_key().algorithm],
            }
        )

    def key_set(self) -> bytes:
        return orjson.dumps({"keys": [self._signing_key().published()]})

    def _signing_key(self) -> SigningKey:
        if self._loaded is None:
            from steelyard.kube.server.rights import signing

            self._loaded = signing.load(self._key())
        return self._loaded


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise InvalidToken("the token is not encoded as base64url") from None


def _decode_json(text: str) -> Object:
    try:
        value: Any = orjson.loads(_decode(text))
    except orjson.JSONDecodeError:
        raise InvalidToken("the token holds no JSON") from None
    return objects.mapping(value)
