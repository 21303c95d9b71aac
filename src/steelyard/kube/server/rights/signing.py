"""The key that signs tokens: ECDSA on P-256 (ES256) as the platform makes it, or RSA (RS256) as Cluster API does.

Imported when a token is first signed or verified: what it needs takes a tenth of a start.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from steelyard.kube.objects import Object

_COORDINATE_BYTES: Final = 32
_SHA256: Final = hashes.SHA256()


class SigningKey(Protocol):
    algorithm: str
    id: str

    def sign(self, text: bytes) -> bytes: ...

    def has_signed(self, text: bytes, signature: bytes) -> bool: ...

    def published(self) -> Object:
        """Its public half, as an entry of a JSON Web Key Set has it."""
        ...


def load(pem: bytes) -> SigningKey:
    """Raises ValueError for a key that can sign no token."""
    key = serialization.load_pem_private_key(pem, password=None)
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return _EllipticCurve(key)
    if isinstance(key, rsa.RSAPrivateKey):
        return _Rsa(key)
    raise ValueError("the key for service accounts is neither an RSA key nor one on the curve P-256")


class _EllipticCurve:
    algorithm = "ES256"

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        self.id = _id(self._public)

    def sign(self, text: bytes) -> bytes:
        r, s = utils.decode_dss_signature(self._key.sign(text, ec.ECDSA(_SHA256)))
        return r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")

    def has_signed(self, text: bytes, signature: bytes) -> bool:
        if len(signature) != 2 * _COORDINATE_BYTES:
            return False
        r = int.from_bytes(signature[:_COORDINATE_BYTES], "big")
        s = int.from_bytes(signature[_COORDINATE_BYTES:], "big")
        encoded = utils.encode_dss_signature(r, s)
        return _holds(lambda: self._public.verify(encoded, text, ec.ECDSA(_SHA256)))

    def published(self) -> Object:
        numbers = self._public.public_numbers()
        return {
            "use": "sig",
            "kty": "EC",
            "kid": self.id,
            "crv": "P-256",
            "alg": self.algorithm,
            "x": encode(numbers.x.to_bytes(_COORDINATE_BYTES, "big")),
            "y": encode(numbers.y.to_bytes(_COORDINATE_BYTES, "big")),
        }


def _holds(verify: Callable[[], None]) -> bool:
    try:
        verify()
    except InvalidSignature:
        return False
    return True


class _Rsa:
    algorithm = "RS256"

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        self.id = _id(self._public)

    def sign(self, text: bytes) -> bytes:
        return self._key.sign(text, padding.PKCS1v15(), _SHA256)

    def has_signed(self, text: bytes, signature: bytes) -> bool:
        return _holds(lambda: self._public.verify(signature, text, padding.PKCS1v15(), _SHA256))

    def published(self) -> Object:
        numbers = self._public.public_numbers()
        return {
            "use": "sig",
            "kty": "RSA",
            "kid": self.id,
            "alg": self.algorithm,
            "n": encode(numbers.n.to_bytes((numbers.n.bit_length() + 7) // 8, "big")),
            "e": encode(numbers.e.to_bytes((numbers.e.bit_length() + 7) // 8, "big")),
        }


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _id(public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> str:
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return encode(hashlib.sha256(der).digest())
